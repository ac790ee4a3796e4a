package main

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"

	"github.com/tidwall/gjson"
)

// While PostgreSQL is frozen, creates are answered with 503 and the reads of the partner go on, both at once: but for the one that tries the
// database, no call waits for the ledger and keeps a place of its partner. The log has one line for many of them, and /-/ready?verbose has
// the reason.
func TestFrozenStoreTakesNoPlacesOfPartners(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t) // TestSilentStoreFailsAtOnce of package store has what the gateway relies on
	b := newFailOverTrial(t, "legacy", "")
	b.decide(t, func(t *testing.T, s *store.Store) error {
		return s.Change(t.Context(), store.Change{Action: store.Staged, Partner: partner.Of(trialKey), To: "new", By: "anna", At: time.Now(), Forced: true})
	})
	b.gateways = []*gateway{b.start(t, b.config)}
	b.gateways = append(b.gateways, b.gateways[0])
	b.created(t, "bill")
	const creating, reading, each = 50, 4, 40 // the partner has 64 places
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: creating + reading}}
	t.Cleanup(client.CloseIdleConnections)
	load := func(creating int) (answers map[string]int, slowest time.Duration) {
		var mu sync.Mutex
		var took []time.Duration
		var senders sync.WaitGroup
		answers = map[string]int{}
		send := func(operation, bill string) {
			began := time.Now()
			status, answer, err := post(t.Context(), client, "http://"+b.gateways[0].partners+operationPath("v2", operation),
				operationBody("v2", operation, billRef{trialKey, bill}, "m", false))
			mu.Lock()
			defer mu.Unlock()
			if operation == "read" {
				took = append(took, time.Since(began))
			}
			if answers[fmt.Sprint(operation, " ", status)]++; err != nil {
				t.Errorf("%s: %v %s", operation, err, answer)
			}
		}
		for i := range creating {
			senders.Go(func() {
				for n := range each {
					send("create", fmt.Sprint("new-", i, "-", n))
				}
			})
		}
		for range reading {
			senders.Go(func() {
				for range each * 5 {
					send("read", "bill")
				}
			})
		}
		senders.Wait()
		slices.Sort(took)
		return answers, took[len(took)*99/100]
	}
	_, healthy := load(0)
	b.pair.Freeze()
	ready := func() string {
		_, text := httpCall(t, http.MethodGet, "http://"+b.gateways[0].operator+"/-/ready?verbose", "")
		return text
	}
	proxytest.Eventually(t, func() bool { return strings.Contains(ready(), "PostgreSQL is down since ") }, ready)
	_, alone := load(0)
	before, slowBefore := b.ledgerCalls(t)
	answers, busy := load(creating)
	if want := map[string]int{"create 503": creating * each, "read 200": reading * each * 5}; !maps.Equal(answers, want) {
		t.Errorf("%v, want %v", answers, want)
	}
	after, slow := b.ledgerCalls(t)
	if all := after - before; int(all) < creating*each || (slow-slowBefore)*10 > all {
		t.Errorf("%.0f of %.0f operations of the ledger took longer than a second", slow-slowBefore, all)
	}
	lines := 0
	for line := range strings.Lines(b.gateways[0].process.all("stderr")) {
		if gjson.Get(line, "level").String() == "ERROR" {
			lines++
		}
	}
	if lines*20 > creating*each {
		t.Errorf("%d errors in the log for %d creates", lines, creating*each)
	}
	t.Logf("p99 of reads: healthy %s, frozen %s, with creates %s; errors in the log: %d, slow: %.0f", healthy, alone, busy, lines, slow-slowBefore)
}

// ledgerCalls returns how many operations of the ledger the first gateway has counted, and how many of them took longer than a second.
func (b *failOverTrial) ledgerCalls(t *testing.T) (all, slow float64) {
	t.Helper()
	_, metrics := httpCall(t, http.MethodGet, "http://"+b.gateways[0].operator+"/metrics", "")
	for _, m := range regexp.MustCompile(`(?m)^billbridge_rollout_ledger_seconds_(count|bucket)\{(.*)\} (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		switch {
		case err != nil:
			t.Error(err)
		case m[1] == "count":
			all, slow = all+n, slow+n
		case strings.Contains(m[2], `le="1"`) || strings.Contains(m[2], `le="1.0"`):
			slow -= n
		}
	}
	return all, slow
}
