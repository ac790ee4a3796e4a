package rollout

import "billbridge/proxy/rollout/evidence"

// A Reason is why a call goes where it goes, for the metric of routed calls and the access log.
type Reason string

// The reasons.
const (
	byOwner  Reason = "owner"  // the ledger knows whose the bill is
	byStage  Reason = "stage"  // the partner's
	byCanary Reason = "canary" // the bill, or its merchant, is among the percentage, or is not
	byProbe  Reason = "probe"  // both backends were asked whose it is
	byStop   Reason = "stop"   // the kill switch
)

// A situation is what a decision rests on.
type situation struct {
	shared   bool // both upstreams see the same bills: nobody owns one
	restored bool // the store was restored from a backup: what it does not know may be anywhere
	unbegun  bool // the store is new, and nobody has said that the rollout begins: the same
	position position
	stopped  bool
	settled  bool              // the partner has been seen through the bridge for the settling time
	chosen   bool              // the bill, or its merchant, is among the percentage
	owner    *evidence.Backend // nil: the ledger knows none, or none any more
	stale    *evidence.Backend // where a create was pending when the backup was made that the store was restored from
}

// A decision is where a call goes.
type decision struct {
	backend evidence.Backend
	reason  Reason
	// ask is set where the other backend must be asked first, by a read, and nothing be sent before it has said for certain
	// that it has no such bill (create), or where both must be asked which of them has the bill (other operations).
	ask bool
}

// incomplete reports whether the ledger may lack bills that went through the gateway.
func (s situation) incomplete() bool { return s.restored || s.unbegun }

// asks reports whether the other backend must be asked before a create is sent to a backend that is not known to have the bill
// (README.md, "Why it is like this", P1 to P3).
func (s situation) asks(backend evidence.Backend) bool {
	switch {
	case s.shared:
		return false
	case backend == evidence.New:
		return s.position.stage != StageDrained || s.incomplete()
	}
	return s.unbegun || s.restored && !s.stopped
}

// create decides on a create. The ledger only picks the backend; whether the bill can be made there its owner says.
func (s situation) create() decision {
	d := s.byStage()
	switch {
	case s.shared:
		return d
	case s.owner != nil:
		return decision{backend: *s.owner, reason: byOwner}
	case s.stale != nil: // it may have been refused there since, and made at the other backend
		d = decision{backend: *s.stale, reason: byOwner}
	}
	d.ask = s.asks(d.backend)
	return d
}

// other decides on any operation but a create: it goes to the owner, whatever the stage.
func (s situation) other() decision {
	switch {
	case s.shared:
		return s.byStage()
	case s.owner != nil:
		return decision{backend: *s.owner, reason: byOwner}
	case s.position.stage == StageDrained && s.settled && !s.incomplete():
		return decision{backend: evidence.New, reason: byStage}
	}
	return decision{backend: s.byStage().backend, reason: byProbe, ask: true}
}

// byStage is the backend that the stage prefers.
func (s situation) byStage() decision {
	switch {
	case s.stopped:
		return decision{backend: evidence.Old, reason: byStop}
	case s.position.stage == StageCanary && s.settled && s.chosen:
		return decision{backend: evidence.New, reason: byCanary}
	case s.position.stage == StageCanary:
		return decision{backend: evidence.Old, reason: byCanary}
	case (s.position.stage == StageNew || s.position.stage == StageDrained) && s.settled:
		return decision{backend: evidence.New, reason: byStage}
	}
	return decision{backend: evidence.Old, reason: byStage}
}
