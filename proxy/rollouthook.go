package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/upstream"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// record records what became of the call, in the ledger and for the callbacks.
func (x *exchange) record() {
	if x.to.route.Upstream != "" {
		defer x.complete() // also after a panic of keepRows
	}
	x.keepRows()
}

// decide chooses the target by the rollout, if it decides on the operation. If a backend has answered the call
// already, as a probe, decide returns the answer.
func (x *exchange) decide() (probed outcome, err error) {
	if x.route.targets == nil {
		return probed, nil
	}
	identity, err := x.readForRollout()
	if err != nil {
		return probed, err
	}
	if call := x.in.call; call.Writes && call.Partner != "" {
		if err := x.mayHoldRows(call.Partner); err != nil {
			return probed, err
		}
	}
	if x.in.call.Creates {
		if asked, _, ok := x.binding(x.in.readCall); ok {
			// Of a wrong address Bind says why.
			x.in.call.Address, _ = x.gateway.relay.Row(asked)
		}
	}
	ctx := x.r.Context()
	if x.in.call.Writes {
		// A create that is recorded but not completed would bind its bill to the backend for good.
		ctx = context.WithoutCancel(ctx)
	}
	wait := x.state.config.Rollout.ProbeTimeout
	ctx, cancel := context.WithTimeout(ctx, config.StoreTimeout+wait)
	defer cancel()
	// A probe may end after the exchange: it must not refer to x, which holds the whole call.
	s, sendCtx, p := x.state, x.in.sendCtx, x.probe(identity)
	probe := func(ctx context.Context, name string) (routing.ProbeResult, routing.Answer) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if sendCtx != nil { // after its end a result has no use
			defer context.AfterFunc(sendCtx, cancel)()
		}
		result, reply := s.readBill(ctx, p, name)
		return result, reply.Answer
	}
	route, err := x.gateway.rollout.Route(ctx, x.in.call, probe)
	switch {
	case err != nil:
		return probed, cmp.Or(x.tooLate(), err)
	case route.Answered:
		answer := route.Answer
		if x.state.config.Failures.MaskHosts { // not in the probe: most replies are not passed on
			answer.Body = maskHosts(answer.Body, x.state.config.Table.TextName(x.client))
		}
		return outcome{status: answer.Status, body: answer.Body, code: answer.Code}, nil
	}
	x.to, x.sent.address = routed{x.route.targets[route.Upstream], route}, route.Address
	if x.to.target == nil { // a reload has changed the backends of the rollout since newExchange
		return probed, notOwned.with("not_sent")
	}
	return probed, nil
}

// readForRollout reads from the request what the rollout needs.
func (x *exchange) readForRollout() (identity billing.Identity, err error) {
	read := x.route.readTranslation.Start()
	x.in.readCall = read
	if err := read.Read(x.in.body.Bytes()); err != nil {
		return identity, err
	}
	if err := x.takeLists(read); err != nil {
		return identity, err
	}
	identity = billing.IdentityOf(read) // a copy: a probe or the store may use it after the exchange
	o := x.route.operation
	x.in.call = routing.Call{
		ID: x.id, Operation: o.Name, Creates: billing.Creates(o), Writes: o.Effect == translate.Write,
		Member: identity.Member, Merchant: identity.Merchant, Bill: identity.Bill, LoggedBill: x.bill(),
		Until:   relay.Until(read.Value(billing.Expiry)),
		Amount:  read.ComparableValue(billing.Amount),
		Arrived: x.gateway.rollout.Now().Add(-time.Since(x.in.at)),
	}
	x.in.call.Partner = x.partner()
	return identity, x.enterPartner(x.in.call.Partner)
}

// withhold returns why the caller must not get the upstream's reply, or nil. A partner could take "no such bill" of
// one backend for true, and bill again, while the other backend has the bill.
func (x *exchange) withhold(says billing.Says) error {
	route := x.to.route
	switch {
	case says == billing.Done:
		return nil
	case route.OnlyIfFound:
		return &routing.Refused{
			Reason: "unclear", Why: "the backend has not found the bill, and the other one may own it",
		}
	case route.Deniable && x.call.Means(translate.NotFound):
		// The code alone counts here: the caller may take it for an answer whatever the status is.
		ctx, cancel := x.storeContext()
		defer cancel()
		return x.gateway.rollout.Deny(ctx, x.in.call)
	}
	return nil
}

// unowned returns the refusal of a call that the rollout has refused.
func (x *exchange) unowned(refused *routing.Refused) *refusal {
	if refused.Cause != nil && x.r.Context().Err() == nil {
		x.storeError("the ledger is unreachable", refused.Cause)
	}
	f := notOwned.because(notOwned.reason + ": " + refused.Error())
	if refused.Permanent { // clients send a call again for ever if its code looks like maintenance
		f.status, f.code = http.StatusConflict, x.state.config.Table.RefusalCode(x.route.operation.Created != "")
	}
	r := f.with("uncertain")
	switch {
	case refused.Permanent:
		r = f.with("unchangeable")
	case refused.Reason == "making":
		r = f.with("being_created")
	case refused.Reason == "denied":
		r = f.with("denied")
	case refused.Reason == "store":
		r = f.with("later")
		r.after = "1"
	}
	if !x.sent.called {
		r.text = append(r.text, tell("nothing_sent")...)
	}
	return r
}

// storeContext returns the context of a write to the store, which does not end when the caller goes away.
func (x *exchange) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(x.r.Context()), config.StoreTimeout)
}

// complete records in the ledger how a call ended.
func (x *exchange) complete() {
	call, route, shown, effect := x.in.call, x.to.route, x.sent.shown, x.effect()
	if s := x.gateway.store; s != nil && call.Partner != "" { // its key may have become a further one meanwhile
		call.Partner = s.Identity(call.Partner)
	}
	ctx, cancel := x.storeContext()
	defer cancel()
	succeeded := effect == ledger.Succeeded
	rolls := x.gateway.rollout
	err := rolls.Ended(ctx, route, routing.Ending{
		Outcome: effect, Shown: shown,
		// A create is also of unknown outcome if the reply does not prove that nothing was created.
		Unknown: call.Writes && x.sent.called && (x.sent.unknown() || call.Creates && effect == ledger.Unknown),
		Proof: shown != nil && shown.Result == routing.Present ||
			succeeded && !call.Creates && (call.Writes || x.sent.state),
	})
	x.storeError("the ledger cannot record how a call ended: a bill may count as possibly created, "+
		"and billbridge bills list may lack an unknown outcome", err)
	if succeeded {
		x.gateway.partners.remember(call.Partner, x.call)
		err := rolls.RecordSeen(ctx, call.Partner)
		x.storeError("the store cannot record that a partner was seen: its settling period becomes longer", err)
	}
	x.countCall(succeeded)
}

// shownBy returns a copy of what the reply shows of the bill, or nil if the ledger need not record it. The ledger
// does so after the answer, when another call may use the buffer of the reply.
func (x *exchange) shownBy(says billing.Says) *routing.ReadResult {
	var shown routing.ReadResult
	operation := x.route.operation
	set, setMeans := operation.Sets(billing.State)
	switch succeeded := says == billing.Done; {
	case succeeded && operation.HasRole(translate.Reply, billing.Link) && x.call.ReplyValue(billing.Link) == "":
		x.sent.lacks = []string{operation.PathOf(translate.Reply, billing.Link, operation.Table().Forms()[0])}
		return nil
	case succeeded && operation == x.state.readOperation && x.sent.state:
		shown = routing.ReadResult{
			Result: routing.Present, State: x.call.ReplyValue(billing.State),
			Ended:  billing.Final(operation.Table(), x.call.ReplyMeaning(billing.State)),
			Amount: x.call.ReplyValue(billing.Amount),
		}
		if x.to.route.Relevant(shown) {
			if shown.Shows = x.state.shows(x.call, x.call.ReplyMeaning(billing.State)); shown.Shows.Paid {
				x.sent.lacks = shown.Shows.Lacks
			}
		}
	case succeeded && set != "":
		final := billing.Final(operation.Table(), setMeans)
		shown = routing.ReadResult{Result: routing.Present, State: set, Ended: final, Said: true}
		shown.Shows = x.state.shows(x.call, setMeans)
	case operation == x.state.readOperation && says == billing.NotFound:
		shown = routing.ReadResult{Result: routing.Absent}
	default:
		return nil
	}
	if !x.to.route.Relevant(shown) {
		return nil
	}
	shown.State, shown.Amount = strings.Clone(shown.State), strings.Clone(shown.Amount)
	return &shown
}

// countCall adds the call to the evidence of the rollout.
func (x *exchange) countCall(succeeded bool) {
	call, route := x.in.call, x.to.route
	end := evidence.End{Succeeded: succeeded}
	// The code counts only if it is the backend's, or says that there was no answer: not if the gateway refused to
	// pass on the reply, or if the caller had gone.
	answered := x.out.passedOn || x.sent.failed != nil && x.sent.failed.Kind != upstream.GivenUp
	if x.sent.called && answered && x.out.status != statusGone {
		end.Code = x.codeLabel()
	}
	if succeeded {
		for _, field := range x.call.Report.Mismatched {
			end.Mismatched = append(end.Mismatched, translate.PathInTable(field))
		}
		end.Mismatched = append(end.Mismatched, x.sent.lacks...)
	}
	backends := x.state.config.Rollout.Backends()
	for i, name := range backends {
		switch {
		case name != route.Upstream && succeeded:
			end.Unsupported[i] = x.refusalAt(name)
		case name == route.Upstream && !x.sent.called && x.refusalAt(backends[1-i]) == "":
			end.Unsupported[i] = x.refusalAt(name)
		}
	}
	x.gateway.rollout.Count(call, route, end)
}

// refusalAt returns why the request cannot be translated for an upstream: the code and the field of the refusal. It
// returns "" if it can be translated.
func (x *exchange) refusalAt(name string) string {
	translation := x.route.targets[name].translation
	read := x.in.readCall
	if read == nil { // startCall has made it x.call
		read = x.call
	}
	if translation.SameForm() || read == nil || x.sent.called && read == x.call { // which has read the reply since
		return ""
	}
	_, err := read.Translate(nil)
	refusal, refused := errors.AsType[*translate.Refusal](err)
	switch {
	case !refused:
		return ""
	case translation.HasRequestField(refusal.Field):
		return refusal.Code + " " + refusal.Field
	}
	return refusal.Code
}

// effect returns what became of the call at the upstream, for the ledger.
func (x *exchange) effect() ledger.Outcome {
	if x.sent.unknown() {
		return ledger.Unknown
	}
	switch x.sent.says {
	case billing.NoReply: // the call failed before a byte of it left
		return ledger.NotSent
	case billing.Done:
		return ledger.Succeeded
	case billing.Exists:
		return ledger.Taken
	case billing.Refused, billing.CallerRefused:
		return ledger.Refused
	}
	return ledger.Unknown // a failure, or a code after which the write may have been done
}
