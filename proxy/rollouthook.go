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

// decide chooses the target by the rollout. ok is false if the exchange has been answered.
func (x *exchange) decide() (ok bool) {
	identity, ok := x.readForRollout()
	if !ok {
		return false
	}
	if call := x.decided.call; call.Writes && call.Partner != "" && !x.mayHoldRows(call.Partner) {
		x.target = nil
		return false
	}
	replies := &probeReplies{byUpstream: map[string]probeReply{}}
	ctx := x.r.Context()
	if x.decided.call.Writes {
		ctx = context.WithoutCancel(ctx) // a create that is recorded but not completed would bind its bill to the backend for good
	}
	wait := time.Duration(x.state.config.Rollout.Ask)
	ctx, cancel := context.WithTimeout(ctx, config.StoreTimeout+wait)
	defer cancel()
	span := x.span.Internal("ledger route")
	route, err := x.gateway.rollout.Route(ctx, x.decided.call, func(ctx context.Context, upstream string) rollout.ProbeResult {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if x.in.sendCtx != nil { // after its end a result has no use
			defer context.AfterFunc(x.in.sendCtx, cancel)()
		}
		result, reply := x.readBill(ctx, span, upstream, identity)
		replies.set(upstream, reply)
		return result
	})
	span.EndWith(err, "refused")
	x.target = nil // metrics and log name an upstream only if the call goes there
	var refused *rollout.Refused
	switch {
	case errors.As(err, &refused) && x.tooLate():
		return false
	case errors.As(err, &refused):
		x.refuseUnowned(refused, "; nothing was sent")
		return false
	case route.Answered:
		reply := replies.get(route.Upstream)
		x.out.code = reply.code
		if x.state.config.Failures.MaskHosts { // not in the probe: most replies are not passed on
			reply.body = maskHosts(reply.body, x.state.config.Table.TextName(x.client))
		}
		_ = x.write(reply.status, reply.body) // it fails if the caller has gone
		return false
	}
	x.decided.route, x.target = route, x.route.targets[route.Upstream]
	return true
}

// readForRollout reads from the request what the rollout needs. ok is false if the exchange has been answered.
func (x *exchange) readForRollout() (identity billing.Identity, ok bool) {
	x.in.readCall = x.route.readTranslation.Start()
	if err := x.in.readCall.Read(x.in.body.Bytes()); err != nil {
		x.target = nil
		x.refuseRequest(x.route.readTranslation, err)
		return identity, false
	}
	identity = billing.IdentityOf(x.in.readCall) // a copy: a probe or the store may use it after the exchange
	o := x.route.operation
	x.decided.call = rollout.Call{
		ID: x.id, Operation: o.Name, Creates: billing.Creates(o), Writes: o.Effect == translate.Write, Merchant: identity.Merchant, Bill: identity.Bill, LoggedBill: x.bill(),
		Until: relay.Until(x.in.readCall.Value(billing.Expiry)), Arrived: x.gateway.rollout.Now().Add(-time.Since(x.in.at)),
	}
	if identity.Partner != "" {
		x.decided.call.Partner = partner.Of(identity.Partner)
	}
	if !x.enterPartner(identity.Partner) {
		x.target = nil
		return identity, false
	}
	return identity, true
}

// probeReplies holds the replies of the backends to the probes of one call. It is safe for concurrent use: a probe may end after the
// exchange.
type probeReplies struct {
	mu         sync.Mutex
	byUpstream map[string]probeReply
}

func (p *probeReplies) set(upstream string, reply probeReply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byUpstream[upstream] = reply
}

func (p *probeReplies) get(upstream string) probeReply {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byUpstream[upstream]
}

// mayPassOn reports whether the caller may get the upstream's reply. If not, the exchange has been answered.
func (x *exchange) mayPassOn() bool {
	route := x.decided.route
	if x.sent.says == billing.Done {
		return true
	}
	if route.OnlyIfFound {
		// This backend has not found the bill, and the other one may own it.
		x.sent.unknown = false
		x.refuseUnowned(&rollout.Refused{Reason: "unclear", Why: "the backend has not found the bill, and the other one may own it"}, "")
		return false
	}
	// The code alone counts here: the caller may take it for an answer whatever the status is.
	if route.Deniable && x.call.Means(translate.NotFound) {
		if refused := x.recordDenied(); refused != nil {
			x.sent.unknown = false
			x.refuseUnowned(refused, "")
			return false
		}
	}
	return true
}

// refuseUnowned answers a call that the rollout has refused. note is appended to the text.
func (x *exchange) refuseUnowned(refused *rollout.Refused, note string) {
	if refused.Cause != nil && x.r.Context().Err() == nil {
		x.gateway.log.Error("the ledger is unreachable", "id", x.id, "error", refused.Cause.Error())
	}
	if refused.Reason == "store" {
		x.w.Header().Set("Retry-After", "1")
	}
	f := unowned
	if refused.Permanent { // clients send a call again for ever if its code looks like maintenance
		f.status, f.code = http.StatusConflict, x.state.config.Table.RefusalCode(x.route.operation.Created != "")
	}
	f.reason += ": " + refused.Error()
	x.fail(f, refused.Text()+note)
}

// recordDenied records that the caller gets "no such bill". If it returns a refusal, the caller must get that
// one instead.
func (x *exchange) recordDenied() *rollout.Refused {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), config.StoreTimeout)
	defer cancel()
	var refused *rollout.Refused
	errors.As(x.gateway.rollout.Deny(ctx, x.decided.call), &refused)
	return refused
}

// notRead is the metric's label if no read was made.
const notRead = "not asked"

// explanationLabels are the metric's labels for the result of a read after a write without a reply.
var explanationLabels = map[rollout.ProbeResult]string{
	rollout.Unclear: "unclear", rollout.Absent: "not visible yet", rollout.Present: "visible", rollout.Refusing: "unclear",
}

// complete records how a call ended.
func (x *exchange) complete() {
	span := x.span.Internal("ledger complete")
	defer span.End()
	call, route, readResult := x.decided.call, x.decided.route, x.decided.readResult
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), config.StoreTimeout)
	defer cancel()
	if err := x.gateway.rollout.Complete(ctx, route, x.outcome()); err != nil {
		x.gateway.log.Error("the ledger cannot record the outcome of a create: the bill counts as possibly created", "id", x.id, "error", err.Error())
	}
	succeeded := x.sent.says == billing.Done && !x.sent.unknown
	if readResult != nil && readResult.Result == rollout.Present || succeeded && !call.Creates && (call.Writes || x.call.ReplyValue(billing.State) != "") {
		if err := x.gateway.rollout.RecordFound(ctx, call, route); err != nil {
			x.gateway.log.Error("the ledger cannot record where a bill was found: the bill counts as possibly created", "id", x.id, "error", err.Error())
		}
	}
	// After RecordFound: the ledger must know first that the bill exists.
	var err error
	if readResult != nil {
		err = x.gateway.rollout.RecordRead(ctx, call, route, *readResult)
	}
	if succeeded && call.Writes && !call.Creates && !call.Until.IsZero() {
		err = errors.Join(err, x.gateway.rollout.RecordEnd(ctx, call))
	}
	// After RecordRead, since only the read of another call may end an unknown outcome. A create is also of unknown outcome if the reply
	// does not prove that nothing was created.
	if call.Writes && x.sent.called && (x.sent.unknown || call.Creates && x.outcome() == store.Unknown) {
		err = errors.Join(err, x.gateway.rollout.RecordUnknown(ctx, call, route, readResult))
	}
	if err != nil {
		x.gateway.log.Error("the ledger cannot record the outcome of a call: billbridge bills list does not show it", "id", x.id, "error", err.Error())
	}
	if succeeded {
		x.gateway.partners.remember(call.Partner, x.call)
		if err := x.gateway.rollout.RecordSeen(ctx, call.Partner); err != nil {
			x.gateway.log.Error("the store cannot record that a partner was seen: its settling period becomes longer", "id", x.id, "error", err.Error())
		}
	}
	x.countCall(succeeded)
}

// keepReadResult copies what the reply shows of the bill, if the ledger must record it. The ledger does so after the answer, when another
// call may use the buffer of the reply.
func (x *exchange) keepReadResult() {
	if x.route.targets == nil {
		return
	}
	var shown rollout.ReadResult
	operation := x.route.operation
	set, setMeans := operation.Sets(billing.State)
	switch succeeded := x.sent.says == billing.Done; {
	case succeeded && operation == x.state.readOperation && x.call.ReplyValue(billing.State) != "":
		shown = rollout.ReadResult{
			Result: rollout.Present, State: x.call.ReplyValue(billing.State), Ended: billing.Final(x.call.ReplyMeaning(billing.State)), Amount: x.call.ReplyValue(billing.Amount),
		}
	case succeeded && set != "":
		shown = rollout.ReadResult{Result: rollout.Present, State: set, Ended: billing.Final(setMeans)}
	case operation == x.state.readOperation && x.sent.says == billing.NotFound:
		shown = rollout.ReadResult{Result: rollout.Absent}
	default:
		return
	}
	if x.decided.route.Relevant(shown) {
		shown.State, shown.Amount = strings.Clone(shown.State), strings.Clone(shown.Amount)
		x.decided.readResult = &shown
	}
}

// countCall adds the call to the evidence of the rollout. It has a bill of canary read back.
func (x *exchange) countCall(succeeded bool) {
	call, route := x.decided.call, x.decided.route
	end := evidence.End{Succeeded: succeeded}
	// The code counts only if it is the backend's: not if the gateway refused to pass on the reply, or if the caller had gone.
	if x.sent.called && !strings.HasPrefix(x.out.reason, unowned.reason) && x.out.status != statusGone {
		end.Code = x.codeLabel()
	}
	if succeeded {
		end.Mismatched = slices.Clone(x.call.Report.Mismatched)
	}
	c := x.state.config.Rollout
	for i, name := range []string{c.Old, c.New} {
		switch {
		case name != route.Upstream && succeeded:
			end.Unsupported[i] = x.refusalAt(name)
		case name == route.Upstream && !x.sent.called && x.refusalAt(map[string]string{c.Old: c.New, c.New: c.Old}[name]) == "":
			end.Unsupported[i] = x.refusalAt(name)
		}
	}
	x.gateway.rollout.Count(call, route, end)
	if route.ReadBack && succeeded && call.Creates {
		x.readBack()
	}
}

// refusalAt returns why the request cannot be translated for an upstream: the code and the field of the refusal. It returns "" if it
// can be translated.
func (x *exchange) refusalAt(upstream string) string {
	translation := x.route.targets[upstream].translation
	read := x.in.readCall
	if read == nil { // startCall has made it x.call
		read = x.call
	}
	if translation.SameForm() || read == nil || x.sent.called && read == x.call {
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

// outcome returns the outcome of a write, for the ledger.
func (x *exchange) outcome() store.Outcome {
	if x.sent.unknown {
		return store.Unknown
	}
	switch x.sent.says {
	case billing.NoReply: // the call failed before a byte of it left
		return store.NotSent
	case billing.Done:
		return store.Succeeded
	case billing.Exists:
		return store.Taken
	case billing.Refused, billing.CallerRefused:
		return store.Refused
	}
	return store.Unknown // a failure, or a code after which the write may have been done
}
