package console_test

import (
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/chromedp/chromedp"
)

// The pages of a wave that runs, and of one that has paused, fit every screen. A refresh closes nothing that the visitor reads.
func TestWavesInABrowser(t *testing.T) {
	t.Parallel()
	p := browser.NewTab(t)
	admin, o := manyPartners(t, config.Shared, false)
	look := func(name, path string) {
		t.Helper()
		for _, l := range browser.Looks[:proxytest.Size(1, len(browser.Looks))] {
			p.Use(l)
			p.Open(admin + path + "?lang=" + l.Language)
			p.Look(name, l)
		}
		p.Use(browser.Looks[0])
	}
	p.Use(browser.Looks[0])
	p.Open(admin + "/partners?stage=shadow&lang=en")
	p.Do("choosing all", chromedp.Evaluate[chromedp.Void](`void document.querySelectorAll("input[name=partner][type=checkbox]").forEach(e => e.click())`))
	click(p, "New wave with these")
	for name, text := range map[string]string{"name": "autumn", "steps": "canary:10,canary:50"} {
		p.Do(name, chromedp.SendKeys(chromedp.CSS("[name="+name+"]"), text))
	}
	click(p, "Preview")
	sees(p, "24 partners. Their stages now: shadow 24")
	p.Look("wave-preview", browser.Looks[0])
	p.Do("by", chromedp.SendKeys(chromedp.CSS("[name=by]"), "kim"))
	click(p, "Start the wave")
	sees(p, "The wave was started.")
	p.Open(admin + "/waves/autumn") // its first refresh differs from no text
	p.Do("opening a verdict", chromedp.Evaluate[chromedp.Void](`void (document.querySelector("#wave details").open = true,
		window.polls = 0,
		document.body.addEventListener("htmx:afterRequest", () => window.polls++))`))
	p.Wait("a refresh", `window.polls > 0`)
	if !browser.Run(p, chromedp.Evaluate[bool](`document.querySelector("#wave details").open`)) {
		t.Error("a refresh has closed what the visitor reads")
	}
	look("wave-running", "/waves/autumn")
	why := evidence.Say("wave_failed", "x").Stored()
	must(t, o.Store.SetWave(t.Context(), store.Wave{
		Name: "autumn", State: store.WavePaused, By: moves.ByWave("autumn"), Since: time.Now(), Why: why,
	}, time.Time{}, store.WaveRunning))
	look("wave-paused", "/waves/autumn")
	look("waves", "/waves")
	look("wave-resume", "/waves/autumn/resume")
	moved := operate.Move{PartnerRef: operate.PartnerRef{Partner: string(partner.Of("invented-1"))}, Stage: routing.StageOld}
	moved.By = "kim" // so that it waits for a person
	works(t)(o.Move(t.Context(), moved))
	look("overview-wave", "/")
	p.Open(admin + "/?lang=en")
	sees(p, "The wave autumn has paused")
	sees(p, "1 waits for a person")
	p.Quiet("waves")
}
