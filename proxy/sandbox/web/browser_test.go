package web_test

import (
	"fmt"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/sandbox"

	"github.com/chromedp/chromedp"
)

// Every page fits every screen, has no violation that axe-core finds, and leaves no error in the console of the browser.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	p, r := browser.NewTab(t), start(t, sandbox.Options{})
	r.fill()
	script, checked := browser.Axe(t)
	if !checked {
		t.Log("not checked with axe-core: BILLBRIDGE_AXE does not name its axe.min.js")
	}
	pages := [][2]string{
		{"calls", "/desk/calls"},
		{"calls-filtered", "/desk/calls?operation=bill.create&partner=1"},
		{"calls-none", "/desk/calls?code=NONE"},
		{"call", r.number("bill.create", "PAID")},
		{"call-wrong-hash", r.number("bill.create", "WRONG-HASH")},
		{"call-lost", r.number("bill.create", "LOST")},
		{"call-callback", r.number("callback.payment", "PAID")},
		{"bills", "/desk/bills"},
		{"bills-none", "/desk/bills?state=D"},
		{"bill-unpaid", "/desk/bill?partner=1&bill=UNPAID"},
		{"bill-paid", "/desk/bill?partner=1&bill=PAID"},
		{"bill-refuses", "/desk/bill?partner=1&bill=REFUSES"},
		{"scenarios", "/desk/scenarios"},
		{"values", "/desk/values"},
		{"sign-in", "/sign-in"},
		{"not-found", "/desk/bill?bill=NONE"},
	}
	for _, l := range browser.Looks[:proxytest.Size(1, len(browser.Looks))] {
		p.Use(l)
		p.Open(r.control + "/desk/calls?lang=" + l.Language)
		for _, one := range pages {
			where := fmt.Sprintf("desk-%s-%s-%d-%s", one[0], l.Language, l.Width, l.Scheme)
			p.Open(r.control + one[1])
			p.Fits(where, l)
			p.WholeWords(where, l)
			p.Picture(where)
			if checked {
				p.Accessible(where, script)
			}
			if got := browser.Run(p, chromedp.Evaluate[string](`document.documentElement.lang`)); got != l.Language {
				t.Errorf("%s: the language is %s", where, got)
			}
			p.Quiet(where, "status of 404")
		}
	}
}

// A partner signs in, sees a call as soon as it is made, without a reload, and copies it as curl: with the keyboard alone.
func TestDeveloperInABrowser(t *testing.T) {
	t.Parallel()
	p, r := browser.NewTab(t), start(t, sandbox.Options{ControlToken: "operator-token-012345"})
	p.Use(browser.Looks[0])
	p.Open(r.control + "/desk/calls")
	p.Wait("the page for signing in", `location.pathname === "/sign-in" && document.activeElement.name === "token"`)
	p.Do("the token", chromedp.KeyEvent(hanaToken))
	p.Follow("signing in", chromedp.KeyEvent("\r"))
	p.Wait("the visitor", `document.querySelector(".visitor")?.innerText === "Hana"`)
	p.Do("a mark that a reload removes", chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))

	r.call("create", demoKey, "OF-DEMO", nil)
	r.call("create", hanaKey, "OF-HANA", nil)
	p.Wait("the call", `document.getElementById("rows")?.innerText.includes("OF-HANA") && window.sameDocument`)
	if browser.Run(p, chromedp.Evaluate[bool](`document.querySelector("main").innerText.includes("OF-DEMO")`)) {
		t.Error("the call of another partner is shown")
	}
	p.Do("the focus", chromedp.Evaluate[chromedp.Void](`void document.querySelector("#rows a").focus()`))
	p.Follow("opening the call", chromedp.KeyEvent("\r"))
	p.Wait("the call", `document.querySelector("h1")?.textContent === "Call: bill.create"`)
	p.Do("what the clipboard gets", chromedp.Evaluate[chromedp.Void](`void (navigator.clipboard.writeText = async text => { window.copied = text })`))
	p.Do("copying", chromedp.Focus(chromedp.CSS("[data-copy]")), chromedp.KeyEvent("\r"))
	p.Wait("the command", `window.copied?.startsWith("curl -s '-XPOST'") && document.querySelector("[data-copy]")?.textContent === "Copied"`)

	p.Do("the bill", chromedp.Evaluate[chromedp.Void](`void [...document.querySelectorAll("main a")].find(e => e.textContent === "The bill").focus()`))
	p.Follow("opening the bill", chromedp.KeyEvent("\r"))
	p.Do("the button", chromedp.Focus(chromedp.ID("do-pay")))
	p.Follow("paying", chromedp.KeyEvent("\r"))
	p.Wait("the payment and its callback", `document.querySelector("main")?.innerText.includes("paid, approval number") && document.querySelector("main")?.innerText.includes("delivered")`)
	p.Quiet("a developer")
}
