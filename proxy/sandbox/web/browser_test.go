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
