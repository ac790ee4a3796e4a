// Scripts of the pages. Every page works without them.
(function () {
  'use strict'

  // A part that is refreshed stays as it is while details in it are open, and if nothing has changed, with the selected text in it.
  const last = new Map()
  document.body.addEventListener('htmx:beforeSwap', function (event) {
    const detail = event.detail, part = detail.requestConfig.elt, text = detail.xhr.responseText
    if (!(part.getAttribute('hx-trigger') || '').startsWith('every')) return
    if (last.get(part.id) === text || part.querySelector('details[open]')) return void (detail.shouldSwap = false)
    last.set(part.id, text)
  })

  // Times are in the zone of the browser, with how long ago they are. They are sent in UTC.
  const ago = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: 'auto', style: 'short' })
  const units = [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [0, 'second']]
  function local(at) {
    const offset = -at.getTimezoneOffset(), two = n => String(Math.trunc(n)).padStart(2, '0')
    const zone = (offset < 0 ? '-' : '+') + two(Math.abs(offset) / 60) + ':' + two(Math.abs(offset) % 60)
    return new Date(at.getTime() + offset * 60000).toISOString().slice(0, 19) + (offset === 0 ? 'Z' : zone)
  }
  // Short: without what a time has in common with now.
  function short(at, now) {
    const [day, time] = at.split('T'), today = now.slice(0, 10)
    if (day.slice(0, 4) !== today.slice(0, 4)) return day
    return day === today ? time.slice(0, 8) : day.slice(5) + ' ' + time.slice(0, 5)
  }
  function showTimes() {
    const now = local(new Date())
    for (const e of document.querySelectorAll('time')) {
      const at = new Date(e.dateTime), seconds = (at - Date.now()) / 1000
      const [size, unit] = units.find(([size]) => Math.abs(seconds) >= size)
      e.title = local(at)
      e.textContent = short(e.title, now)
      e.dataset.ago = ago.format(Math.trunc(seconds / (size || 1)), unit).replace(/ sec\.?/, ' s').replace('.', '')
    }
  }
  showTimes()
  setInterval(showTimes, 10000)
  document.body.addEventListener('htmx:afterSwap', showTimes)
  for (const e of document.querySelectorAll('[data-at]')) e.value = local(new Date(e.dataset.at)).slice(0, 19)
  document.addEventListener('formdata', function (event) {
    for (const e of event.target.querySelectorAll('[type=datetime-local]')) {
      if (e.value) event.formData.set(e.name, new Date(e.value).toISOString())
    }
  })

  // A button copies the text of an element, where the browser allows that.
  for (const e of document.querySelectorAll('[data-copy]')) {
    e.hidden = !navigator.clipboard
    e.addEventListener('click', async function () {
      await navigator.clipboard.writeText(document.getElementById(e.dataset.copy).textContent)
      e.textContent = e.dataset.copied
    })
  }

  // A page that cannot be refreshed says so. If its session has ended, it asks for a token.
  document.body.addEventListener('htmx:afterRequest', function (event) {
    const detail = event.detail
    if (!(detail.elt.getAttribute('hx-trigger') || '').startsWith('every')) return
    if (detail.xhr.status === 401) location.reload()
    document.getElementById('old').hidden = detail.successful
  })
})()
