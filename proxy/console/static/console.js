// Scripts of the console. Every page works without them.
(function () {
  'use strict'

  // A part that is refreshed stays as it is if nothing has changed, with the selected text in it.
  const last = new Map()
  document.body.addEventListener('htmx:beforeSwap', function (event) {
    const detail = event.detail, part = detail.requestConfig.elt, text = detail.xhr.responseText
    if (!(part.getAttribute('hx-trigger') || '').startsWith('every')) return
    if (last.get(part.id) === text) detail.shouldSwap = false
    last.set(part.id, text)
  })

  // A page that cannot be refreshed says so. If its session has ended, it asks for a token.
  document.body.addEventListener('htmx:afterRequest', function (event) {
    const detail = event.detail
    if (!(detail.elt.getAttribute('hx-trigger') || '').startsWith('every')) return
    if (detail.xhr.status === 401) location.reload()
    document.getElementById('old').hidden = detail.successful
  })
})()
