package web_test

import (
	"testing"

	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/sandbox"

	"github.com/chromedp/chromedp"
)

// Every page fits every screen, has no violation that axe-core finds, and leaves no error in the console of the browser.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	p, r := browser.NewTab(t), start(t)
	r.fill()
	p.Check(r.control, [][2]string{
		{"desk-calls", "/desk/calls"},
		{"desk-calls-filtered", "/desk/calls?operation=bill.create&partner=1"},
		{"desk-calls-none", "/desk/calls?code=NONE"},
		{"desk-call", r.number("bill.create", "PAID")},
		{"desk-call-wrong-hash", r.number("bill.create", "WRONG-HASH")},
		{"desk-call-lost", r.number("bill.create", "LOST")},
		{"desk-call-callback", r.number("callback.payment", "PAID")},
		{"desk-bills", "/desk/bills"},
		{"desk-bills-none", "/desk/bills?state=D"},
		{"desk-bill-unpaid", "/desk/bill?partner=1&bill=UNPAID"},
		{"desk-bill-paid", "/desk/bill?partner=1&bill=PAID"},
		{"desk-bill-refuses", "/desk/bill?partner=1&bill=REFUSES"},
		{"desk-scenarios", "/desk/scenarios"},
		{"desk-values", "/desk/values"},
		{"desk-sign-in", "/sign-in"},
		{"desk-not-found", "/desk/bill?bill=NONE"},
	}, "status of 404")
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
