package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"

	"github.com/chromedp/chromedp"
)

// A browser is a tab of a real browser.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// newBrowser starts a browser that can reach this machine only. Without one the test is skipped, or fails with CI=true.
func newBrowser(t *testing.T) browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" && os.Getenv("CI") != "true" {
		t.Skip("there is no browser")
	}
	// The test's context ends too early for the browser to close.
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, // root cannot use it; the browser opens no page but ours
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-component-update", true))...)
	t.Cleanup(cancel)
	quiet := func(string, ...any) {} // chromedp logs events of newer browsers that it does not support
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	t.Cleanup(cancel)
	t.Cleanup(func() { // closing the browser removes its files
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
	})
	return browser{t, ctx}
}

func (b browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

func (b browser) open(page string) {
	b.t.Helper()
	b.do("opening "+page, chromedp.Navigate(page), chromedp.WaitVisible(chromedp.CSS("main")))
}

// click clicks, and waits for an element of the next page.
func (b browser) click(selector, next string) {
	b.t.Helper()
	b.do("clicking "+selector, chromedp.Click(chromedp.CSS(selector)), chromedp.WaitVisible(chromedp.CSS(next)))
}

func (b browser) text(selector string) string {
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
	b := newBrowser(t)
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
	b.click("form.narrow button", ".progress .good")
	if text := b.text(".progress"); !strings.Contains(text, "Finished") {
		t.Errorf("the progress is %q", text)
	}
	if _, log, _ := runCommand(t, false, "callbacks", "audit", "--admin", d.admin); strings.Count(log, "anna") < 2 {
		t.Errorf("the audit log has\n%s", log)
	}

	proxytest.Eventually(t, func() bool {
		_, list, _ := runCommand(t, false, "bills", "list", "--outcome", "unknown", "--admin", d.admin)
		return strings.Contains(list, "bill.create")
	}, d.metrics)
	b.open(d.admin + "/bills")
	b.click(`tbody form button`, `.panel, .notice`)
	if text := b.text(".panel"); !strings.Contains(text, "has it") {
		t.Errorf("the read shows %q", text)
	}
	d.stops(syscall.SIGTERM)
}
