package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/sandbox"

	"github.com/chromedp/chromedp"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := browser.End(); err != nil {
		fmt.Fprintln(os.Stderr, "ending the browser:", err)
		code = 1
	}
	os.Exit(code)
}

// A phone is a tab of a real browser with the size of a phone.
type phone struct{ *browser.Tab }

func newPhone(t *testing.T) phone {
	t.Helper()
	p := phone{browser.NewTab(t)}
	p.Do("a browser", chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch))
	return p
}

// open opens a page and checks that it fits a phone.
func (p phone) open(page string) {
	p.T.Helper()
	p.Do("opening "+page, chromedp.Navigate(page), chromedp.WaitVisible(chromedp.CSS("main")))
	p.fits()
}

// fits checks that nothing is wider than the phone and that controls are large enough. This also shows that the policy
// allows the style.
func (p phone) fits() {
	p.T.Helper()
	width := browser.Run(p.Tab, chromedp.Evaluate[int](`document.documentElement.scrollWidth`))
	small := browser.Run(p.Tab, chromedp.Evaluate[[]string](`[...document.querySelectorAll('button, label.choice')]
		.filter(e => e.offsetParent && (e.offsetHeight < 48 || parseFloat(getComputedStyle(e).fontSize) < 16)).map(e => e.outerHTML)`))
	if width > 390 {
		p.T.Errorf("the page is %d wide", width)
	}
	if len(small) > 0 {
		p.T.Errorf("too small to touch: %s", small)
	}
}

func (p phone) text(selector string) string {
	p.T.Helper()
	return browser.Run(p.Tab, chromedp.Text(chromedp.CSS(selector)))
}

// shows reports whether an element is visible.
func (p phone) shows(selector string) bool {
	p.T.Helper()
	return browser.Run(p.Tab, chromedp.Evaluate[bool](`Boolean(document.querySelector("`+selector+`")?.offsetParent)`))
}

func (p phone) wait(selector string) {
	p.T.Helper()
	p.Do("waiting for "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
}

func (p phone) tap(selector string) {
	p.T.Helper()
	p.Do("tapping "+selector, chromedp.Tap(chromedp.CSS(selector)))
}

// partnerSite is the site that pages redirect to.
func partnerSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/done?bill=1" || r.Method != http.MethodGet || r.Referer() != "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<p id="back">the partner's page</p>`))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/done?bill=1"
}

func TestBrowserPays(t *testing.T) {
	t.Parallel()
	p := newPhone(t)
	r := start(t)
	page := r.issue(newCall("v2", "create").with("pageRedirectUrl", partnerSite(t)))

	dark := browser.Look{Language: "ko", Width: 390, Scheme: "dark"}
	p.Use(dark)
	p.open(page + "?lang=ko")
	p.Look("bill-unpaid", dark)
	p.open(page)
	p.tap(`.choice:has([value=KEYIN])`)
	r.Fault(sandbox.Fault{Operation: "payment", Code: "BILL_004"})
	p.tap("button")
	p.wait("[role=alert]")
	p.fits()
	p.Picture("bill-declined")
	if text := p.text("[role=alert]"); !strings.Contains(text, "BILL_004") || !strings.Contains(text, "did not go through") {
		t.Errorf("the refusal shows %q", text)
	}

	p.tap("button") // the method is still selected
	p.wait("#back")
	b, err := r.Bill(demoKey, billID)
	if err != nil || b.State != "F" || b.Approval.Method != "KEYIN" {
		t.Fatalf("%+v %v", b, err)
	}

	p.open(page)
	p.Picture("bill-paid")
	if text := p.text("main"); !strings.Contains(text, b.Approval.Num) || !strings.Contains(text, "2026-03-02 12:34:56") || p.shows("form") {
		t.Errorf("the receipt shows %q", text)
	}
}
