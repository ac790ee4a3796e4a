package console_test

import (
	"fmt"
	"testing"

	"billbridge/proxy/proxytest/browser"

	"github.com/chromedp/chromedp"
)

// A document is translated while it is typed, without a reload. A refusal shows its place.
func TestPlaygroundInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, "")
	p.Use(browser.Looks[0])
	p.Open(s.admin + "/playground?operation=bill.create&direction=legacy+v2")
	p.Wait("the example", `document.getElementById("result")?.innerText.includes('"billId": "12345678900000000001"')`)
	p.Do("a mark that a reload removes", chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	const has = `document.getElementById("result").innerText.includes(%q)`
	fill := func(name, text string) {
		t.Helper()
		p.Do("clearing "+name, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (document.querySelector("textarea[name=%s]").value = "")`, name)),
			chromedp.SendKeys(chromedp.CSS("textarea[name="+name+"]"), text))
	}

	fill("document", `{"apikey":"key-1","bill":{"price":"20000","phone":"01012345678","memo":1}}`)
	p.Wait("the price", fmt.Sprintf(has, `"price": 20000`))
	p.Wait("the field that is dropped", fmt.Sprintf(has, "is not a field of this operation"))
	if !browser.Run(p, chromedp.Evaluate[bool](`window.sameDocument === true && !location.href.includes("01012345678")`)) {
		t.Error("the page was loaded again, or the document is in its address")
	}
	p.Picture("playground-typed")

	fill("document", "{\"apikey\":\"key-1\",\n \"bill\":{\"price\":\"020\"}}")
	p.Wait("the place of the refusal", fmt.Sprintf(has, "Line 2, column 18"))
	p.Picture("playground-refused")

	p.Follow("the direction", chromedp.Evaluate[chromedp.Void](`void (document.querySelector("select[name=direction]").value = "v2 v2")`),
		chromedp.Click(chromedp.CSS("form[action='/playground'] button:not(.second)")))
	p.Wait("the page without a script", `window.sameDocument !== true && document.querySelector("select[name=direction]")?.value === "v2 v2"`)
	p.Wait("the result in v2", fmt.Sprintf(has, "differs from apiKey in case only"))
	if !browser.Run(p, chromedp.Evaluate[bool](`document.querySelector("textarea[name=document]").value.includes("020")`)) {
		t.Error("the page has lost what was typed")
	}
	p.Quiet("playground", "htmx:sendAbort", "htmx:afterRequest") // of a check that the next one, or the next page, replaced
}

// The table is searched while words are typed.
func TestTableInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, "")
	p.Use(browser.Looks[0])
	p.Open(s.admin + "/table")
	const operations = `[...document.querySelectorAll("#rows h2")].map(e => e.textContent).join(" ")`
	p.Do("typing", chromedp.SendKeys(chromedp.CSS("input[name=q]"), "price destroy"))
	p.Wait("the rows that match", operations+` === "bill.destroy" && location.search === "?q=price+destroy" || `+operations+` === "bill.destroy" && location.search === "?q=price%20destroy"`)
	p.Picture("table-search")
	p.Follow("loading it again", chromedp.Reload())
	p.Wait("the same rows", operations+` === "bill.destroy"`)
	p.Follow("the playground", chromedp.Click(chromedp.CSS("#rows a[href^='/playground']")))
	p.Wait("the example", `document.querySelector("select[name=operation]")?.value === "bill.destroy"`)
	p.Quiet("table", "htmx:sendAbort", "htmx:afterRequest") // of a search that the next one replaced
}
