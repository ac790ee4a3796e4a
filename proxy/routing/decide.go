package routing

import (
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
)

// A Reason is why a call is sent to its backend, for the metric of routed calls and the access log.
type Reason string

// The reasons.
const (
	byOwner  Reason = "owner"  // the ledger has the owner of the bill
	byStage  Reason = "stage"  // of the partner
	byCanary Reason = "canary" // the bill is in the percentage, or is not
	byProbe  Reason = "probe"  // a probe of the backends
	byStop   Reason = "stop"   // the kill switch
)

// A situation is what a decision depends on.
type situation struct {
	shared   bool // both backends have the same bills: bills have no owner
	restored bool // the store was restored from a backup: bills that it does not know may be at either backend
	unbegun  bool // the store is new, and Begin was not called: the same
	position Position
	stopped  bool
	settled  bool              // the settling period of the partner is over
	chosen   bool              // the bill is in the percentage
	owner    *evidence.Backend // by the ledger; nil if it has none
	// of a row that does not decide: it was pending before the store was restored from a backup, or has another
	// merchant
	likely *evidence.Backend
	// by a row of another merchant, the bill of the call may be at an upstream that is neither backend
	elsewhere bool
	also      bool        // a bill of another merchant than the likely row's is or may be at the other backend
	known     ledger.Bill // if it was read
}

// bill is what is known of the bill of a call.
func (s situation) bill(c Call) ledger.Bill {
	if s.known.ID == "" {
		return ledger.Bill{Partner: c.Partner, ID: c.Bill}
	}
	return s.known
}

// A decision is where a call goes.
type decision struct {
	backend evidence.Backend
	reason  Reason
	// probe: a create may be sent only after a probe has shown that the other backend does not have the bill; for any
	// other operation both backends are probed.
	probe bool
}

// incomplete reports whether the ledger may lack bills that went through the gateway.
func (s situation) incomplete() bool { return s.restored || s.unbegun }

// probes reports whether the other backend must be probed before a create without a known owner is sent to a backend
// (CONTRIBUTING.md, P1 to P3).
func (s situation) probes(backend evidence.Backend) bool {
	switch {
	case s.shared:
		return false
	case backend == evidence.New:
		return s.position.Stage != StageDrained || s.incomplete()
	}
	return s.incomplete()
}

// mayProceed reports whether a create may be sent to a backend although the other one did not say whether it has the
// bill (P3): only because of the kill switch, and never on a new store, whose rows may all be missing.
func (s situation) mayProceed(backend evidence.Backend) bool {
	return s.stopped && !s.unbegun && backend == evidence.Old
}

// create decides where a create is sent. The backend decides whether the bill can be created.
func (s situation) create() decision {
	d := s.byStage()
	switch {
	case s.shared:
		return d
	case s.owner != nil:
		return decision{backend: *s.owner, reason: byOwner}
	case s.likely != nil: // the other backend may have the bill
		d = decision{backend: *s.likely, reason: byOwner}
	}
	d.probe = s.also || s.probes(d.backend)
	return d
}

// drained reports whether the old backend may be switched off: what only it knows is not looked for.
func (s situation) drained() bool {
	return s.position.Stage == StageDrained && s.settled && !s.incomplete()
}

// other decides where any operation except a create is sent: to the owner, whatever the stage.
func (s situation) other() decision {
	switch {
	case s.shared:
		return s.byStage()
	case s.owner != nil:
		return decision{backend: *s.owner, reason: byOwner}
	case s.drained() && !s.elsewhere && !s.also && (s.likely == nil || *s.likely == evidence.New):
		return decision{backend: evidence.New, reason: byStage}
	}
	return decision{backend: s.byStage().backend, reason: byProbe, probe: true}
}

// byStage is the backend that the stage prefers.
func (s situation) byStage() decision {
	switch {
	case s.stopped:
		return decision{backend: evidence.Old, reason: byStop}
	case s.position.Stage == StageCanary && s.settled && s.chosen:
		return decision{backend: evidence.New, reason: byCanary}
	case s.position.Stage == StageCanary:
		return decision{backend: evidence.Old, reason: byCanary}
	case (s.position.Stage == StageNew || s.position.Stage == StageDrained) && s.settled:
		return decision{backend: evidence.New, reason: byStage}
	}
	return decision{backend: evidence.Old, reason: byStage}
}
