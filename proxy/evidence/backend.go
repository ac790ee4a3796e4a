package evidence

// A Backend is one of the two backends of a rollout.
type Backend int

// The backends. Partners move from Old to New.
const (
	Old Backend = iota
	New
)
