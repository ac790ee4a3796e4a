package rollout

// A Side is one of the two upstreams of a rollout.
type Side int

// The two sides. A partner moves from OldSide to NewSide.
const (
	OldSide Side = iota
	NewSide
)

// A Reason is why a call goes where it goes, for the metric of routed calls and the access log.
type Reason string

// The reasons.
const (
	ByOwner  Reason = "owner"  // the ledger knows whose the bill is
	ByStage  Reason = "stage"  // the partner's
	ByCanary Reason = "canary" // the store is among the percentage, or is not
	ByProbe  Reason = "probe"  // both sides were asked whose it is
	ByStop   Reason = "stop"   // the kill switch
)

// A situation is what a decision rests on.
type situation struct {
	shared   bool // both upstreams see the same bills: nobody owns one
	restored bool // the store was restored from a backup: what it does not know may be anywhere
	position Position
	stopped  bool
	settled  bool  // the partner has been seen through the bridge for the settling time
	chosen   bool  // its store is among the percentage
	owner    *Side // nil: the ledger knows none, or none any more
	stale    *Side // where a create was pending when the backup was made that the store was restored from
}

// A decision is where a call goes.
type decision struct {
	side   Side
	reason Reason
	// ask is set where the other side must be asked first, by a read, and nothing be sent before it has said for certain
	// that it has no such bill (create), or where both must be asked whose the bill is (other operations).
	ask bool
}

// create decides on a create. The ledger only picks the side; whether the bill can be made there its owner says.
func (s situation) create() decision {
	if s.owner != nil && !s.shared {
		return decision{side: *s.owner, reason: ByOwner}
	}
	if s.stale != nil && !s.shared {
		// It may have been refused there since, and made at the other side. The kill switch asks the new side nothing.
		return decision{side: *s.stale, reason: ByOwner, ask: !s.stopped || *s.stale == NewSide}
	}
	d := s.byStage()
	// What a partner sent to the old side before the bridge was there may have timed out, and be sent again now: it must
	// not become a second bill. The new side was never reached past the bridge, so that nobody asks it.
	d.ask = !s.shared && (s.restored && !s.stopped || d.side == NewSide && s.position.Stage != StageDrained)
	return d
}

// other decides on any other operation: it goes to the owner, whatever the stage.
func (s situation) other() decision {
	switch {
	case s.shared:
		return s.byStage()
	case s.owner != nil:
		return decision{side: *s.owner, reason: ByOwner}
	case s.position.Stage == StageDrained && s.settled && !s.restored:
		return decision{side: NewSide, reason: ByStage}
	}
	return decision{side: s.byStage().side, reason: ByProbe, ask: true}
}

// byStage is the side that the stage prefers.
func (s situation) byStage() decision {
	switch {
	case s.stopped:
		return decision{side: OldSide, reason: ByStop}
	case s.position.Stage == StageCanary && s.settled && s.chosen:
		return decision{side: NewSide, reason: ByCanary}
	case s.position.Stage == StageCanary:
		return decision{side: OldSide, reason: ByCanary}
	case (s.position.Stage == StageNew || s.position.Stage == StageDrained) && s.settled:
		return decision{side: NewSide, reason: ByStage}
	}
	return decision{side: OldSide, reason: ByStage}
}
