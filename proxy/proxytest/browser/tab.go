package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/proxytest"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshot", "",
	"the folder that the browser tests leave pictures of the pages in; none if empty")

// A Look is how a page is shown. Each language, width and scheme is in two of them.
type Look struct {
	Language string
	Width    int64
	Scheme   string
}

// Looks are those of a page.
var Looks = []Look{{"en", 1280, "light"}, {"ko", 1280, "dark"}, {"ko", 390, "light"}, {"en", 390, "dark"}}

// A Tab is a tab of a real browser.
type Tab struct {
	T   *testing.T
	Ctx context.Context

	mu     sync.Mutex
	errors []string // of the console
}

// The tests share a browser, which the first of them starts.
var (
	shared struct {
		sync.Once
		ctx context.Context
		err error
	}
	// End ends the browser that tabs share. It is for TestMain.
	End = func() error { return nil }
)

// NewTab opens a tab with cookies of its own.
func NewTab(t *testing.T) *Tab {
	t.Helper()
	program := path(t)
	shared.Do(func() { shared.ctx, End, shared.err = start(program) })
	if shared.err != nil {
		t.Fatal("starting the browser: ", shared.err)
	}
	ctx, cancel := context.WithTimeout(shared.ctx, 4*proxytest.Patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &Tab{T: t, Ctx: ctx}
	messages := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning {
				p.mu.Lock()
				p.errors = append(p.errors, m.String())
				p.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
		reading.Wait()
	})
	return p
}

// Do runs actions.
func (p *Tab) Do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	if err := chromedp.Do(p.Ctx, actions...); err != nil {
		p.T.Fatalf("%s: %v", what, err)
	}
}

// Follow does what loads another page, and waits until that is loaded.
func (p *Tab) Follow(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	if _, err := chromedp.RunResponse(p.Ctx, actions...); err != nil {
		p.T.Fatalf("%s: %v", what, err)
	}
}

// Run returns the result of an action.
func Run[T any](p *Tab, a chromedp.Action[T]) T {
	p.T.Helper()
	v, err := chromedp.Run(p.Ctx, a)
	if err != nil {
		p.T.Fatal(err)
	}
	return v
}

// Use sets width and colour scheme.
func (p *Tab) Use(l Look) {
	p.T.Helper()
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(1)}
	if l.Width < 600 {
		options = []chromedp.EmulateViewportOption{
			chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch,
		}
	}
	p.Do("the size", chromedp.EmulateViewport(l.Width, 800, options...))
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.Scheme},
		{Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if _, err := chromedp.Call(p.Ctx, emulation.SetEmulatedMedia, media); err != nil {
		p.T.Fatal(err)
	}
}

// Open opens a page.
func (p *Tab) Open(address string) {
	p.T.Helper()
	p.Do("opening "+address, chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS("main")))
}

// Wait waits until an expression is true.
func (p *Tab) Wait(what, expression string) {
	p.T.Helper()
	poll := func() error {
		_, err := chromedp.Run(p.Ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(proxytest.Patience)))
		return err
	}
	left := func(err error) bool { // another page has come
		text := err.Error()
		return strings.Contains(text, "Cannot find context") || strings.Contains(text, "navigated or closed")
	}
	err := poll()
	for err != nil && left(err) && p.Ctx.Err() == nil {
		err = poll()
	}
	if err != nil {
		text := Run(p, chromedp.Evaluate[string](`document.querySelector("main").innerText`))
		p.T.Fatalf("%s: %v; the page has %s", what, err, text)
	}
}

// Quiet fails the test if the console has an error. It may have those that begin with one of expected.
func (p *Tab) Quiet(where string, expected ...string) {
	p.T.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, text := range p.errors {
		for _, e := range expected {
			if strings.Contains(text, e) {
				continue next
			}
		}
		p.T.Errorf("%s: the console of the browser has %s", where, text)
	}
	p.errors = nil
}

// Fits checks that the page is not wider than the screen, and can be read to its end on a phone.
func (p *Tab) Fits(where string, l Look) {
	p.T.Helper()
	const most = 6000
	if height := Run(p, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`)); l.Width < 600 && height > most {
		p.T.Errorf("%s: the page is %d high, over %d", where, height, most)
	}
	if width := Run(p, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)); width > l.Width {
		wide := Run(p, chromedp.Evaluate[[]string](fmt.Sprintf(`[...document.querySelectorAll("main *")]
			.filter(e => e.getBoundingClientRect().right > %d)
			.map(e => e.outerHTML.slice(0, 200)).slice(0, 5)`, l.Width)))
		p.T.Errorf("%s: the page is %d wide: %s", where, width, wide)
	}
}

// brokenWords are the words of tables that are broken into two lines, where there is place for them.
const brokenWords = `[...document.querySelectorAll("main td:not(.wrap)")].flatMap(cell => {
	const broken = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
	for (let text; text = texts.nextNode();) {
		if (text.parentElement.closest(".wrap, table.even")) continue
		for (const word of text.data.matchAll(/[\w.]+/g)) {
			const range = document.createRange()
			range.setStart(text, word.index)
			range.setEnd(text, word.index + word[0].length)
			if (range.getClientRects().length > 1) broken.push(word[0])
		}
	}
	return broken
})`

// WholeWords checks that tables of a wide page break no word.
func (p *Tab) WholeWords(where string, l Look) {
	p.T.Helper()
	if l.Width < 1000 {
		return
	}
	if broken := Run(p, chromedp.Evaluate[[]string](brokenWords)); len(broken) > 0 {
		p.T.Errorf("%s: words are broken: %q", where, broken)
	}
}

// Picture stores a picture of the page, if the flag is set.
func (p *Tab) Picture(name string) {
	p.T.Helper()
	if *screenshots != "" {
		png := Run(p, chromedp.FullScreenshot(100))
		proxytest.WriteFile(p.T, filepath.Join(*screenshots, name+".png"), png)
	}
}

// Check looks at the pages of a site, by their names, in every language, width and color scheme, and in the short form
// in the first of these. A page must leave no error in the console but allowed ones.
func (p *Tab) Check(site string, pages [][2]string, allowed ...string) {
	p.T.Helper()
	for _, l := range Looks[:proxytest.Size(1, len(Looks))] {
		p.Use(l)
		p.Open(site + "/?lang=" + l.Language)
		for _, one := range pages {
			p.Open(site + one[1])
			p.Look(one[0], l)
			if got := Run(p, chromedp.Evaluate[string](`document.documentElement.lang`)); got != l.Language {
				p.T.Errorf("%s: the language is %s", one[0], got)
			}
			p.Quiet(one[0], allowed...)
		}
	}
}

// Look checks that the page fits the screen and is accessible, and stores a picture of it.
func (p *Tab) Look(name string, l Look) {
	p.T.Helper()
	where := fmt.Sprintf("%s-%s-%d-%s", name, l.Language, l.Width, l.Scheme)
	p.Fits(where, l)
	p.WholeWords(where, l)
	p.Picture(where)
	p.Accessible(where)
}

// Accessible checks the page with axe-core, if BILLBRIDGE_AXE names its file.
func (p *Tab) Accessible(where string) {
	p.T.Helper()
	name := os.Getenv("BILLBRIDGE_AXE")
	if name == "" {
		p.T.Log(where + " is not checked with axe-core: BILLBRIDGE_AXE does not name its axe.min.js")
		return
	}
	p.Do("axe-core", chromedp.Evaluate[chromedp.Void](string(proxytest.ReadFile(p.T, name))))
	text := Run(p, chromedp.Evaluate[string](`axe.run().then(r => JSON.stringify(r.violations.map(v => ({
		id: v.id, help: v.help,
		nodes: v.nodes.map(n => n.html.slice(0, 300) + " " + (n.any[0]?.message ?? ""))
	}))))`, chromedp.EvalAwaitPromise))
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(text), &violations); err != nil {
		p.T.Fatal(err)
	}
	for _, v := range violations {
		p.T.Errorf("%s: %s (%s)\n  %s", where, v.ID, v.Help, strings.Join(v.Nodes, "\n  "))
	}
}
