package console_test

import (
	"fmt"
	"net/http"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest/browser"

	"github.com/chromedp/chromedp"
)

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
	{"callbacks-dead", at("/deliveries?state=failed")},
	{"callback", func(s *site) string { return s.linkOn("/deliveries?state=failed", "/deliveries/cb_") }},
	{"callback-replay", func(s *site) string { return s.linkOn("/deliveries?state=failed", "/deliveries/cb_") + "/replay" }},
	{"callbacks-replay", at("/deliveries/all/replay")},
	{"bills", at("/bills")},
	{"bill", func(s *site) string { return s.linkOn("/bills", "/bills?bill=") }},
	{"bill-none", at("/bills?bill=NONE")},
	{"playground", at("/playground?operation=bill.create&direction=legacy+v2")},
	{"playground-reply", at("/playground?operation=bill.create&message=reply&direction=legacy+v2")},
	{"table", at("/table")},
	{"table-search", at("/table?q=price")},
	{"table-none", at("/table?q=nothing")},
	{"not-found", at("/nowhere")},
}

// Every page fits every screen, has no violation that axe-core finds, and leaves no error in the console of the browser.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, "")
	s.fill()
	var list [][2]string
	for _, one := range pages {
		list = append(list, [2]string{one.name, one.path(s)})
	}
	p.Check(s.admin, list, "status of 404", "status of 400")
}

// A live call arrives without a reload and is found by its partner. A paused page does not change, and the newest calls are a click away.
func TestLiveCallsInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, "")
	s.post("/rollout/begin?by=test")
	p.Use(browser.Looks[0])
	p.Open(s.admin + "/calls")
	p.Do("a mark that a reload removes", chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	const has = `document.getElementById("rows").innerText.includes(%q)`

	s.send("legacy", "create", clinicKey, "FIRST")
	p.Wait("the first call", fmt.Sprintf(has, "FIRST"))
	if !browser.Run(p, chromedp.Evaluate[bool](`window.sameDocument === true`)) {
		t.Error("the page was loaded again")
	}
	p.Picture("calls-live")

	p.Follow("pausing", chromedp.Click(chromedp.ID("pause")))
	p.Wait("the page is paused", `document.querySelector("#newest") !== null && document.querySelector("[hx-get]") === null`)
	s.send("v2", "create", academyKey, "SECOND")
	s.await("/calls", "SECOND")
	if browser.Run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "SECOND"))) {
		t.Error("a call arrived while the page was paused")
	}
	p.Follow("resuming", chromedp.Click(chromedp.ID("newest")))
	p.Wait("the call that was held back", fmt.Sprintf(has, "SECOND"))

	p.Do("opening the filter", chromedp.Click(chromedp.CSS("details.filters > summary")))
	p.Do("the partner", chromedp.SendKeys(chromedp.CSS("input[name=partner]"), "hana"))
	p.Follow("filtering", chromedp.Click(chromedp.CSS("form.filter button")))
	p.Wait("the filtered page", `location.search.includes("partner=hana") && document.getElementById("pause") !== null`)
	if !browser.Run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "FIRST"))) || browser.Run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "SECOND"))) {
		t.Error("the filter does not select the calls of the partner")
	}
	s.send("v2", "create", academyKey, "THIRD")
	s.send("legacy", "create", clinicKey, "FOURTH")
	p.Wait("the call of the partner", fmt.Sprintf(has, "FOURTH"))
	if browser.Run(p, chromedp.Evaluate[bool](fmt.Sprintf(has, "THIRD"))) {
		t.Error("the live page shows a call that the filter does not select")
	}
	p.Follow("opening the call", chromedp.Evaluate[chromedp.Void](`void document.querySelector("#rows a").click()`))
	p.Wait("the call", `document.querySelector("h1")?.textContent === "Call: bill.create"`)
	p.Quiet("calls")
}

// The overview follows what happens without a reload, and the keyboard stays where it was. Without the gateway it says that it is old.
func TestOverviewInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, "")
	s.post("/rollout/begin?by=test")
	s.send("legacy", "create", clinicKey, "FIRST")
	p.Use(browser.Looks[0])
	hurry(p)
	s.await("/", "<b>1</b>")
	p.Open(s.admin + "/")
	p.Do("a mark and the focus", chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true, document.getElementById("row-0").focus())`))
	s.send("legacy", "read", clinicKey, "FIRST")
	p.Wait("the second call", `document.querySelector(".tiles b")?.textContent === "2"`)
	p.Wait("the focus", `window.sameDocument === true && document.activeElement.id === "row-0"`)
	p.Quiet("overview")
	s.stop()
	p.Wait("the page says that it is old", `!document.getElementById("old").hidden`)
	p.Picture("overview-old")
}

// Lists and the config follow what happens without a reload. What a visitor types into a filter, the focus and the filter itself stay.
func TestListsInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, "")
	s.post("/rollout/begin?by=test")
	paid := func(key, bill string) {
		t.Helper()
		if status := s.send("legacy", "create", key, bill); status != http.StatusOK {
			t.Fatalf("the create of %s: %d", bill, status)
		}
		must(t, s.service.Pay(key, bill))
	}
	p.Use(browser.Looks[0])
	hurry(p)
	has := func(text string) string {
		return fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text)
	}
	mark := chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`)
	stays := func(where, focus string) {
		t.Helper()
		equal(t, browser.Run(p, chromedp.Evaluate[string](`String(window.sameDocument) + " " + document.activeElement.id + document.activeElement.name`)), "true "+focus, where)
	}

	p.Open(s.admin + "/deliveries?partner=" + partner.ShortOf(clinicKey))
	p.Do("a mark, a text and the focus", mark, chromedp.SendKeys(chromedp.CSS("input[name=bill]"), "TYPED"))
	paid(academyKey, "OTHER")
	paid(clinicKey, "FIRST")
	p.Wait("the callback of the partner", has("FIRST"))
	stays("callbacks", "bill")
	if typed := browser.Run(p, chromedp.Evaluate[string](`document.querySelector("input[name=bill]").value`)); typed != "TYPED" || browser.Run(p, chromedp.Evaluate[bool](has("OTHER"))) {
		t.Errorf("the field has %q, or the list has another partner", typed)
	}
	p.Wait("the counts", `document.querySelector("#tab-failed .count")?.textContent === "1"`)

	p.Open(s.admin + "/bills?bill=FIRST&partner=" + partner.ShortOf(clinicKey))
	id := "read-" + partner.ShortOf(clinicKey)
	p.Do("a mark and the focus", mark, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.getElementById(%q).focus()`, id)))
	s.send("legacy", "cancel", clinicKey, "FIRST")
	p.Wait("the cancel", has("bill.cancel"))
	stays("bills", id)
	p.Quiet("lists")
}
