package console_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshot", "", "the folder that the browser tests leave pictures of the pages in; none if empty")

// A page of the table is looked at in every language, width and colour scheme.
type page struct {
	name string
	path func(*site) string
}

func at(path string) func(*site) string { return func(*site) string { return path } }

// pages are all pages of the console. The site has been filled.
var pages = []page{
	{"overview", at("/")},
	{"calls", at("/calls")},
	{"calls-filtered", at("/calls?partner=Hana&operation=bill.read&slower=0")},
	{"calls-none", at("/calls?code=NONE")},
	{"calls-problem", at("/calls?partner=nobody")},
	{"call", func(s *site) string { return s.linkOn("/calls?outcome=ok&client=v2&form=legacy", "/calls/") }},
	{"call-unknown", func(s *site) string { return s.linkOn("/calls?outcome=unknown", "/calls/") }},
	{"partners", at("/partners")},
	{"partners-stage", at("/partners?stage=old")},
	{"partners-problem", at("/partners?partner=nobody")},
	{"partner", at("/partners/" + partner.ShortOf(clinicKey))},
	{"partner-next", at("/partners/" + partner.ShortOf(clinicKey) + "/next")},
	{"partner-set", at("/partners/" + partner.ShortOf(clinicKey) + "/set?stage=canary&percent=10")},
	{"partners-stop", at("/partners/stop")},
	{"waves-none", at("/waves")},
	{"wave-new", at("/waves/new?partner=" + partner.ShortOf(clinicKey))},
	{"callbacks", at("/deliveries")},
	{"callbacks-dead", at("/deliveries?state=dead")},
	{"callback", func(s *site) string { return s.linkOn("/deliveries?state=dead", "/deliveries/cb_") }},
	{"callback-replay", func(s *site) string { return s.linkOn("/deliveries?state=dead", "/deliveries/cb_") + "/replay" }},
	{"callbacks-replay", at("/deliveries/all/replay")},
	{"bills", at("/bills")},
	{"bill", func(s *site) string { return s.linkOn("/bills", "/bills?bill=") }},
	{"bill-none", at("/bills?bill=NONE")},
	{"config", at("/config")},
	{"playground", at("/playground?operation=bill.create&direction=legacy+v2")},
	{"playground-reply", func(s *site) string {
		return strings.Replace(s.linkOn("/calls?outcome=ok&client=v2&form=legacy", "/calls/"), "/calls/", "/playground?message=reply&call=", 1)
	}},
	{"table", at("/table")},
	{"table-search", at("/table?q=price")},
	{"table-none", at("/table?q=nothing")},
	{"not-found", at("/nowhere")},
}

// A look is how a page is shown. Each language, width and scheme is in two of them.
type look struct {
	language string
	width    int64
	scheme   string
}

var looks = []look{{"en", 1280, "light"}, {"ko", 1280, "dark"}, {"ko", 390, "light"}, {"en", 390, "dark"}}

// A tab is a tab of a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // of the console
}

// The tests share a browser, which the first of them starts and TestMain ends.
var (
	shared struct {
		sync.Once
		ctx context.Context
		err error
	}
	endBrowser = func() error { return nil }
)

// newTab opens a tab with cookies of its own.
func newTab(t *testing.T) *tab {
	t.Helper()
	path := browser.Path(t)
	shared.Do(func() { shared.ctx, endBrowser, shared.err = browser.Start(path) })
	if shared.err != nil {
		t.Fatal("starting the browser: ", shared.err)
	}
	ctx, cancel := context.WithTimeout(shared.ctx, 4*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
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

func (p *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// follow does what loads another page, and waits until that is loaded.
func (p *tab) follow(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if _, err := chromedp.RunResponse(p.ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func run[T any](p *tab, a chromedp.Action[T]) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, a)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// use sets width and colour scheme.
func (p *tab) use(l look) {
	p.t.Helper()
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(1)}
	if l.width < 600 {
		options = []chromedp.EmulateViewportOption{chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch}
	}
	p.do("the size", chromedp.EmulateViewport(l.width, 800, options...))
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		p.t.Fatal(err)
	}
}

// hurry makes pages that ask for news every 5 seconds ask every half second. It must be called before they are opened.
func (p *tab) hurry() {
	p.t.Helper()
	script := `((timeout) => { window.setTimeout = (f, wait, ...args) => timeout(f, wait === 5000 ? 500 : wait, ...args) })(window.setTimeout)`
	_, err := chromedp.Call(p.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) open(address string) {
	p.t.Helper()
	p.do("opening "+address, chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS("main")))
}

// wait waits until an expression is true.
func (p *tab) wait(what, expression string) {
	p.t.Helper()
	poll := func() error {
		_, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience)))
		return err
	}
	left := func(err error) bool { // another page has come
		text := err.Error()
		return strings.Contains(text, "Cannot find context") || strings.Contains(text, "navigated or closed")
	}
	err := poll()
	for err != nil && left(err) && p.ctx.Err() == nil {
		err = poll()
	}
	if err != nil {
		p.t.Fatalf("%s: %v; the page has %s", what, err, run(p, chromedp.Evaluate[string](`document.querySelector("main").innerText`)))
	}
}

// quiet fails the test if the console has an error. It may have those that begin with one of expected.
func (p *tab) quiet(where string, expected ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, text := range p.errors {
		for _, e := range expected {
			if strings.Contains(text, e) {
				continue next
			}
		}
		p.t.Errorf("%s: the console of the browser has %s", where, text)
	}
	p.errors = nil
}

// fits checks that the page is not wider than the screen.
func (p *tab) fits(where string, l look) {
	p.t.Helper()
	if width := run(p, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)); width > l.width {
		p.t.Errorf("%s: the page is %d wide: %s", where, width, run(p, chromedp.Evaluate[[]string](
			fmt.Sprintf(`[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > %d).map(e => e.outerHTML.slice(0, 200)).slice(0, 5)`, l.width))))
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

// wholeWords checks that tables of a wide page break no word.
func (p *tab) wholeWords(where string, l look) {
	p.t.Helper()
	if l.width < 1000 {
		return
	}
	if broken := run(p, chromedp.Evaluate[[]string](brokenWords)); len(broken) > 0 {
		p.t.Errorf("%s: words are broken: %q", where, broken)
	}
}

// picture stores a picture of the page, if the flag is set.
func (p *tab) picture(name string) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}
	png := run(p, chromedp.FullScreenshot(100))
	proxytest.WriteFile(p.t, filepath.Join(*screenshots, name+".png"), png)
}

// axe is the script of axe-core, from the file that BILLBRIDGE_AXE names. ok is false if there is none.
func axe(t *testing.T) (script string, ok bool) {
	t.Helper()
	name := os.Getenv("BILLBRIDGE_AXE")
	if name == "" {
		return "", false
	}
	data := proxytest.ReadFile(t, name)
	return string(data), true
}

// accessible checks the page with axe-core.
func (p *tab) accessible(where, script string) {
	p.t.Helper()
	p.do("axe-core", chromedp.Evaluate[chromedp.Void](script))
	text := run(p, chromedp.Evaluate[string](`axe.run().then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help,
		nodes: v.nodes.map(n => n.html.slice(0, 300) + " " + (n.any[0]?.message ?? ""))}))))`, chromedp.EvalAwaitPromise))
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(text), &violations); err != nil {
		p.t.Fatal(err)
	}
	for _, v := range violations {
		p.t.Errorf("%s: %s (%s)\n  %s", where, v.ID, v.Help, strings.Join(v.Nodes, "\n  "))
	}
}

// Every page fits every screen, has no violation that axe-core finds, and leaves no error in the console of the browser.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	p, s := newTab(t), startSite(t, "")
	s.fill()
	script, checked := axe(t)
	if !checked {
		t.Log("not checked with axe-core: BILLBRIDGE_AXE does not name its axe.min.js")
	}
	for _, l := range looks[:proxytest.Size(1, len(looks))] {
		p.use(l)
		p.open(s.admin + "/?lang=" + l.language)
		for _, one := range pages {
			where := fmt.Sprintf("%s-%s-%d-%s", one.name, l.language, l.width, l.scheme)
			p.open(s.admin + one.path(s))
			p.fits(where, l)
			p.wholeWords(where, l)
			p.picture(where)
			if checked {
				p.accessible(where, script)
			}
			if got := run(p, chromedp.Evaluate[string](`document.documentElement.lang`)); got != l.language {
				t.Errorf("%s: the language is %s", where, got)
			}
			p.quiet(where, "status of 404", "status of 400")
		}
	}
}

// A live call arrives without a reload and is found by its partner. A paused page does not change, and the newest calls are a click away.
func TestLiveCallsInABrowser(t *testing.T) {
	t.Parallel()
	p, s := newTab(t), startSite(t, "")
	s.post("/rollout/begin?by=test")
	p.use(looks[0])
	p.open(s.admin + "/calls")
	p.do("a mark that a reload removes", chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	const has = `document.getElementById("rows").innerText.includes(%q)`

	s.send("legacy", "create", clinicKey, "FIRST")
	p.wait("the first call", fmt.Sprintf(has, "FIRST"))
	if !run(p, chromedp.Evaluate[bool](`window.sameDocument === true`)) {
		t.Error("the page was loaded again")
	}
	p.picture("calls-live")

	p.follow("pausing", chromedp.Click(chromedp.ID("pause")))
	p.wait("the page is paused", `document.querySelector("#newest") !== null && document.querySelector("[hx-get]") === null`)
	s.send("v2", "create", academyKey, "SECOND")
	s.await("/calls", "SECOND")
	if run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "SECOND"))) {
		t.Error("a call arrived while the page was paused")
	}
	p.follow("resuming", chromedp.Click(chromedp.ID("newest")))
	p.wait("the call that was held back", fmt.Sprintf(has, "SECOND"))

	p.do("opening the filter", chromedp.Click(chromedp.CSS("details.filters > summary")))
	p.do("the partner", chromedp.SendKeys(chromedp.CSS("input[name=partner]"), "hana"))
	p.follow("filtering", chromedp.Click(chromedp.CSS("form.filter button")))
	p.wait("the filtered page", `location.search.includes("partner=hana") && document.getElementById("pause") !== null`)
	if !run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "FIRST"))) || run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "SECOND"))) {
		t.Error("the filter does not select the calls of the partner")
	}
	s.send("v2", "create", academyKey, "THIRD")
	s.send("legacy", "create", clinicKey, "FOURTH")
	p.wait("the call of the partner", fmt.Sprintf(has, "FOURTH"))
	if run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "THIRD"))) {
		t.Error("the live page shows a call that the filter does not select")
	}
	p.follow("opening the call", chromedp.Evaluate[chromedp.Void](`void document.querySelector("#rows a").click()`))
	p.wait("the call", `document.querySelector("h1").textContent === "Call: bill.create"`)
	p.quiet("calls")
}

// The overview follows what happens without a reload, and the keyboard stays where it was. Without the gateway it says that it is old.
func TestOverviewInABrowser(t *testing.T) {
	t.Parallel()
	p, s := newTab(t), startSite(t, "")
	s.post("/rollout/begin?by=test")
	s.send("legacy", "create", clinicKey, "FIRST")
	p.use(looks[0])
	p.hurry()
	s.await("/", "<b>1</b>")
	p.open(s.admin + "/")
	p.do("a mark and the focus", chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true, document.getElementById("row-0").focus())`))
	s.send("legacy", "read", clinicKey, "FIRST")
	p.wait("the second call", `document.querySelector(".tiles b").textContent === "2"`)
	p.wait("the focus", `window.sameDocument === true && document.activeElement.id === "row-0"`)
	p.quiet("overview")
	s.stop()
	p.wait("the page says that it is old", `!document.getElementById("old").hidden`)
	p.picture("overview-old")
}

// Lists and the config follow what happens without a reload. What a visitor types into a filter, the focus and the filter itself stay.
func TestListsInABrowser(t *testing.T) {
	t.Parallel()
	p, s := newTab(t), startSite(t, "")
	s.post("/rollout/begin?by=test")
	paid := func(key, bill string) {
		t.Helper()
		if status := s.send("legacy", "create", key, bill); status != http.StatusOK {
			t.Fatalf("the create of %s: %d", bill, status)
		}
		if err := s.service.Pay(key, bill); err != nil {
			t.Fatal(err)
		}
	}
	p.use(looks[0])
	p.hurry()
	has := func(text string) string {
		return fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text)
	}
	mark := chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`)
	stays := func(where, focus string) {
		t.Helper()
		if got := run(p, chromedp.Evaluate[string](`String(window.sameDocument) + " " + document.activeElement.id + document.activeElement.name`)); got != "true "+focus {
			t.Errorf("%s: the page and the focus are %s", where, got)
		}
	}

	p.open(s.admin + "/deliveries?partner=" + partner.ShortOf(clinicKey))
	p.do("a mark, a text and the focus", mark, chromedp.SendKeys(chromedp.CSS("input[name=bill]"), "TYPED"))
	paid(academyKey, "OTHER")
	paid(clinicKey, "FIRST")
	p.wait("the callback of the partner", has("FIRST"))
	stays("callbacks", "bill")
	if typed := run(p, chromedp.Evaluate[string](`document.querySelector("input[name=bill]").value`)); typed != "TYPED" || run(p, chromedp.Evaluate[bool](has("OTHER"))) {
		t.Errorf("the field has %q, or the list has another partner", typed)
	}
	p.wait("the counts", `document.querySelector("#tab-dead .count").textContent === "1"`)

	p.open(s.admin + "/bills?bill=FIRST&partner=" + partner.ShortOf(clinicKey))
	id := "read-" + partner.ShortOf(clinicKey)
	p.do("a mark and the focus", mark, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.getElementById(%q).focus()`, id)))
	s.send("legacy", "cancel", clinicKey, "FIRST")
	p.wait("the cancel", has("bill.cancel"))
	stays("bills", id)

	p.open(s.admin + "/config")
	p.do("a mark and the focus", mark, chromedp.Evaluate[chromedp.Void](`void (window.before = document.querySelector("[aria-labelledby=reading] time").textContent, document.getElementById("reload").focus())`))
	p.wait("another second", `Date.now() - Date.parse(window.before) > 1500`)
	s.post("/-/reload")
	p.wait("the reload", `document.querySelector("[aria-labelledby=reading] time").textContent !== window.before`)
	stays("config", "reload")
	p.quiet("lists")
}
