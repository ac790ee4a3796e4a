package relay

import (
	"context"
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
