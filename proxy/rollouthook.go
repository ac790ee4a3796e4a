package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// decide has the rollout decide where a call goes. ok is false where the exchange has been answered.
func (x *exchange) decide() (ok bool) {
	names, ok := x.readForRollout()
	if !ok {
		return false
	}
	probes := &probes{answers: map[string]finding{}}
	ctx := x.r.Context()
	if x.decided.call.Writes {
		ctx = context.WithoutCancel(ctx) // a create that is recorded and given up would hold its bill where it is for good
	}
	wait := time.Duration(x.state.config.Rollout.Ask)
	ctx, cancel := context.WithTimeout(ctx, config.StoreTimeout+wait)
	defer cancel()
	route, err := x.gateway.rollout.Route(ctx, x.decided.call, func(ctx context.Context, upstream string) rollout.ProbeResult {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if x.in.while != nil { // what is found out later serves nothing
			defer context.AfterFunc(x.in.while, cancel)()
		}
		result, answer := x.ask(ctx, upstream, names)
		probes.keep(upstream, answer)
		return result
	})
	x.target = nil // until something is to be sent, neither metrics nor log may name an upstream
	var refused *rollout.Refused
	switch {
	case errors.As(err, &refused) && x.late():
		return false
	case errors.As(err, &refused):
		x.refuseUnowned(refused, "; nothing was sent")
		return false
	case route.Answered:
		answer := probes.of(route.Upstream)
		x.out.code = answer.code
		_ = x.write(answer.status, answer.body) // a caller that has gone cannot be told
		return false
	}
	x.decided.route, x.target = route, x.route.targets[route.Upstream]
	return true
}

// readForRollout reads the request for what the rollout must know of it before the upstream is known.
func (x *exchange) readForRollout() (names billing.Identity, ok bool) {
	x.in.read = x.route.look.Start()
	if err := x.in.read.Read(x.in.body.Bytes()); err != nil {
		x.target = nil
		x.refuseRequest(x.route.look, err)
		return names, false
	}
	names = billing.IdentityOf(x.in.read) // a read at a backend, and the ledger's writer, may still need it when the request was given up
	o := x.route.operation
	x.decided.call = rollout.Call{
		ID: x.id, Operation: o.Name, Creates: billing.Creates(o), Writes: o.Effect == translate.Write, Merchant: names.Merchant, Bill: names.Bill,
		Until: relay.Until(x.in.read.Value(billing.Expiry)), Arrived: x.gateway.rollout.Now().Add(-time.Since(x.in.at)),
	}
	if names.Partner != "" {
		x.decided.call.Partner = partner.Of(names.Partner)
	}
	return names, true
}

// probes are the answers of the backends to the reads by which a call found its way. It is safe for concurrent use: a read may end
// after the call was given up.
type probes struct {
	mu      sync.Mutex
	answers map[string]finding // by upstream
}

func (p *probes) keep(upstream string, answer finding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[upstream] = answer
}

func (p *probes) of(upstream string) finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[upstream]
}

// mayPassOn tells whether the upstream's reply may be the caller's answer. Where it may not, the exchange has been answered.
func (x *exchange) mayPassOn() bool {
	route := x.decided.route
	if x.call.Succeeded() {
		return true
	}
	if route.OnlyIfFound {
		// The bill may be at the other upstream: this one's word is no answer.
		x.sent.unknown = false
		x.fail(unowned, "it is not known just now at which backend the bill is")
		return false
	}
	if route.Deniable && x.means(translate.NotFound) {
		if refused := x.deny(); refused != nil {
			x.sent.unknown = false
			x.refuseUnowned(refused, "")
			return false
		}
	}
	return true
}

// refuseUnowned answers a call of which it is not certain where its bill is.
func (x *exchange) refuseUnowned(refused *rollout.Refused, sent string) {
	if refused.Cause != nil && x.r.Context().Err() == nil {
		x.gateway.log.Error("the ledger is out of reach", "id", x.id, "error", refused.Cause.Error())
	}
	f := unowned
	f.reason += ": " + refused.Reason
	x.fail(f, refused.Text+sent)
}

// deny has the ledger record that the caller of a write is about to be told that there is no such bill, and returns why it
// must not be told so; nil if it may.
func (x *exchange) deny() *rollout.Refused {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), config.StoreTimeout)
	defer cancel()
	var refused *rollout.Refused
	errors.As(x.gateway.rollout.Deny(ctx, x.decided.call), &refused)
	return refused
}

// notAsked is what is counted where no read was made.
const notAsked = "not asked"

// shownWords are what a read says of the bill of a write without an answer, for the metric.
var shownWords = map[rollout.ProbeResult]string{
	rollout.Unclear: "unclear", rollout.Absent: "not visible yet", rollout.Present: "visible", rollout.Refusing: "unclear",
}

// complete tells the rollout how a call ended.
func (x *exchange) complete() {
	call, way, shown := x.decided.call, x.decided.route, x.decided.shown
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), config.StoreTimeout)
	defer cancel()
	if err := x.gateway.rollout.Complete(ctx, way, x.outcome()); err != nil {
		x.gateway.log.Error("the ledger cannot record how a create ended; it counts as one that may have been made", "id", x.id, "error", err.Error())
	}
	succeeded := x.call != nil && x.sent.asked && !x.sent.unknown && x.call.Succeeded()
	if shown != nil && shown.Finding == rollout.Present || succeeded && !call.Creates && (call.Writes || x.call.ReplyValue(billing.State) != "") {
		if err := x.gateway.rollout.RecordFound(ctx, call, way); err != nil {
			x.gateway.log.Error("the ledger cannot record where a bill was found; it counts as one that may have been made", "id", x.id, "error", err.Error())
		}
	}
	// After it is known that the bill is there.
	var err error
	if shown != nil {
		err = x.gateway.rollout.RecordRead(ctx, call, way, *shown)
	}
	// Last: it stays until a read of somebody else. A create may also have been done whose answer does not say for certain that it was not.
	if call.Writes && x.sent.asked && (x.sent.unknown || call.Creates && x.outcome() == store.Unknown) {
		err = errors.Join(err, x.gateway.rollout.RecordUnknown(ctx, call, way, shown))
	}
	if err != nil {
		x.gateway.log.Error("the ledger cannot record what became of a bill: billbridge bills list does not show it", "id", x.id, "error", err.Error())
	}
	if succeeded {
		x.gateway.callers.remember(call.Partner, x.call)
		if err := x.gateway.rollout.RecordSeen(ctx, call.Partner); err != nil {
			x.gateway.log.Error("the store cannot record that a partner was seen; its settling period becomes longer", "id", x.id, "error", err.Error())
		}
	}
	x.count(succeeded)
}

// keepShown keeps what the upstream's answer shows of the bill, if it is to be recorded in the ledger. That happens when the answer has been
// sent: another call may use the buffer of the reply then.
func (x *exchange) keepShown() {
	if x.route.targets == nil {
		return
	}
	var shown rollout.Shown
	operation := x.route.operation
	set, setMeans := operation.Sets(billing.State)
	switch succeeded := x.call.Succeeded(); {
	case succeeded && operation == x.state.read && x.call.ReplyValue(billing.State) != "":
		shown = rollout.Shown{
			Finding: rollout.Present, State: x.call.ReplyValue(billing.State), Ended: billing.Final(x.call.ReplyMeaning(billing.State)), Amount: x.call.ReplyValue(billing.Amount),
		}
	case succeeded && set != "":
		shown = rollout.Shown{Finding: rollout.Present, State: set, Ended: billing.Final(setMeans)}
	case !succeeded && operation == x.state.read && x.means(translate.NotFound):
		shown = rollout.Shown{Finding: rollout.Absent}
	default:
		return
	}
	if x.decided.route.Relevant(shown) {
		shown.State, shown.Amount = strings.Clone(shown.State), strings.Clone(shown.Amount)
		x.decided.shown = &shown
	}
}

// count tells the rollout what became of a call, for its report, and has the bill read back that a canary made.
func (x *exchange) count(succeeded bool) {
	call, way := x.decided.call, x.decided.route
	end := evidence.End{Succeeded: succeeded}
	// What we say in a side's place is no answer of it: where its word must not be relayed, and where nobody waited for it.
	if x.sent.asked && !strings.HasPrefix(x.out.reason, unowned.reason) && x.out.status != statusGone {
		end.Code = x.codeLabel()
	}
	if succeeded {
		end.Mismatched = slices.Clone(x.call.Report.Mismatched)
	}
	c := x.state.config.Rollout
	for side, name := range []string{c.Old, c.New} {
		switch {
		case name != way.Upstream && succeeded:
			end.Lacks[side] = x.lacks(name)
		case name == way.Upstream && !x.sent.asked && x.lacks(map[string]string{c.Old: c.New, c.New: c.Old}[name]) == "":
			end.Lacks[side] = x.lacks(name)
		}
	}
	x.gateway.rollout.Count(call, way, end)
	if way.ReadBack && succeeded {
		x.readBack()
	}
}

// lacks is why an upstream's form cannot carry the call: the code and the field of the refusal. "" if it can.
func (x *exchange) lacks(upstream string) string {
	translation := x.route.targets[upstream].translation
	read := x.in.read
	if read == nil { // the call itself is in the translation that changes the form
		read = x.call
	}
	if translation.SameForm() || read == nil || x.sent.asked && read == x.call {
		return ""
	}
	_, err := read.Translate(nil)
	var refusal *translate.Refusal
	if !errors.As(err, &refusal) {
		return ""
	}
	if translation.HasRequestField(refusal.Field) {
		return refusal.Code + " " + refusal.Field
	}
	return refusal.Code
}

// outcome is what is known of a write after its exchange.
func (x *exchange) outcome() store.Outcome {
	switch {
	case !x.sent.asked:
		return store.NotSent
	case x.sent.unknown:
		return store.Unknown
	case x.call.Succeeded():
		return store.Succeeded
	case x.call.Code() == "":
		return store.NotSent // it broke off before a byte of it left
	case x.means(translate.Exists):
		return store.Taken
	case x.out.status < http.StatusInternalServerError && x.means(translate.Refused, translate.CallerRefused, translate.Malformed):
		return store.Refused
	}
	return store.Unknown // a failure, or a code of which nobody says for certain that nothing was done
}

// means tells what the code of the reply means, by the table.
func (x *exchange) means(any ...translate.Meaning) bool {
	return x.state.config.Table.Means(x.target.upstream.config.Form, x.call.Code(), any...)
}
