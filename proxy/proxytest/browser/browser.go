// Package browser starts a real browser for the tests of pages. It is apart from proxytest because chromedp is large:
// tests without pages do not link it.
//
//	p := browser.NewTab(t)
//	p.Open(page)
package browser

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// path returns the program of a browser. Without one the test is skipped, or fails with CI=true.
func path(t testing.TB) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing := "no browser: none of " + strings.Join(names, ", ") + " is on the PATH"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// start starts a browser that can reach this machine only. end removes its files.
func start(path string) (ctx context.Context, end func() error, err error) {
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // root cannot use it; the browser opens no page but ours
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
	)...)
	quiet := func(string, ...any) {} // chromedp logs events of newer browsers that it does not support
	ctx, _ = chromedp.NewContext(ctx, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	end = func() error {
		defer cancel()
		return chromedp.Cancel(ctx)
	}
	return ctx, end, chromedp.Do(ctx)
}
