package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	g.tokens = newTokens(&config.Admin{Token: config.NewSecret("right")}, func() *config.Limits { return &config.Limits{} }, slog.New(slog.NewJSONHandler(&g.log, nil)), registry)
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

const attacker, operator = "192.0.2.66:1000", "192.0.2.10:1000"

// Wrong tokens are slowed down wherever they are sent, as package pages says, and counted together. The right token
// passes at once. A request without a token, or with a wrong cookie, is no guess.
func TestWrongTokensAreSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesser(t)
		wants := func(path, from, token string, want int, delay time.Duration) {
			t.Helper()
			began := time.Now()
			status, _ := g.signIn(from, token, false, nil)
			if path != "/sign-in" {
				began = time.Now()
				status, _, _ = g.ask(path, from, token)
			}
			if took := time.Since(began); status != want || took != delay {
				t.Errorf("%s from %s with %q: %d after %s, want %d after %s", path, from, token, status, took, want, delay)
			}
		}
		for range 10 * pages.FreeGuesses {
			g.ask("/metrics", attacker, "")
			g.wantSession(t, "a wrong cookie", &http.Cookie{Name: sessionCookie, Value: "x"}, 401)
		}
		g.wantCount(t, "missing", 20*pages.FreeGuesses)
		for i := range pages.FreeGuesses {
			if i%2 == 0 {
				if _, took, _ := g.ask("/metrics", attacker, "wrong"); took != 0 {
					t.Errorf("guess %d is answered after %s", i, took)
				}
			} else {
				g.signIn(attacker, "wrong", false, nil)
			}
		}
		for _, path := range []string{"/metrics", "/sign-in"} {
			wants(path, attacker, "right", 200, 0)
			wants(path, operator, "right", 200, 0)
		}
		_, took, _ := g.ask("/metrics", attacker, "wrong")
		status, ready, _ := g.ask("/-/ready?verbose", attacker, "wrong")
		if took != pages.GuessDelay || ready != pages.GuessDelay || status != http.StatusServiceUnavailable {
			t.Errorf("after %s and %s: %d", took, ready, status)
		}
		var flood sync.WaitGroup
		var busy atomic.Int32
		for range 20 {
			flood.Go(func() {
				if status, took, _ := g.ask("/metrics", attacker, "wrong"); status == http.StatusTooManyRequests && took == 0 {
					busy.Add(1)
				}
			})
		}
		flood.Wait()
		if busy.Load() != 20-pages.MaxGuesses {
			t.Errorf("%d of 20 were refused at once", busy.Load())
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
