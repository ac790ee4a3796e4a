// Package browser starts a real browser for the tests of pages. It is apart from proxytest because chromedp is large:
// tests without pages do not link it.
//
//	ctx := browser.New(t)
//	err := chromedp.Do(ctx, chromedp.Navigate(page))
package browser

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"

	"github.com/chromedp/chromedp"
)

// Path returns the program of a browser. Without one the test is skipped, or fails with CI=true.
func Path(t testing.TB) string {
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

// Start starts a browser that can reach this machine only. end removes its files.
func Start(path string) (ctx context.Context, end func() error, err error) {
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

// New starts a browser for one test, and returns the context of its tab.
func New(t testing.TB) context.Context {
	t.Helper()
	ctx, end, err := Start(Path(t))
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal("starting the browser: ", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 4*proxytest.Patience)
	t.Cleanup(cancel)
	return ctx
}
