package relay

import (
	"context"
	"sync"
	"time"
)

// lostFor is how long after a loss of writes an unknown address may be one of the lost: so long do backends repeat a callback
// (translate/README.md, Events). A final answer would lose the callback of a payment.
const lostFor = 24 * time.Hour

// mayLackAddresses reports whether the store was restored, or lacks writes after a fail-over, a short time ago.
func (r *Relay) mayLackAddresses(ctx context.Context) bool {
	state, err := r.store.Rollout(ctx)
	return err != nil || !state.Restored.At.IsZero() && r.now().Sub(state.Restored.At) < lostFor
}

// lostAddresses logs callbacks to addresses that may be lost, once a minute: anybody can call an address that does not exist.
type lostAddresses struct {
	mu     sync.Mutex
	n      int
	logged time.Time
}

func (l *lostAddresses) count(r *Relay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if now := r.now(); now.Sub(l.logged) >= time.Minute {
		r.log.Error("callbacks came to addresses that the store does not have, and it lacks writes since a fail-over or a restore: they get 503, so that the backend "+
			"sends them again. Find their bills with billbridge bills read", "count", l.n)
		l.n, l.logged = 0, now
	}
}
