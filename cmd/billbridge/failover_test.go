package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
)

// An asynchronous standby is promoted that lacks the last creates and the last decision of an operator. The creates are sent again, and
// the bills read and destroyed, without anybody having done anything: no bill is at both backends, whether the gateways ran on or
// were killed and started again.
func TestNoBillIsDoubledAfterALossyFailOver(t *testing.T) {
	t.Parallel()
	const key = "demo-partner-key"
	stage := func(name string, percent int) func(*testing.T, *store.Store) error {
		return func(t *testing.T, s *store.Store) error {
			return s.SetStage(t.Context(), store.Stage{Partner: partner.Of(key), Stage: name, Percent: percent, By: "anna", At: time.Now(), Forced: true})
		}
	}
	stop := func(t *testing.T, s *store.Store) error { return s.Stop(t.Context(), "anna", time.Now()) }
	for n, c := range []struct {
		name          string
		before, after func(*testing.T, *store.Store) error // the decision that the standby has, and that which it lacks
		goesTo        int                                  // the backend of creates after the decision
		restart       bool
		old           string
	}{
		{"stage", stage("old", 0), stage("new", 0), 1, false, "legacy"},
		{"kill switch", stage("drained", 0), stop, 0, true, "v2"},
		{"canary", stage("canary", 0), stage("canary", 100), 1, true, "legacy"},
		{"stage", stage("old", 0), stage("new", 0), 1, true, "v2"},
		{"kill switch", stage("drained", 0), stop, 0, false, "legacy"},
		{"canary", stage("canary", 0), stage("canary", 100), 1, false, "v2"},
	} {
		if n == proxytest.Size(3, 6) {
			break
		}
		t.Run(fmt.Sprintf("%s, old is %s, restart %t", c.name, c.old, c.restart), func(t *testing.T) {
			t.Parallel()
			pair, b := proxytest.NewPair(t), newCluster(t)
			forms := []string{c.old, map[string]string{"legacy": "v2", "v2": "legacy"}[c.old]}
			var services []*sandbox.Service
			var urls []any
			for n, name := range backendNames {
				s := sandbox.New(sandbox.Options{Partners: []sandbox.Partner{{Key: key, Name: "a"}}, Transport: noCallbacks{}})
				server := httptest.NewServer(s)
				t.Cleanup(func() { server.Close(); _ = s.Close() })
				services, urls = append(services, s), append(urls, name, forms[n], server.URL)
			}
			decide := func(do ...func(*testing.T, *store.Store) error) {
				t.Helper()
				s, err := store.Open(t.Context(), pair.URL)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range do {
					if err := f(t, s); err != nil {
						t.Error(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			decide(func(t *testing.T, s *store.Store) error { return s.Begin(t.Context(), "test", time.Now()) },
				func(t *testing.T, s *store.Store) error {
					return s.Seen(t.Context(), partner.Of(key), time.Now().Add(-time.Hour))
				}, c.before)
			config := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams:\n"+
				"  %s: {form: %s, url: %q}\n  %s: {form: %s, url: %q}\nroute: {default: old}\nrollout: {old: old, new: new}\nstore: {url: %q}\n",
				append(urls, pair.URL)...)
			gateways := []*gateway{b.start(t, config), b.start(t, config)}

			at := func(bill string) (n int, where int) { // at how many backends it is, and at which
				for i, s := range services {
					if _, err := s.Bill(key, bill); err == nil {
						n, where = n+1, i
					}
				}
				return n, where
			}
			calls := 0
			call := func(operation, bill string) (int, string) {
				t.Helper()
				calls++
				form := []string{"v2", "legacy"}[calls/2%2]
				g := gateways[calls%2]
				return httpCall(t, http.MethodPost, "http://"+g.partners+operationPath(form, operation), operationBody(form, operation, billRef{key, bill}, "m", false))
			}
			created := func(bill string) {
				t.Helper()
				if status, answer := call("create", bill); status != 200 || gjson.Get(answer, "code").String() != "0000" {
					t.Fatalf("creating %s: %d %s", bill, status, answer)
				}
			}
			created("kept-1")
			created("kept-2")
			pair.Stall()
			decide(c.after)
			var bills []string
			for follow := 0; follow < 2; { // one after the other at both gateways, until both have the decision
				bills = append(bills, fmt.Sprint("seen-", len(bills)))
				created(bills[len(bills)-1])
				if _, where := at(bills[len(bills)-1]); where == c.goesTo {
					follow++
				} else {
					follow = 0
				}
			}
			for n := range 20 {
				bills = append(bills, fmt.Sprint("lost-", n))
				created(bills[len(bills)-1])
			}
			pair.FailOver()
			if c.restart {
				for _, g := range gateways {
					b.kill(t, g)
				}
				gateways = []*gateway{b.start(t, config), b.start(t, config)}
			}
			answers := map[string]int{}
			for _, operation := range []string{"create", "read", "create", "destroy", "create"} {
				for _, bill := range append(bills, "kept-1", "kept-2") {
					status, answer := call(operation, bill)
					code := gjson.Get(answer, "code").String()
					answers[fmt.Sprint(operation, " ", status, " ", code)]++
					if operation == "create" && code == "0000" {
						t.Errorf("%s was created again: %d %s", bill, status, answer)
					}
				}
			}
			for _, bill := range bills {
				if n, _ := at(bill); n != 1 {
					t.Errorf("%s is at %d backends", bill, n)
				}
			}
			t.Logf("%d bills that the new primary lacks: %v", len(bills), answers)
			_, status := httpCall(t, http.MethodGet, "http://"+gateways[0].operator+"/rollout?limit=1", "")
			if gjson.Get(status, "restored.by").String() != store.ByFailOver {
				t.Errorf("the status does not say what happened: %s", status)
			}
			log := gateways[0].process.all("stderr")
			if !strings.Contains(log, "the store lacks acknowledged writes") {
				t.Errorf("the log does not say what happened: %s", log)
			}
			_, metrics := httpCall(t, http.MethodGet, "http://"+gateways[0].operator+"/metrics", "")
			if !c.restart && !strings.Contains(metrics, `billbridge_store_failovers_total{outcome="lost"} 1`) {
				t.Error("no metric has the fail-over")
			}
		})
	}
}
