package pages

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/proxytest"
)

// sourceNumber returns one of many source addresses.
func sourceNumber(i int) netip.Prefix {
	from, _ := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).Prefix(32)
	return from
}

// guess returns whether a wrong token is answered, and how long that takes.
func (g *Guesses) guess(from netip.Prefix) (answered bool, took time.Duration) {
	began := time.Now()
	if answered = g.Wait(context.Background(), from); answered {
		g.Fail(from, true)
	}
	return answered, time.Since(began)
}

// The first wrong tokens of an address are answered at once, and further ones after a delay, until it has sent none for
// some minutes. Requests without a token neither begin nor extend that. Others are not delayed.
func TestGuessesAreSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := Guesses{Log: slog.New(slog.DiscardHandler)}
		defer g.Close()
		here, there := sourceNumber(1), sourceNumber(2)
		takes := func(from netip.Prefix, want time.Duration) {
			t.Helper()
			if answered, took := g.guess(from); !answered || took != want {
				t.Errorf("%s: %v after %s, want %s", from, answered, took, want)
			}
		}
		for range 10 * FreeGuesses {
			g.Fail(here, false)
		}
		for range FreeGuesses {
			takes(here, 0)
		}
		takes(here, GuessDelay)
		takes(there, 0)
		time.Sleep(GuessesEnd - GuessLogInterval)
		takes(here, GuessDelay)
		for range 6 {
			g.Fail(here, false)
			time.Sleep(GuessLogInterval)
		}
		takes(here, 0)
	})
}

// Of one address a few requests wait, and further ones are refused at once. A caller that goes away ends its wait.
func TestWaitingGuessesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := Guesses{Log: slog.New(slog.DiscardHandler)}
		defer g.Close()
		from := sourceNumber(1)
		for range FreeGuesses {
			g.Fail(from, true)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if began := time.Now(); g.Wait(gone, from) || time.Since(began) != 0 {
			t.Errorf("a request whose caller is gone waited for %s", time.Since(began))
		}
		var flood sync.WaitGroup
		var waited, refused atomic.Int32
		for range 1000 {
			flood.Go(func() {
				switch answered, took := g.guess(from); {
				case answered && took == GuessDelay:
					waited.Add(1)
				case !answered && took == 0:
					refused.Add(1)
				}
			})
		}
		flood.Wait()
		if waited.Load() != MaxGuesses || refused.Load() != 1000-MaxGuesses {
			t.Errorf("%d waited and %d were refused at once", waited.Load(), refused.Load())
		}
	})
}

// The first failure of an address is logged at once, then a line a minute has the number of further ones. Many addresses
// have one line together.
func TestGuessesAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log proxytest.Log
		g := Guesses{Token: "token", Log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 90 { // 90 seconds
			g.Fail(sourceNumber(1), false)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		sum, lines := 0, 0
		for line := range strings.Lines(log.String()) {
			var n int
			_, count, _ := strings.Cut(line, `msg="the token was missing or wrong" address=10.0.0.1 count=`)
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum, lines = sum+n, lines+1
		}
		if sum != 90 || lines != 3 {
			t.Errorf("%d failures in %d lines", sum, lines)
		}
		for i := range 3 * MaxGuessers {
			g.Fail(sourceNumber(i), true)
		}
		if got := strings.Count(log.String(), "\n") - lines; got != MaxGuessers+1 {
			t.Errorf("%d lines of many addresses", got)
		}
		if _, took := g.guess(sourceNumber(9 * MaxGuessers)); took != GuessDelay {
			t.Errorf("a guess from a further address was answered after %s", took)
		}
		g.Close()
	})
}

// Addresses take bounded memory, those without a token half of it, and are forgotten.
func TestGuessesAreForgotten(t *testing.T) {
	t.Parallel()
	for guess, most := range map[bool]int{true: MaxGuessers, false: MaxGuessers / 2} {
		synctest.Test(t, func(t *testing.T) {
			g := Guesses{Log: slog.New(slog.DiscardHandler)}
			for i := range 3 * MaxGuessers {
				g.Fail(sourceNumber(i), guess)
			}
			g.mu.Lock()
			if n := len(g.from); n != most+1 {
				t.Errorf("%d addresses are remembered, want %d", n, most+1)
			}
			g.mu.Unlock()
			time.Sleep(time.Hour)
			g.mu.Lock()
			defer g.mu.Unlock()
			if len(g.from) != 0 || g.sweep != nil {
				t.Errorf("%d addresses are remembered, and the timer is %v", len(g.from), g.sweep)
			}
		})
	}
}
