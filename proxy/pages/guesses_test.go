package pages

import (
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// Addresses take bounded memory, those without a token half of it, and are forgotten.
func TestGuessesAreForgotten(t *testing.T) {
	t.Parallel()
	for guess, most := range map[bool]int{true: MaxGuessers, false: MaxGuessers / 2} {
		synctest.Test(t, func(t *testing.T) {
			g := Guesses{Log: slog.New(slog.DiscardHandler)}
			for i := range 3 * MaxGuessers {
				from, _ := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).Prefix(32)
				g.Fail(from, guess)
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
