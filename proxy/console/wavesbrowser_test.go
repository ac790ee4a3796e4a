package console_test

import (
	"context"
	"fmt"
	"testing"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/rollout/evidence"

	"github.com/chromedp/chromedp"
)

// A wave is begun with chosen partners, makes its steps, pauses, and lets a partner go on. Its pages fit every screen.
func TestWavesInABrowser(t *testing.T) {
	t.Parallel()
	p := browser.NewTab(t)
	admin, o := manyPartners(t, config.Shared, false)
	look := func(name string, paths ...string) {
		t.Helper()
		for _, l := range browser.Looks[:proxytest.Size(1, len(browser.Looks))] {
			p.Use(l)
			for _, path := range paths {
				p.Open(admin + path + "?lang=" + l.Language)
			}
			p.Look(name, l)
		}
		p.Use(browser.Looks[0])
	}
	types := func(name, text string) {
		t.Helper()
		p.Do(name, chromedp.SendKeys(chromedp.CSS("[name="+name+"]"), text))
	}
	p.Use(browser.Looks[0])
	p.Open(admin + "/partners?stage=shadow&lang=en")
	p.Do("choosing all", chromedp.Evaluate[chromedp.Void](`void document.querySelectorAll("input[name=partner][type=checkbox]").forEach(e => e.click())`))
	click(p, "New wave with these")
	for name, text := range map[string]string{"name": "autumn", "steps": "canary:10,canary:50", "stay": "1ms", "each": "60/m"} {
		types(name, text)
	}
	click(p, "Preview")
	sees(p, "24 partners. Their stages now: shadow 24")
	look("wave-preview")
	p.Open(admin + "/partners?stage=shadow")
	p.Do("choosing all again", chromedp.Evaluate[chromedp.Void](`void document.querySelectorAll("input[name=partner][type=checkbox]").forEach(e => e.click())`))
	click(p, "New wave with these")
	for name, text := range map[string]string{"name": "autumn", "steps": "canary:10,canary:50", "stay": "1ms", "each": "60/m"} {
		types(name, text)
	}
	click(p, "Preview")
	types("by", "kim")
	click(p, "Start the wave")
	sees(p, "The wave was started.")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); o.RunWaves(ctx) }()
	defer func() { stop(); <-ended }()
	reached := func(n int) {
		t.Helper()
		p.Open(admin + "/waves/autumn")
		proxytest.Eventually(t, func() bool { // the page is refreshed by itself
			return browser.Run(p, chromedp.Evaluate[bool](fmt.Sprintf(`parseInt(document.querySelector("table.plain td.n").innerText) >= %d`, n)))
		}, func() string { return "the wave makes no steps" })
	}
	reached(3)
	p.Open(admin + "/waves/autumn") // its first refresh differs from no text
	p.Do("opening a verdict", chromedp.Evaluate[chromedp.Void](`void (document.querySelector("#wave details").open = true,
		window.polls = 0,
		document.body.addEventListener("htmx:afterRequest", () => window.polls++))`))
	proxytest.Eventually(t, func() bool { return browser.Run(p, chromedp.Evaluate[bool](`window.polls > 0`)) }, func() string { return "the page is not refreshed" })
	if !browser.Run(p, chromedp.Evaluate[bool](`document.querySelector("#wave details").open`)) {
		t.Error("a refresh has closed what the visitor reads")
	}
	look("wave-running", "/waves/autumn")
	moved := browser.Run(p, chromedp.Evaluate[string](`document.querySelector("#steps ~ table a.partner").getAttribute("href").split("/").pop()`))
	full := moved
	for i := range 120 {
		if id := partner.Of(fmt.Sprint("invented-", i)); id.Short() == moved {
			full = string(id)
		}
	}
	for i := range 100 {
		o.Rollout.Counts().Add(partner.ID(full), "bill.read", evidence.Comparison{
			Class: evidence.Differs, Bill: fmt.Sprint("f", i), Succeeded: [2]bool{true, true}, States: true,
			Differences: []evidence.Difference{{Path: "memo", Kind: evidence.InOther}},
		})
	}
	proxytest.Eventually(t, func() bool {
		p.Open(admin + "/waves/autumn")
		return browser.Run(p, chromedp.Evaluate[bool](`document.querySelector("main .problem") !== null`))
	}, func() string { return "the wave does not pause" })
	sees(p, "and the wave takes the partner back")
	look("wave-paused", "/waves/autumn")
	look("waves", "/waves")
	look("wave-resume", "/waves/autumn/resume")
	look("partner-in-a-wave", "/partners/"+moved)
	p.Open(admin + "/?lang=en")
	sees(p, "The wave autumn has paused")
	p.Picture("overview-wave")
	p.Follow("the wave", chromedp.Click(chromedp.ID("a-wave-paused-autumn")))
	click(p, "Continue…")
	sees(p, "the wave took the partner back")
	p.Picture("wave-release")
	types("by", "kim")
	click(p, "Continue now")
	sees(p, "The wave moves this partner again.")
	p.Quiet("waves")
}
