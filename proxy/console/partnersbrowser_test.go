package console_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/console"
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"

	"github.com/chromedp/chromedp"
)

type noUpstreams struct{}

func (noUpstreams) Upstreams() []proxy.UpstreamStatus { return nil }

// manyPartners starts a console with 120 invented partners in all stages of such bills, and returns its address and its operator. With exact, an
// exact field of some of them differs.
func manyPartners(t *testing.T, bills config.Bills, exact bool) (address string, o *operate.Operator) {
	t.Helper()
	pages, o := consoleOf(t, "memory:", 120, bills, exact)
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	return server.URL, o
}

// consoleOf returns a console with n invented partners in a store, as manyPartners, and its operator.
func consoleOf(t testing.TB, url string, n int, bills config.Bills, exact bool) (*console.Console, *operate.Operator) {
	t.Helper()
	key := func(i int) string { return fmt.Sprint("invented-", i) }
	names := []string{"Hana Clinic", "한빛학원", "Paper Lantern Piano School", "서울 바른 치과의원", "Kim & Sons Heating", "달빛서점", "North Gate Physiotherapy Centre", "푸른들 유치원"}
	text := `
upstreams: {old: {form: legacy, url: "http://127.0.0.1:1"}, new: {form: v2, url: "http://127.0.0.1:2"}}
route: {default: old}
store: {url: "sqlite:unused.db"}
rollout: {old: old, new: new, bills: ` + string(bills) + `, settle: 1h}
partners:
`
	stages := routing.StagesWith(bills)
	for i := range n - 10 { // the others have no name
		text += fmt.Sprintf("  %s: {name: %q}\n", partner.ShortOf(key(i)), fmt.Sprint(names[i%len(names)], " ", 1+i/len(names)))
	}
	c := proxytest.Config(t, text)
	s := proxytest.Open(t, url)
	router, err := routing.New(t.Context(), c, routing.Options{Store: s})
	must(t, err)
	inForce := func() *config.Config { return c }
	o := operate.New(operate.Options{Config: inForce, Store: s, Rollout: router, Relay: relay.New(c, relay.Options{Store: s})})
	for i := range n {
		id := partner.Of(key(i))
		must(t, s.Seen(t.Context(), id, time.Now().Add(-time.Duration(i%120)*20*time.Minute)))
		for range i % 120 * (i % 120) % 131 {
			for backend := range evidence.Backend(1 + min(i%5/2, 1)) {
				router.Counts().Ended(id, "bill.create", backend, evidence.End{Code: "0000", Succeeded: true, Creates: true})
			}
		}
		for j := range i % 3 * 60 {
			one := evidence.Comparison{Class: evidence.Same, Bill: fmt.Sprint(j), Succeeded: [2]bool{true, true}, States: true, Paid: j < 9}
			router.Counts().Add(id, "bill.read", one)
			one.ReadBack = true
			router.Counts().Add(id, "bill.create", one)
		}
		if exact && i%17 == 5 {
			router.Counts().Add(id, "bill.read", evidence.Comparison{Class: evidence.Differs, Bill: "B", Succeeded: [2]bool{true, true}, Differences: []evidence.Difference{{Path: "apprIssuer", Kind: evidence.InCode}}})
		}
		m := operate.Move{PartnerRef: operate.PartnerRef{Partner: string(id)}, Stage: stages[i%len(stages)]}
		if m.By, m.Force = "anna", moves.ReasonKinds; m.Stage == routing.StageCanary {
			m.Percent = new([]int{10, 25, 50}[i%3])
		}
		if m.Stage != routing.StageOld {
			_, err = o.Move(t.Context(), m)
		}
		must(t, err)
	}
	pages, err := console.New(console.Options{Config: inForce, Operator: o, Gateway: noUpstreams{}})
	must(t, err)
	return pages, o
}

// The table of many partners fits every screen, and several partners are chosen with the keyboard
// alone.
func TestManyPartnersInABrowser(t *testing.T) {
	t.Parallel()
	p := browser.NewTab(t)
	admin, _ := manyPartners(t, config.Separate, true)
	for _, l := range browser.Looks[:proxytest.Size(1, len(browser.Looks))] {
		p.Use(l)
		p.Open(admin + "/partners?lang=" + l.Language)
		p.Look("partners-many", l)
		p.Open(admin + "/partners?state=waiting")
		p.Do("opening reasons", chromedp.Evaluate[chromedp.Void](`void document.querySelectorAll("td details").forEach((e, i) => { e.open = i < 2 })`))
		p.Look("partners-waiting", l)
		p.Open(admin + "/partners/" + string(partner.Of("invented-14")))
		p.Look("partner-many", l)
	}
	p.Use(browser.Looks[0])
	p.Open(admin + "/partners?state=ready&lang=en")
	p.Do("the focus", chromedp.Evaluate[chromedp.Void](`void document.querySelector("input[type=checkbox]").focus()`))
	p.Do("choosing two with the keyboard", chromedp.KeyEvent(" "), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\t"), chromedp.KeyEvent(" "))
	click(p, "New wave with these")
	if lines := browser.Run(p, chromedp.Evaluate[int](`document.querySelector("textarea[name=partners]").value.trim().split("\n").length`)); lines != 2 {
		t.Errorf("the wave has %d partners", lines)
	}
	p.Quiet("partners")
}
