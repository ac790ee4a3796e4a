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

  // A live list: rows arrive at its top. It can be paused; then the rows wait.
  const list = document.querySelector('[data-live]')
  if (!list) return
  const rows = document.getElementById('rows'), state = document.getElementById('live'), pause = document.getElementById('pause')
  const mostRows = 500, mostWaiting = 50
  let paused = false, over = false, waiting = []

  function show(text) { if (state.textContent !== text) state.textContent = text }
  function trim() {
    while (rows.rows.length > mostRows) rows.deleteRow(-1)
    const none = document.getElementById('none')
    if (none && rows.rows.length > 0) none.remove()
  }

  list.addEventListener('htmx:sseOpen', function () { if (!paused) show(state.dataset.live) })
  list.addEventListener('htmx:sseError', function () { if (!paused) show(state.dataset.off) })
  list.addEventListener('htmx:sseBeforeMessage', function (event) {
    if (!paused) return
    event.preventDefault()
    waiting.unshift(event.detail.data)
    waiting.length = Math.min(waiting.length, mostWaiting)
  })
  list.addEventListener('htmx:sseMessage', trim)
  list.addEventListener('htmx:sseClose', function (event) {
    if (event.detail.type !== 'message') return
    over = true
    if (!paused) location.reload()
  })

  pause.hidden = false
  pause.addEventListener('click', function () {
    paused = !paused
    pause.textContent = paused ? pause.dataset.resume : pause.dataset.pause
    show(paused ? state.dataset.paused : state.dataset.live)
    if (paused) return
    if (over) return location.reload()
    rows.insertAdjacentHTML('afterbegin', waiting.join(''))
    waiting = []
    trim()
  })
})()
