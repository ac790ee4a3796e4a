package evidence

// A Backend is one of the two upstreams of a rollout.
type Backend int

// The two backends. A partner moves from Old to New.
const (
	Old Backend = iota
	New
)
