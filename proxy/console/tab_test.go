package console_test

import (
	"fmt"

	"billbridge/proxy/proxytest/browser"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// hurry makes pages that ask for news every 5 seconds ask every half second. It must be called before they are opened.
func hurry(p *browser.Tab) {
	p.T.Helper()
	script := cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `((timeout) => {
		window.setTimeout = (f, wait, ...args) => timeout(f, wait === 5000 ? 500 : wait, ...args)
	})(window.setTimeout)`}
	works(p.T)(chromedp.Call(p.Ctx, cdppage.AddScriptToEvaluateOnNewDocument, script))
}

// click follows the first link or button of main whose text is this one.
func click(p *browser.Tab, text string) {
	p.T.Helper()
	p.Do("the place of "+text, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (
		document.querySelectorAll("[data-clicked]").forEach(e => e.removeAttribute("data-clicked")),
		[...document.querySelectorAll("main a, main button")].find(e => e.textContent === %q)
			?.setAttribute("data-clicked", ""))`, text)))
	p.Follow("clicking "+text, chromedp.Click(chromedp.CSS("[data-clicked]")))
}

// sees waits until the page has a text.
func sees(p *browser.Tab, text string) {
	p.T.Helper()
	p.Wait("the text "+text, fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text))
}
