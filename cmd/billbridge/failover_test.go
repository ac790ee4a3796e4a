package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
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
func TestR41_NoBillIsDoubledAfterALossyFailOver(t *testing.T) {
	t.Parallel()
	stage := func(name string, percent int) func(*testing.T, *store.Store) error {
		return func(t *testing.T, s *store.Store) error {
			return s.Change(t.Context(), store.Change{Action: store.Staged, Partner: partner.Of(trialKey), To: name, ToPercent: percent, By: "anna", At: time.Now(), Forced: true})
		}
	}
	stop := func(t *testing.T, s *store.Store) error {
		return s.Change(t.Context(), store.Change{Action: store.Stopped, By: "anna", At: time.Now()})
	}
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
		if n == proxytest.Size(2, 6) {
			break
		}
		t.Run(fmt.Sprintf("%s, old is %s, restart %t", c.name, c.old, c.restart), func(t *testing.T) {
			t.Parallel()
			b := newFailOverTrial(t, c.old, "")
			b.decide(t, c.before)
			b.startBoth(t)
			b.created(t, "kept-1")
			b.created(t, "kept-2")
			b.pair.Stall()
			b.decide(t, c.after)
			var bills []string
			for follow := 0; follow < 2; { // one after the other at both gateways, until both have the decision
				bills = append(bills, fmt.Sprint("seen-", len(bills)))
				b.created(t, bills[len(bills)-1])
				if _, where := b.at(bills[len(bills)-1]); where == c.goesTo {
					follow++
				} else {
					follow = 0
				}
			}
			for n := range 20 {
				bills = append(bills, fmt.Sprint("lost-", n))
				b.created(t, bills[len(bills)-1])
			}
			b.pair.FailOver()
			if c.restart {
				for _, g := range b.gateways {
					b.kill(t, g)
				}
				b.startBoth(t)
			}
			answers := map[string]int{}
			for _, operation := range []string{"create", "read", "create", "destroy", "create"} {
				for _, bill := range append(bills, "kept-1", "kept-2") {
					status, answer := b.call(t, operation, bill)
					code := gjson.Get(answer, "code").String()
					answers[fmt.Sprint(operation, " ", status, " ", code)]++
					if operation == "create" && code == "0000" {
						t.Errorf("%s was created again: %d %s", bill, status, answer)
					}
				}
			}
			for _, bill := range bills {
				gives(t, 1, bill)(b.at(bill))
			}
			t.Logf("%d bills that the new primary lacks: %v", len(bills), answers)
			_, status := httpCall(t, http.MethodGet, "http://"+b.gateways[0].operator+"/rollout?limit=1", "")
			equal(t, gjson.Get(status, "restored.by").String(), store.ByFailOver, status)
			log := b.gateways[0].process.all("stderr")
			has(t, log, "the store lacks acknowledged writes")
			_, metrics := httpCall(t, http.MethodGet, "http://"+b.gateways[0].operator+"/metrics", "")
			if !c.restart && !strings.Contains(metrics, `billbridge_store_failovers_total{outcome="lost"} 1`) {
				t.Error("no metric has the fail-over")
			}
		})
	}
}

const trialKey = "demo-partner-key"

// A failOverTrial is two gateways on a pair of PostgreSQL servers, between two backends. The partner was first seen long ago.
type failOverTrial struct {
	*cluster
	pair     *proxytest.Pair
	services []*sandbox.Service
	config   string
	gateways []*gateway
	calls    int
}

func newFailOverTrial(t *testing.T, old, settings string) *failOverTrial {
	b := &failOverTrial{pair: proxytest.NewPair(t), cluster: newCluster(t)}
	b.services, b.config = startBackends(t, old, map[string]string{"legacy": "v2", "v2": "legacy"}[old], "", []string{trialKey}, nil)
	b.config += fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nroute: {default: old}\nrollout: {old: old, new: new}\nstore: {url: %q%s}\n",
		b.pair.URL, settings)
	b.decide(t, func(t *testing.T, s *store.Store) error {
		return s.Change(t.Context(), store.Change{Action: store.Begun, By: "test", At: time.Now()})
	},
		func(t *testing.T, s *store.Store) error {
			return s.Seen(t.Context(), partner.Of(trialKey), time.Now().Add(-time.Hour))
		})
	return b
}

// decide makes decisions of an operator, past the gateways.
func (b *failOverTrial) decide(t *testing.T, do ...func(*testing.T, *store.Store) error) {
	t.Helper()
	s, err := store.Open(t.Context(), b.pair.URL)
	must(t, err)
	for _, f := range do {
		must(t, f(t, s))
	}
	must(t, s.Close())
}

func (b *failOverTrial) startBoth(t *testing.T) {
	t.Helper()
	b.gateways = []*gateway{b.start(t, b.config), b.start(t, b.config)}
}

// at returns at how many backends a bill is, and at which.
func (b *failOverTrial) at(bill string) (n int, where int) {
	for i, s := range b.services {
		if _, err := s.Bill(trialKey, bill); err == nil {
			n, where = n+1, i
		}
	}
	return n, where
}

// call makes a call, by turns at both gateways and in both forms.
func (b *failOverTrial) call(t *testing.T, operation, bill string) (int, string) {
	t.Helper()
	b.calls++
	return b.callAt(t, b.calls, operation, bill)
}

// callAt makes the call of a number.
func (b *failOverTrial) callAt(t *testing.T, number int, operation, bill string) (int, string) {
	t.Helper()
	form := []string{"v2", "legacy"}[number/2%2]
	g := b.gateways[number%2]
	return httpCall(t, http.MethodPost, "http://"+g.partners+operationPath(form, operation), operationBody(form, operation, billRef{trialKey, bill}, "m", false))
}

func (b *failOverTrial) created(t *testing.T, bill string) {
	t.Helper()
	var status int
	var answer string
	proxytest.Eventually(t, func() bool { // on a busy machine a call can be refused, and was not sent
		status, answer = b.call(t, "create", bill)
		return status != http.StatusServiceUnavailable
	}, func() string { return answer })
	if status != 200 || gjson.Get(answer, "code").String() != "0000" {
		t.Fatalf("creating %s: %d %s", bill, status, answer)
	}
}

// A synchronous standby has all that was acknowledged. While no standby is there, creates return 503 and are not sent. After its promotion they
// are created once, at once: nothing counts as restored.
func TestNothingIsLostWithASynchronousStandby(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	b := newFailOverTrial(t, "legacy", ", failover: lossless")
	b.decide(t, func(t *testing.T, s *store.Store) error {
		return s.Change(t.Context(), store.Change{Action: store.Staged, Partner: partner.Of(trialKey), To: "new", By: "anna", At: time.Now(), Forced: true})
	})
	b.pair.Synchronous()
	b.startBoth(t)
	b.created(t, "kept-1")
	b.created(t, "kept-2")
	b.pair.Stall()
	var refusing sync.WaitGroup // both wait for the standby, for as long as a call waits for the store
	for n, bill := range []string{"refused-1", "refused-2"} {
		refusing.Go(func() {
			gives(t, http.StatusServiceUnavailable, "without a standby")(b.callAt(t, n, "create", bill))
			if n, _ := b.at(bill); n > 0 {
				t.Errorf("%s was sent", bill)
			}
		})
	}
	refusing.Wait()
	b.pair.FailOver()
	for _, bill := range []string{"refused-1", "refused-2", "later"} {
		proxytest.Eventually(t, func() bool { status, _ := b.call(t, "create", bill); return status == http.StatusOK },
			func() string { return "the create of " + bill + " is refused after the fail-over" })
	}
	for _, bill := range []string{"kept-1", "kept-2", "refused-1", "refused-2", "later"} {
		if _, answer := b.call(t, "create", bill); gjson.Get(answer, "code").String() != "BILL_001" {
			t.Errorf("%s again: %s", bill, answer)
		}
		gives(t, 1, bill)(b.at(bill))
	}
	_, status := httpCall(t, http.MethodGet, "http://"+b.gateways[0].operator+"/rollout?limit=1", "")
	if gjson.Get(status, "restored.by").Exists() {
		t.Errorf("the store counts as restored: %s", status)
	}
	_, metrics := httpCall(t, http.MethodGet, "http://"+b.gateways[0].operator+"/metrics", "")
	has(t, metrics, `billbridge_store_failovers_total{outcome="proven"} 1`)
}
