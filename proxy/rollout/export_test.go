package rollout

import "context"

// Follow reads what was decided, as Run does again and again.
func (r *Router) Follow(ctx context.Context) error { return r.follow(ctx) }
