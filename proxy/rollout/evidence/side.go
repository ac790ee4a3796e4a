package evidence

// A Side is one of the two upstreams of a rollout.
type Side int

// The two sides. A partner moves from OldSide to NewSide.
const (
	OldSide Side = iota
	NewSide
)
