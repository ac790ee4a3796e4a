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

// record records what became of the call, in the ledger and for the callbacks: it removes the callback address of a
// call that certainly had no effect, records that the key of a successful one is valid, and remembers the key, with
// which the bills of the partner are read.
func (x *exchange) record() {
	if x.to.route.Upstream != "" {
		defer x.complete() // also after a panic
	}
	callbacks := x.gateway.relay
	if callbacks == nil {
		return
	}
	switch address := cmp.Or(x.out.address, x.to.route.Address); x.sent.effect() {
	case ledger.Succeeded:
		if id := x.asked.who; id != "" {
			callbacks.Prove(id)
			x.gateway.partners.remember(id, x.out.call)
		}
	case ledger.NotSent, ledger.Refused:
		if address == "" {
			return
		}
		ctx, cancel := storeContext(x.r)
		defer cancel()
		err := callbacks.Unbind(ctx, address)
		x.gateway.storeError(x.id, "the callback address of a call without an effect cannot be removed", err)
	}
}

// decide returns the target that the rollout chooses. Its route is Answered if a backend has answered the call already,
// as a probe.
func (x *exchange) decide() (to routed, failed *failure) {
	o, read := x.route.operation, x.asked.call
	to.decision = new(decision)
	identity := billing.IdentityOf(read) // a copy: a probe or the store may use it after the exchange
	to.call = routing.Call{
		ID: x.id, Operation: o.Name, Creates: billing.Creates(o), Writes: o.Effect == translate.Write,
		Partner: x.asked.who, Member: identity.Member, Merchant: identity.Merchant, Bill: identity.Bill,
		LoggedBill: loggedBill(read),
		Until:      relay.Until(read.Value(billing.Expiry)),
		Amount:     read.ComparableValue(billing.Amount),
		Arrived:    x.gateway.rollout.Now().Add(-time.Since(x.in.at)),
	}
	ctx := x.r.Context()
	if to.call.Writes {
		if to.call.Partner != "" {
			if failed = x.mayHoldRows(); failed != nil {
				return to, failed
			}
		}
		// A create that is recorded but not completed would bind its bill to the backend for good.
		ctx = context.WithoutCancel(ctx)
	}
	if to.call.Creates {
		if asked, _, ok := x.binding(read); ok {
			// Of a wrong address Bind says why.
			to.call.Address, _ = x.gateway.relay.Row(asked)
		}
	}
	wait := x.state.config.Rollout.ProbeTimeout
	ctx, cancel := context.WithTimeout(ctx, config.StoreTimeout+wait)
	defer cancel()
	// A probe may end after the exchange: it must not refer to x, which holds the whole call.
	s, sendCtx, p := x.state, x.in.sendCtx, probe{
		id: x.id, client: x.client, identity: identity, key: x.gateway.admission.Proof(x.asked.who),
	}
	route, err := x.gateway.rollout.Route(ctx, to.call,
		func(ctx context.Context, name string) (routing.ProbeResult, routing.Answer) {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			if sendCtx != nil { // after its end a result has no use
				defer context.AfterFunc(sendCtx, cancel)()
			}
			result, reply := s.readBill(ctx, p, name)
			return result, reply.Answer
		})
	if err != nil {
		return to, cmp.Or(x.tooLate(), x.unowned(err))
	}
	if route.Answered { // the call has no target
		to.route = routing.Route{Answered: true, Answer: route.Answer}
		return to, nil
	}
	if to.target, to.route = x.route.targets[route.Upstream], route; to.target == nil {
		return to, reloaded.with() // the backends of the rollout are others since newExchange
	}
	return to, nil
}

// withheld returns why the caller must not get the upstream's reply, or nil. A partner could take "no such bill" of
// one backend for true, and bill again, while the other backend has the bill.
func (x *exchange) withheld() *failure {
	var err error
	switch route := &x.to.route; {
	case x.sent.says == billing.Done:
	case route.OnlyIfFound:
		err = &routing.Refused{
			Reason: "unclear", Why: "the backend has not found the bill, and the other one may own it",
		}
	case route.Deniable && x.out.call.Means(translate.NotFound):
		// The code alone counts here: the caller may take it for an answer whatever the status is.
		ctx, cancel := storeContext(x.r)
		defer cancel()
		err = x.gateway.rollout.Deny(ctx, x.to.call)
	}
	if err == nil {
		return nil
	}
	return x.unowned(err)
}

// storeContext returns the context of a write to the store, which does not end when the caller goes away.
func storeContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), config.StoreTimeout)
}

// complete records in the ledger, and in the evidence, how a call ended.
func (x *exchange) complete() {
	call, sent, effect, rolls := x.to.call, &x.sent, x.sent.effect(), x.gateway.rollout
	if s := x.gateway.store; s != nil && call.Partner != "" { // its key may have become a further one meanwhile
		call.Partner = s.Identity(call.Partner)
	}
	ctx, cancel := storeContext(x.r)
	defer cancel()
	succeeded := effect == ledger.Succeeded
	err := rolls.Ended(ctx, x.to.route, routing.Ending{
		Outcome: effect, Shown: sent.shown,
		// A create is also of unknown outcome if the reply does not prove that nothing was created.
		Unknown: call.Writes && sent.called && (sent.unknown() || call.Creates && effect == ledger.Unknown),
		Proof: sent.shown != nil && sent.shown.Result == routing.Present ||
			succeeded && !call.Creates && (call.Writes || sent.state),
	})
	x.gateway.storeError(x.id, "the ledger cannot record how a call ended: a bill may count as possibly created, "+
		"and billbridge bills list may lack an unknown outcome", err)
	end := evidence.End{Succeeded: succeeded}
	if succeeded {
		x.gateway.partners.remember(call.Partner, x.out.call)
		err := rolls.RecordSeen(ctx, call.Partner)
		x.gateway.storeError(x.id,
			"the store cannot record that a partner was seen: its settling period becomes longer", err)
		for _, field := range x.out.call.Report.Mismatched {
			end.Mismatched = append(end.Mismatched, translate.PathInTable(field))
		}
		end.Mismatched = append(end.Mismatched, sent.lacks...)
	}
	// The code counts only if it is the backend's, and there is none if there was no answer: not if the gateway refused
	// to pass on the reply, or if the caller had gone.
	switch {
	case !sent.called || x.answer.status == statusGone:
	case x.answer.passedOn:
		end.Code = x.state.codeLabel(x.answer.code)
	case sent.failed != nil && sent.failed.Kind != upstream.GivenUp:
		end.Code = evidence.None
	}
	read := x.asked.call
	if sent.called && read == x.out.call { // it has read the reply since
		read = nil
	}
	backends := x.state.config.Rollout.Backends()
	refusalAt := func(i int) string { return refusalBy(x.route.targets[backends[i]].translation, read) }
	for i, name := range backends {
		here := name == x.to.route.Upstream
		if !here && succeeded || here && !sent.called && refusalAt(1-i) == "" {
			end.Unsupported[i] = refusalAt(i)
		}
	}
	rolls.Count(call, x.to.route, end)
}

// shownBy returns a copy of what the reply shows of the bill, or nil if the ledger need not record it: it does so after
// the answer, when another call may use the buffer of the reply. lacks are the values that the reply should have.
func (x *exchange) shownBy(says billing.Says, hasState bool) (_ *routing.ReadResult, lacks []string) {
	var shown routing.ReadResult
	operation, call, read := x.route.operation, x.out.call, x.route.operation == x.state.readOperation
	table := operation.Table()
	set, setMeans := operation.Sets(billing.State)
	switch succeeded := says == billing.Done; {
	case succeeded && call.ReplyValue(billing.Link) == "" && operation.HasRole(translate.Reply, billing.Link):
		return nil, []string{operation.PathOf(translate.Reply, billing.Link, table.Forms()[0])}
	case succeeded && read && hasState:
		means := call.ReplyMeaning(billing.State)
		shown = routing.ReadResult{
			Result: routing.Present, State: call.ReplyValue(billing.State), Ended: billing.Final(table, means),
			Amount: call.ReplyValue(billing.Amount),
		}
		if x.to.route.Relevant(shown) {
			if shown.Shows = x.state.shows(call, means); shown.Shows.Paid {
				lacks = shown.Shows.Lacks
			}
		}
	case succeeded && set != "":
		final := billing.Final(table, setMeans)
		shown = routing.ReadResult{Result: routing.Present, State: set, Ended: final, Said: true}
		shown.Shows = x.state.shows(call, setMeans)
	case read && says == billing.NotFound:
		shown = routing.ReadResult{Result: routing.Absent}
	default:
		return nil, nil
	}
	if !x.to.route.Relevant(shown) {
		return nil, lacks
	}
	shown.State, shown.Amount = strings.Clone(shown.State), strings.Clone(shown.Amount)
	return &shown, lacks
}

// refusalBy returns why a translation refuses the request that a call has read: the code and the field. It returns ""
// if it does not, or if there is no such call any more.
func refusalBy(translation *translate.Translation, read *translate.Call) string {
	if translation.SameForm() || read == nil {
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
