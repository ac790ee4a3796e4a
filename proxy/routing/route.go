package routing

import (
	"context"
	"errors"
	"slices"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A Call is what Route needs of a call. Both backends have its operation.
type Call struct {
	ID              string // for the log
	Operation       string
	Creates, Writes bool
	Partner         partner.ID // full; "" if the call names none
	Member          string
	Merchant, Bill  string
	LoggedBill      string        // the bill as the log may show it
	Until           time.Time     // when the bill ends; zero if that is not known
	Amount          string        // as it can be compared; "" if it is not known
	Address         store.Address // the callback address of a create, see [store.Store.Begin]; zero without one
	Arrived         time.Time     // if zero, now
}

// A ProbeResult is the result of a probe of a backend.
type ProbeResult int

// The results. Every failure, also an answer that is not well-formed, is Unclear.
const (
	Unclear  ProbeResult = iota
	Absent               // it has no such bill
	Present              // it shows the bill
	Refusing             // it refuses the caller, which says nothing about the bill
)

// A Probe reads the call's bill at an upstream.
type Probe func(ctx context.Context, upstream string) (ProbeResult, Answer)

// An Answer is the answer of a backend to a probe, as the caller gets it if it is also the answer to the call.
type Answer struct {
	Status int
	Code   string // in the form of the catalogue
	Body   []byte
}

// A Route is where a call is sent.
type Route struct {
	Upstream string
	Reason   Reason

	// Answered: nothing is sent. The answer of Upstream to the probe is the answer to the call: neither backend has
	// the bill, or one refuses the caller and the other has no such bill.
	Answered bool
	Answer   Answer // then
	// OnlyIfFound: only an answer that shows the bill may be relayed, as the bill may be at the other backend: the
	// ledger is unreachable, or the other backend did not answer.
	OnlyIfFound bool

	// Compare is the other upstream, if its answer to the same call is to be compared (see Shadow), else "".
	Compare string
	// ReadBack: the call creates a bill at the new backend, in canary or new, which must be read back, or reads a
	// bill there, which must be compared if it is paid.
	ReadBack bool
	// Address is the id of the call's callback address if it is stored, else "".
	Address string
	// Deniable: Deny must be called before the call gets the answer that there is no such bill.
	Deniable bool

	call     Call        // that was routed
	bill     ledger.Bill // as the ledger has it
	create   string      // the token of the recorded create; "" of other calls
	recorded bool        // what a read shows of the bill is recorded
	pending  bool        // by the ledger the bill may be at Upstream: a create may have been sent
}

// refusalReasons are the values of Refused.Reason.
var refusalReasons = []string{"unclear", "barred", "making", "denied", "both", "other_upstream", "store"}

// Texts of more than one refusal.
const (
	atOtherUpstream = "the bill is at an upstream that is neither rollout.old nor rollout.new"
	ownerUnknown    = "it is not known at which backend the bill is"
	callerRefused   = "the other backend refuses the partner, so it is not known whether the bill was created there"
	createOpen      = "a create of the bill is under way or has an unknown outcome, " +
		"so it is not certain that there is no such bill"
	ledgerIncomplete = "the ledger was restored or created a short time ago. " +
		"A create that it does not have may still be under way"
)

// A Refused call is not sent, because it is not certain which backend has its bill.
type Refused struct {
	Reason    string // one of refusalReasons, for metric and log
	Why       string // for the log
	Permanent bool   // a later call is refused, too, until an operator has decided
	Cause     error  // may be nil
}

// Error is the reason, for the log.
func (r *Refused) Error() string {
	if r.Why == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Why
}

func (r *Refused) Unwrap() error { return r.Cause }

// Route says where a call is sent, and records a create in the ledger. The error is a [*Refused].
func (r *Router) Route(ctx context.Context, c Call, ask Probe) (Route, error) {
	c.Arrived = r.arrived(c)
	route, err := r.route(ctx, c, ask)
	if err != nil {
		return Route{}, r.countRefused(err)
	}
	r.metrics.routed.WithLabelValues(route.Upstream, string(route.Reason)).Inc()
	route.call = c
	return route, nil
}

// countRefused counts a refusal, unless the error is nil.
func (r *Router) countRefused(err error) error {
	if refused, ok := errors.AsType[*Refused](err); ok {
		r.metrics.refused.WithLabelValues(refused.Reason).Inc()
	}
	return err
}

// route decides, and decides again if the store met another server meanwhile: what was read before it may not be true
// of that one.
func (r *Router) route(ctx context.Context, c Call, ask Probe) (Route, error) {
	if r.store == nil {
		return r.routeOnce(ctx, c, ask)
	}
	for range 2 {
		generation := r.store.Generation()
		if d := r.decided.Load(); d.generation != generation {
			if err := r.followTo(ctx, generation); err != nil {
				s := r.current.Load()
				at := situation{position: d.position(s, c.Partner), stopped: d.stopped, settled: true}
				return withoutLedger(s, at, c, err)
			}
		}
		route, err := r.routeOnce(ctx, c, ask)
		if r.store.Generation() == generation {
			return route, err
		}
		if route.call = c; route.create == "" {
			continue
		}
		err = r.Ended(ctx, route, Ending{Outcome: ledger.NotSent})
		if route.Address != "" {
			err = errors.Join(err, r.store.Unbind(ctx, route.Address))
		}
		if err != nil {
			return Route{}, storeUnavailable(err)
		}
	}
	return Route{}, storeUnavailable(errors.New("the store met another server during the call"))
}

func (r *Router) routeOnce(ctx context.Context, c Call, ask Probe) (Route, error) {
	stopping := r.stopping.Load() != nil // before decided: it is cleared only after decided has the stop
	s, d := r.current.Load(), r.decided.Load()
	at := situation{
		shared: s.Config.Bills == config.Shared, restored: !d.restored.IsZero(), unbegun: d.unbegun,
		position: d.position(s, c.Partner), stopped: d.stopped || stopping,
	}
	at.chosen = at.position.Stage == StageCanary && inPercentage(c.Partner, c.Bill, at.position.Percent)
	var err error
	if at.position.Forced {
		r.counts.Know(c.Partner)
	}
	if at.settled = at.position.Forced || at.shared; !at.settled {
		// A read that names no bill goes by the stage that memory has: at worst to the old backend.
		if at.settled, err = r.isSettled(ctx, s, c.Partner); err != nil && c.Bill != "" {
			return withoutLedger(s, at, c, err)
		}
	}
	route, err := (&passage{r: r, s: s, d: d, at: at, call: c, ask: ask}).route(ctx)
	if err != nil || route.Answered || route.OnlyIfFound {
		return route, err
	}
	backend, _ := s.backend(route.Upstream)
	if c.Bill == "" { // what a list shows can differ between two moments
		return route, nil
	}
	if at.shared && at.position.Stage == StageShadow && !c.Writes && !at.stopped && c.Partner != "" {
		route.Compare = s.Backends[1-backend]
	}
	// Also in stage new: after a reset or a change of the table the partner must be able to collect what drained needs.
	route.ReadBack = (at.position.Stage == StageCanary || at.position.Stage == StageNew) && backend == evidence.New &&
		(c.Creates || !c.Writes)
	return route, nil
}

// sawBoth reports that a bill is at both backends. The ledger marks it until an operator assigns it; the log has one
// line for each mark.
func (r *Router) sawBoth(c Call, bill ledger.Bill, err error) error {
	r.metrics.doubled.Inc()
	if bill.Doubled == nil || bill.Doubled.Request == c.ID {
		r.log.Error("a bill is at both backends", "id", c.ID, "partner", c.Partner.Short(), "bill", c.LoggedBill,
			"operation", c.Operation)
	}
	return &Refused{
		Reason: "both", Permanent: true,
		Why: "an operator must assign it: billbridge bills read --assign", Cause: err,
	}
}

// withoutLedger decides without the ledger.
func withoutLedger(s *Settings, at situation, c Call, err error) (Route, error) {
	if c.Writes {
		return Route{}, storeUnavailable(err)
	}
	d := at.byStage()
	return Route{Upstream: s.Backends[d.backend], Reason: d.reason, OnlyIfFound: true}, nil
}

// unclear is the refusal of a call because it is not known where the bill is.
func unclear(why string) error { return &Refused{Reason: "unclear", Why: why} }

func storeUnavailable(err error) error {
	if errors.Is(err, store.ErrFurtherKey) { // no failure of the store: Follow will read it
		return &Refused{Reason: "store", Why: "the key became a further one of a partner a moment ago"}
	}
	return &Refused{
		Reason: "store",
		Why:    "the ledger is unreachable, so the owning backend of the bill is not known or cannot be recorded",
		Cause:  err,
	}
}

// Now is the time by the router's clock.
func (r *Router) Now() time.Time { return r.now() }

// position returns the stage of a partner: its own, else the default that an operator set, else that of the config.
func (d *decisions) position(s *Settings, partner partner.ID) Position {
	if p, ok := d.of[partner]; ok {
		return p
	}
	if p, ok := d.of[""]; ok {
		return p
	}
	return Position{Stage: Stage(s.Config.Default)}
}

// alsoAtOther reports whether the bill of another merchant is or may be at the other backend than that of the bill.
func (s *Settings) alsoAtOther(b ledger.Bill) bool {
	_, ok := s.backend(b.AlsoAt)
	return ok && b.AlsoAt != b.Upstream
}

func (s *Settings) backend(upstream string) (evidence.Backend, bool) {
	i := slices.Index(s.Backends[:], upstream)
	return evidence.Backend(max(i, 0)), i >= 0
}
