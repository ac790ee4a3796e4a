package main

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"

	"github.com/chromedp/chromedp"
)

// A tab is a tab of a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func (b tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

func (b tab) open(page string) {
	b.t.Helper()
	b.do("opening "+page, chromedp.Navigate(page), chromedp.WaitVisible(chromedp.CSS("main")))
}

// click clicks, and waits for an element of the next page.
func (b tab) click(selector, next string) {
	b.t.Helper()
	b.do("clicking "+selector, chromedp.Click(chromedp.CSS(selector)), chromedp.WaitVisible(chromedp.CSS(next)))
}

func (b tab) text(selector string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// In a real browser, an operator of the demo replays a dead callback, which is delivered, then all others of its partner, and reads a bill
// with an unknown outcome.
func TestDemoInABrowser(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	b := tab{t, browser.New(t)}
	d := startDemoProcess(t)
	short := partner.Of("demo-key-05").Short()
	failed := d.admin + "/deliveries?state=dead&partner=" + short
	proxytest.Eventually(t, func() bool {
		_, list, _ := runCommand(t, false, "callbacks", "list", "--state", "dead", "--partner", short, "--admin", d.admin)
		return strings.Count(list, "status 503") >= 2
	}, d.metrics)
	b.open(d.admin + "/")
	b.click(`nav a[href="/deliveries"]`, ".tabs")
	b.click(`.tabs a[href*="state=dead"]`, `.tabs a[href*="state=dead"][aria-current]`)
	b.open(failed)
	b.click(`tbody a[href^="/deliveries/cb_"]`, "#attempts")
	if text := b.text("main"); !strings.Contains(text, "503") {
		t.Errorf("the attempts do not show the status:\n%s", text)
	}
	b.click(`a[href$="/replay"]`, "form.narrow")
	b.do("the name", chromedp.SendKeys(chromedp.CSS(`input[name=by]`), "anna"))
	b.click("form.narrow button", ".success")
	var page string
	proxytest.Eventually(t, func() bool {
		b.do("again", chromedp.Reload())
		page = b.text("main")
		return strings.Contains(page, "delivered")
	}, func() string { return page })

	b.open(failed)
	b.click(`a[href^="/deliveries/all/replay"]`, "form.narrow")
	b.do("the name", chromedp.SendKeys(chromedp.CSS(`input[name=by]`), "anna"))
	b.click("form.narrow button", "p.success")
	if text := b.text("p.success"); !strings.Contains(text, "Finished") {
		t.Errorf("the result is %q", text)
	}
	if _, log, _ := runCommand(t, false, "callbacks", "audit", "--admin", d.admin); strings.Count(log, "anna") < 2 {
		t.Errorf("the audit log has\n%s", log)
	}

	proxytest.Eventually(t, func() bool {
		_, list, _ := runCommand(t, false, "bills", "list", "--outcome", "unknown", "--admin", d.admin)
		return strings.Contains(list, "bill.create")
	}, d.metrics)
	b.open(d.admin + "/bills")
	b.click(`tbody form button`, ".panel")
	if text := b.text(".panel"); !strings.Contains(text, "has it") {
		t.Errorf("the read shows %q", text)
	}
	d.stops(syscall.SIGTERM)
}
