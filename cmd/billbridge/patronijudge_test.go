package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// judge checks what the fault did to the bills, and returns the rest of the line of the table.
func (b *patroniTrial) judge(t *testing.T, f patroniFault, began, primary time.Time) string {
	t.Helper()
	slices.SortFunc(b.calls, func(x, y patroniCall) int { return x.began.Compare(y.began) })
	var refused, after [2]time.Duration // by gateway
	var failing [2]*patroniCall         // the first of those that failed one after the other
	counts := map[string]int{}
	for i := range b.calls {
		call := &b.calls[i]
		switch {
		case call.read && !call.ok():
			counts["reads"]++
		case call.read:
		case call.ok():
			counts["bills"]++
			if first := failing[call.gateway]; first != nil {
				refused[call.gateway] += call.began.Sub(first.began)
				if from := primary; call.began.After(primary) {
					if first.began.After(primary) {
						from = first.began
					}
					after[call.gateway] += call.began.Sub(from)
				}
				failing[call.gateway] = nil
			}
		default:
			counts[map[bool]string{true: "refused", false: "unknown"}[call.refused()]]++
			if failing[call.gateway] == nil {
				failing[call.gateway] = call
			}
		}
	}
	for gateway, call := range failing {
		if call != nil {
			t.Errorf("%s: the creates of gateway %d do not come back: %d %s", b.address, gateway, call.status, call.text)
		}
	}
	if counts["reads"] > 0 {
		t.Errorf("%s: reads that need no store were refused: %d", b.address, counts["reads"])
	}
	failOvers := b.failOvers(t)
	b.checkBackends(t, counts)
	b.repeat(t, counts)
	if counts["not in ledger"] > 0 && !strings.Contains(failOvers, "lost") && !strings.Contains(failOvers, "unproven") {
		t.Errorf("%s: the ledger lacks %d bills, and no gateway reports it", b.address, counts["not in ledger"])
	}
	seconds := func(d [2]time.Duration) string { return fmt.Sprintf("%.1f", max(d[0], d[1]).Seconds()) }
	return fmt.Sprintf("%.1f\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%d", primary.Sub(began).Seconds(),
		seconds(refused), seconds(after), counts["reads"], counts["bills"], counts["refused"],
		counts["unknown"], counts["not in ledger"], failOvers, counts["lost"], counts["doubled"], counts["misrouted"])
}

var failOversOf = regexp.MustCompile(`(?m)^billbridge_store_failovers_total\{outcome="(\w+)"\} ([1-9]\d*)$`)

// failOvers returns what the gateways concluded. Of a loss the log speaks, too.
func (b *patroniTrial) failOvers(t *testing.T) string {
	t.Helper()
	var all []string
	for _, g := range b.gateways {
		_, metrics := httpCall(t, http.MethodGet, "http://"+g.operator+"/metrics", "")
		concluded := ""
		for _, found := range failOversOf.FindAllStringSubmatch(metrics, -1) {
			concluded += found[2] + " " + found[1] + " "
			named := strings.Contains(g.process.all("stderr"), "the store lacks acknowledged writes")
			if found[1] != string(store.Proven) && !named {
				t.Errorf("%s: the log does not say that the fail-over is %s", b.address, found[1])
			}
		}
		all = append(all, strings.TrimSpace(concluded))
	}
	return strings.Join(all, " / ")
}

// checkBackends looks for each bill at both backends and in the ledger.
func (b *patroniTrial) checkBackends(t *testing.T, counts map[string]int) {
	t.Helper()
	ledger, err := store.Open(t.Context(), b.pair.URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = ledger.Close() }()
	for _, call := range b.calls {
		if call.read {
			continue
		}
		n, where := b.atBackends(call.billRef)
		owner, err := proxytest.On(ledger).Owner(t.Context(), partner.Of(call.partner), call.bill)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		switch {
		case n > 1:
			counts["doubled"]++
			t.Errorf("%s: %s is at both backends: %d %s", b.address, call.bill, call.status, call.text)
		case call.ok() && n == 0:
			counts["lost"]++
			t.Errorf("%s: %s was created, and is nowhere", b.address, call.bill)
		case call.refused() && n > 0:
			counts["misrouted"]++
			t.Errorf("%s: %s was refused, and is at %s: %s", b.address, call.bill, backendNames[where], call.text)
		case call.ok() && err != nil:
			counts["not in ledger"]++
		case call.ok() && owner.Upstream != backendNames[where]:
			counts["misrouted"]++
			t.Errorf("%s: %s is at %s, and by the ledger at %s", b.address, call.bill, backendNames[where], owner.Upstream)
		}
	}
}

// atBackends returns at how many backends a bill is, and at which.
func (b *patroniTrial) atBackends(at billRef) (n, where int) {
	for i, s := range b.services {
		if _, err := s.Bill(at.partner, at.bill); err == nil {
			n, where = n+1, i
		}
	}
	return n, where
}

// repeat creates every bill again, as partners do that had no answer, or lost it. No bill is created twice.
func (b *patroniTrial) repeat(t *testing.T, counts map[string]int) {
	t.Helper()
	todo := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range todo {
				before := b.calls[i]
				again := b.send("create", before.billRef, i)
				proxytest.Eventually(t, func() bool {
					if again.status == http.StatusServiceUnavailable {
						again = b.send("create", before.billRef, i)
					}
					return again.status != http.StatusServiceUnavailable
				}, func() string {
					return b.address + ": the second create of " + before.bill + " is refused: " + again.text
				})
				n, _ := b.atBackends(before.billRef)
				b.mu.Lock()
				if n != 1 || before.ok() && again.ok() || !again.ok() && again.code != "BILL_001" {
					t.Errorf("%s: the second create of %s: %d %s, and it is at %d backends; the first: %d %s",
						b.address, before.bill, again.status, again.text, n, before.status, before.text)
				}
				if n > 1 {
					counts["doubled"]++
				}
				b.mu.Unlock()
			}
		})
	}
	for i := range b.calls {
		if !b.calls[i].read {
			todo <- i
		}
	}
	close(todo)
	workers.Wait()
}
