package console_test

import (
	"strings"
	"testing"

	"billbridge/proxy/proxytest/browser"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A browser shows times in its zone, with how long ago they are, also after a refresh, and a filter means that zone.
func TestTimesInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, "")
	s.post("/rollout/begin?by=test")
	s.send("legacy", "create", clinicKey, "FIRST")
	s.await("/calls", "FIRST")
	p.Use(browser.Looks[0])
	zone := emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}
	works(t)(chromedp.Call(p.Ctx, emulation.SetTimezoneOverride, zone))
	p.Open(s.admin + "/calls?lang=ko")
	const shown = `[...document.querySelectorAll("#rows time")].filter(e => /^\d\d:\d\d:\d\d$/.test(e.textContent) && e.title.endsWith("T" + e.textContent + "+05:30") &&
		Date.parse(e.dateTime) === Date.parse(e.title) && / 전$|지금/.test(e.dataset.ago)).length === `
	p.Wait("the first time", shown+"1")
	s.send("legacy", "read", clinicKey, "FIRST")
	p.Wait("a time of a refresh", shown+"2")

	p.Do("a time of the filter", chromedp.Evaluate[chromedp.Void](`void (document.querySelector("details.filters").open = true,
		document.querySelector("[name=from]").value = document.querySelector("#rows tr:last-child time").title.slice(0, 19))`))
	p.Follow("filtering", chromedp.Click(chromedp.CSS("form.filter button")))
	p.Wait("the calls of the filter", shown+"2")
	got := browser.Run(p, chromedp.Evaluate[string](`document.querySelector("[name=from]").value + " " + decodeURIComponent(location.search)`))
	value, search, _ := strings.Cut(got, " ")
	oldest := browser.Run(p, chromedp.Evaluate[string](`document.querySelector("#rows tr:last-child time").title`))
	if !strings.HasPrefix(oldest, value) || !strings.Contains(search, "Z") {
		t.Errorf("the filter has %s for %s, and the address %s", value, oldest, search)
	}
	p.Quiet("times")
}
