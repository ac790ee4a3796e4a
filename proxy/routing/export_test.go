package routing

import "context"

// Sweep removes old rows, as Run does at intervals.
func (r *Router) Sweep(ctx context.Context) error { return r.sweep(ctx) }
