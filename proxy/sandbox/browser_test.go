package sandbox_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/sandbox"

	"github.com/chromedp/chromedp"
)

// A phone is a tab of a real browser with the size of a phone.
type phone struct {
	t   *testing.T
	ctx context.Context
}

func newPhone(t *testing.T) phone {
	t.Helper()
	p := phone{t, browser.New(t)}
	p.do("a browser", chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch))
	return p
}

func (p phone) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func get[T any](p phone, a chromedp.Action[T]) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, a)
	must(p.t, err)
	return v
}

// open opens a page and checks that it fits a phone.
func (p phone) open(page string) {
	p.t.Helper()
	p.do("opening "+page, chromedp.Navigate(page), chromedp.WaitVisible(chromedp.CSS("main")))
	p.fits()
}

// fits checks that nothing is wider than the phone and that controls are large enough. This also shows that the policy
// allows the style.
func (p phone) fits() {
	p.t.Helper()
	width := get(p, chromedp.Evaluate[int](`document.documentElement.scrollWidth`))
	small := get(p, chromedp.Evaluate[[]string](`[...document.querySelectorAll('button, select, label.choice, input:not([type=radio])')]
		.filter(e => e.offsetParent && (e.offsetHeight < 48 || parseFloat(getComputedStyle(e).fontSize) < 16)).map(e => e.outerHTML)`))
	if width > 390 {
		p.t.Errorf("the page is %d wide", width)
	}
	if len(small) > 0 {
		p.t.Errorf("too small to touch: %s", small)
	}
}

func (p phone) text(selector string) string {
	p.t.Helper()
	return get(p, chromedp.Text(chromedp.CSS(selector)))
}

// shows reports whether an element is visible.
func (p phone) shows(selector string) bool {
	p.t.Helper()
	return get(p, chromedp.Evaluate[bool](`Boolean(document.querySelector("`+selector+`")?.offsetParent)`))
}

func (p phone) wait(selector string) {
	p.t.Helper()
	p.do("waiting for "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
}

func (p phone) tap(selector string) {
	p.t.Helper()
	p.do("tapping "+selector, chromedp.Tap(chromedp.CSS(selector)))
}

func (p phone) picture(name string) {
	p.t.Helper()
	browser.Picture(p.t, p.ctx, name)
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
	r := start(t, sandbox.Options{})
	page := r.issue(newCall("v2", "create").with("pageRedirectUrl", partnerSite(t)))

	p.open(page)
	p.picture("bill-unpaid")
	if !p.shows(".for-cash") || p.shows(".for-card") || p.shows(".for-number") {
		t.Error("an easy payment: a cash receipt and no installments, and no number without a receipt")
	}
	p.tap(`.choice:has([value=personal])`)
	if !p.shows("#cash_number") {
		t.Error("there is nowhere to put the number of a cash receipt")
	}
	p.picture("bill-cash-receipt")
	p.tap(`.choice:has([value=KEYIN])`)
	if p.shows(".for-cash") || !p.shows("#months") {
		t.Error("a card: installments and no cash receipt")
	}
	p.do("installments", chromedp.SetValue(chromedp.ID("months"), "3"))
	p.picture("bill-card")

	must(t, r.Networks("BILL_004", 1))
	p.tap("button")
	p.wait("[role=alert]")
	p.fits()
	p.picture("bill-declined")
	if text := p.text("[role=alert]"); !strings.Contains(text, "BILL_004") || !strings.Contains(text, "did not go through") {
		t.Errorf("the refusal shows %q", text)
	}

	p.tap("button") // the options are still selected
	p.wait("#back")
	b, err := r.Bill(demoKey, billID)
	if err != nil || b.State != "F" || b.Approval.Method != "KEYIN" || b.Approval.Months != "03" {
		t.Fatalf("%+v %v", b, err)
	}

	p.open(page)
	p.picture("bill-paid")
	if text := p.text("main"); !strings.Contains(text, b.Approval.Num) || !strings.Contains(text, "2026-03-02T12:34:56+09:00") || p.shows("form") {
		t.Errorf("the receipt shows %q", text)
	}
}

func TestBrowserSignsUp(t *testing.T) {
	t.Parallel()
	p := newPhone(t)
	r := start(t, sandbox.Options{})
	page := r.signUp(partnerSite(t))
	p.open(page)
	p.picture("signup")
	for _, field := range []struct{ name, value string }{
		{"company_name", "한빛학원"},
		{"branch_name", "강남점"},
		{"ceo_name", "이가나"},
		{"email", "owner@example.com"},
		{"business_number", "123-45"},
	} {
		input := chromedp.ID(field.name)
		p.do(field.name, chromedp.Clear(input), chromedp.SendKeys(input, field.value))
	}
	p.tap("button")
	p.wait(".wrong")
	p.fits()
	p.picture("signup-mistake")

	number := chromedp.ID("business_number")
	p.do("the number", chromedp.Clear(number), chromedp.SendKeys(number, "123-45-67890"))
	p.tap("button")
	p.wait("#back")
	m := r.mapping()
	if m["mappingStatus"] != "COMPLETED" || m["companyNm"] != "한빛학원" || m["branchNm"] != "강남점" || m["ceoName"] != "이가나" ||
		m["email"] != "owner@example.com" || m["businessNumber"] != "1234567890" {
		t.Errorf("got %v", m)
	}

	p.open(page)
	p.picture("signup-completed")
	if p.shows("form") {
		t.Error("there is a form to what is completed")
	}
}
