package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A guesser sends requests to an admin handler. It must be used in a synctest bubble.
type guesser struct {
	tokens  *tokens
	log     proxytest.Log
	handler http.Handler
}

func newGuesser(t *testing.T) *guesser {
	t.Helper()
	g, registry := &guesser{}, prometheus.NewRegistry()
	g.tokens = newTokens(&config.Admin{Token: config.NewSecret("right")}, slog.New(slog.NewJSONHandler(&g.log, nil)), registry)
	t.Cleanup(g.tokens.guesses.Close)
	g.handler = adminRoutes{
		tokens: g.tokens, metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		ready: func() []check { return []check{{name: "store", problem: "down", detail: http.ErrServerClosed}} },
	}.router()
	return g
}

// ask returns the status of a request with a token, and how long the answer took.
func (g *guesser) ask(path, from, token string) (status int, took time.Duration, body string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = from
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, began := httptest.NewRecorder(), time.Now()
	g.handler.ServeHTTP(w, r)
	return w.Code, time.Since(began), w.Body.String()
}

func (g *guesser) wantCount(t *testing.T, reason string, n int) {
	t.Helper()
	want := fmt.Sprintf("billbridge_admin_token_refused_total{reason=%q} %d\n", reason, n)
	if _, _, metrics := g.ask("/metrics", "192.0.2.99:1", "right"); !strings.Contains(metrics, want) {
		t.Errorf("no %s", want)
	}
}

// lines returns the address and count of each log line.
func (g *guesser) lines(t *testing.T) (list []string) {
	t.Helper()
	for line := range strings.Lines(g.log.String()) {
		var record struct {
			Msg, Address string
			Count        int
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg != "the admin token was missing or wrong" {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, fmt.Sprint(record.Address, " ", record.Count))
	}
	return list
}

const attacker, operator = "192.0.2.66:1000", "192.0.2.10:1000"

// After some wrong tokens the answers to further ones of the address are delayed. The right token passes at once, and the address is
// forgotten.
func TestWrongTokensAreSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		for i := range pages.FreeGuesses {
			if status, took, _ := g.ask("/metrics", attacker, "wrong"); status != http.StatusUnauthorized || took != 0 {
				t.Errorf("guess %d: %d after %s", i, status, took)
			}
		}
		if status, took, _ := g.ask("/metrics", attacker, "wrong"); status != http.StatusUnauthorized || took != pages.GuessDelay {
			t.Errorf("a further guess: %d after %s", status, took)
		}
		if status, took, _ := g.ask("/metrics", "192.0.2.66:2000", "right"); status != http.StatusOK || took != 0 {
			t.Errorf("the right token from this address: %d after %s", status, took)
		}
		if status, took, _ := g.ask("/metrics", operator, "right"); status != http.StatusOK || took != 0 {
			t.Errorf("the right token from another address: %d after %s", status, took)
		}
		if status, took, _ := g.ask("/-/ready?verbose", attacker, "wrong"); status != http.StatusServiceUnavailable || took != pages.GuessDelay {
			t.Errorf("a guess at /-/ready: %d after %s", status, took)
		}
		time.Sleep(pages.GuessesEnd - pages.GuessLogInterval)
		if _, took, _ := g.ask("/metrics", attacker, "wrong"); took != pages.GuessDelay {
			t.Errorf("some minutes later: after %s", took)
		}
		time.Sleep(pages.GuessesEnd + pages.GuessLogInterval)
		if status, took, _ := g.ask("/metrics", attacker, "wrong"); status != http.StatusUnauthorized || took != 0 {
			t.Errorf("later: %d after %s", status, took)
		}
	})
}

// Requests without a token are no guesses: they are counted and logged, and delay nothing.
func TestMissingTokensDelayNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		for range 10 * pages.FreeGuesses {
			if status, took, _ := g.ask("/metrics", operator, ""); status != http.StatusUnauthorized || took != 0 {
				t.Fatalf("%d after %s", status, took)
			}
		}
		if status, took, _ := g.ask("/metrics", operator, "right"); status != http.StatusOK || took != 0 {
			t.Errorf("the right token: %d after %s", status, took)
		}
		g.wantCount(t, "missing", 10*pages.FreeGuesses)
		for i := range 2 * pages.MaxGuessers {
			g.ask("/metrics", fmt.Sprintf("[2001:db8:%x::1]:1", i), "")
		}
		if got := len(g.lines(t)); got > pages.MaxGuessers/2+1 {
			t.Errorf("%d lines", got)
		}
		for range pages.FreeGuesses {
			g.ask("/metrics", attacker, "wrong")
		}
		if status, took, _ := g.ask("/metrics", "192.0.2.67:1", "wrong"); status != http.StatusUnauthorized || took != 0 {
			t.Errorf("another address has the guesses of others: %d after %s", status, took)
		}
	})
}

// Of one address a few requests wait, and further ones get 429 at once. A caller that goes away ends its wait.
func TestWaitingForATokenIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		for range pages.FreeGuesses {
			g.ask("/metrics", attacker, "wrong")
		}
		var flood sync.WaitGroup
		var waited, busy atomic.Int32
		for range 1000 {
			flood.Go(func() {
				switch status, took, _ := g.ask("/metrics", attacker, "wrong"); {
				case status == http.StatusUnauthorized && took == pages.GuessDelay:
					waited.Add(1)
				case status == http.StatusTooManyRequests && took == 0:
					busy.Add(1)
				}
			})
		}
		flood.Wait()
		if status, took, _ := g.ask("/metrics", attacker, "right"); status != http.StatusOK || took != 0 {
			t.Errorf("the right token of the same address: %d after %s", status, took)
		}
		if waited.Load() != pages.MaxGuesses || busy.Load() != 1000-pages.MaxGuesses {
			t.Errorf("%d waited and %d were refused at once", waited.Load(), busy.Load())
		}
		if status, took, _ := g.ask("/metrics", operator, "right"); status != http.StatusOK || took != 0 {
			t.Errorf("another address: %d after %s", status, took)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if began := time.Now(); g.tokens.guesses.Wait(gone, sourceOf(attacker)) || time.Since(began) != 0 {
			t.Errorf("a request whose caller is gone waited for %s", time.Since(began))
		}
		if status, took, _ := g.ask("/metrics", attacker, "wrong"); status != http.StatusUnauthorized || took != pages.GuessDelay {
			t.Errorf("requests still count as waiting: %d after %s", status, took)
		}
	})
}

// One line a minute for each address, with the number of failures. The first failure is logged at once, and none is left out.
func TestWrongTokensAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		for range 90 { // 90 seconds
			g.ask("/metrics", attacker, "")
			g.ask("/metrics", "[2001:db8:1:2::1]:1", "")
			g.ask("/metrics", "[2001:db8:1:2:ffff::9]:1", "")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		sum, count := map[string]int{}, map[string]int{}
		for _, line := range g.lines(t) {
			var address string
			var n int
			if _, err := fmt.Sscan(line, &address, &n); err != nil {
				t.Fatal(err)
			}
			sum[address], count[address] = sum[address]+n, count[address]+1
		}
		if sum["192.0.2.66"] != 90 || sum["2001:db8:1:2::/64"] != 180 || count["192.0.2.66"] != 3 || count["2001:db8:1:2::/64"] != 3 || len(sum) != 2 {
			t.Errorf("%q", g.lines(t))
		}
	})
}

// A flood of addresses takes bounded memory and a bounded number of log lines, and does not get more guesses.
func TestFloodOfAddressesIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		for i := range 3 * pages.MaxGuessers {
			g.tokens.fail(sourceOf(fmt.Sprintf("[2001:db8:%x::1]:1", i)), "wrong")
		}
		if got := len(g.lines(t)); got != pages.MaxGuessers+1 {
			t.Errorf("%d lines", got)
		}
		if _, took, _ := g.ask("/metrics", "[2001:db8:ffff::1]:1", "wrong"); took != pages.GuessDelay {
			t.Errorf("a guess from a further address was answered after %s", took)
		}
	})
}

// The cause of a problem in /-/ready?verbose needs the token, and asking for it without ?verbose is not a guess.
func TestReadyShowsCausesWithTheTokenOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		cause := http.ErrServerClosed.Error()
		for token, want := range map[string]bool{"right": true, "wrong": false, "": false} {
			if _, _, body := g.ask("/-/ready?verbose", operator, token); strings.Contains(body, cause) != want {
				t.Errorf("%q: %s", token, body)
			}
		}
		g.ask("/-/ready", operator, "wrong")
		g.wantCount(t, "wrong", 1)
	})
}

func sourceOf(remote string) netip.Prefix {
	from, _ := new(config.Limits).Peer(remote)
	return from
}
