package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// routeByRollout finds the way of a call whose upstream the rollout decides. ok is false where the exchange has been answered.
func (x *exchange) routeByRollout() (call rollout.Call, way rollout.Route, ok bool) {
	// What the bytes say must be known before their upstream is. They pass the same checks again when it is.
	look := x.route.look.Start()
	defer look.Release()
	if _, err := look.Request(nil, x.in.Bytes()); err != nil {
		x.refuseRequest(x.route.look, err)
		return call, way, false
	}
	said := billing.IdentityOf(look) // a read at a backend, and the ledger's writer, may still need it when the request was given up
	call = rollout.Call{
		ID: x.id, Operation: x.route.operation.Name, Creates: billing.Creates(x.route.operation), Writes: x.route.operation.Effect == translate.Write,
		Merchant: said.Merchant, Bill: said.Bill, Until: relay.Until(look.Value(billing.Expiry)), Arrived: x.gateway.rollout.Now().Add(-time.Since(x.arrived)),
	}
	if said.Partner != "" {
		sum := sha256.Sum256([]byte(said.Partner))
		call.Partner = hex.EncodeToString(sum[:])
	}
	var mu sync.Mutex
	answers := map[string]finding{}
	ctx := x.r.Context()
	if call.Writes {
		ctx = context.WithoutCancel(ctx) // a create that is noted and given up would hold its bill where it is for good
	}
	ctx, cancel := context.WithTimeout(ctx, config.StoreWithin+time.Duration(x.state.config.Rollout.Ask))
	defer cancel()
	way, err := x.gateway.rollout.Route(ctx, call, func(ctx context.Context, upstream string) rollout.ProbeResult {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(x.state.config.Rollout.Ask))
		defer cancel()
		if x.while != nil { // what is found out later serves nothing
			defer context.AfterFunc(x.while, cancel)()
		}
		found, answer := x.ask(ctx, upstream, said)
		mu.Lock()
		defer mu.Unlock()
		answers[upstream] = answer
		return found
	})
	var refused *rollout.Refused
	switch {
	case errors.As(err, &refused) && x.late():
		return call, way, false
	case errors.As(err, &refused):
		x.refuseUnowned(refused, "; nothing was sent")
		return call, way, false
	case way.Answered:
		x.target = x.route.targets[way.Upstream]
		mu.Lock()
		answer := answers[way.Upstream]
		mu.Unlock()
		x.out.code = answer.code
		_ = x.write(answer.status, answer.body) // a caller that has gone cannot be told
		return call, way, false
	}
	return call, way, true
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
func (x *exchange) deny(call rollout.Call) *rollout.Refused {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), config.StoreWithin)
	defer cancel()
	var refused *rollout.Refused
	errors.As(x.gateway.rollout.Deny(ctx, call), &refused)
	return refused
}

// notAsked is what is counted where no read was made.
const notAsked = "not asked"

// shownWords are what a read says of the bill of a write without an answer, for the metric.
var shownWords = map[rollout.ProbeResult]string{
	rollout.Unclear: "unclear", rollout.Absent: "not visible yet", rollout.Present: "visible", rollout.Refusing: "unclear",
}

// complete tells the rollout how a call ended.
func (x *exchange) complete(call rollout.Call, way rollout.Route) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), config.StoreWithin)
	defer cancel()
	if err := x.gateway.rollout.Complete(ctx, way, x.outcome()); err != nil {
		x.gateway.log.Error("the ledger cannot record how a create ended; it counts as one that may have been made", "id", x.id, "error", err.Error())
	}
	succeeded := x.call != nil && x.out.asked && !x.out.sent && x.call.Succeeded()
	if x.shown != nil && x.shown.Finding == rollout.Present || succeeded && !call.Creates && (call.Writes || x.call.ReplyValue(billing.State) != "") {
		if err := x.gateway.rollout.RecordFound(ctx, call, way); err != nil {
			x.gateway.log.Error("the ledger cannot record where a bill was found; it counts as one that may have been made", "id", x.id, "error", err.Error())
		}
	}
	// After it is known that the bill is there.
	var err error
	if x.shown != nil {
		err = x.gateway.rollout.RecordRead(ctx, call, way, *x.shown)
	}
	// Last: it stays until a read of somebody else. A create may also have been done whose answer does not say for certain that it was not.
	if call.Writes && x.out.asked && (x.out.sent || call.Creates && x.outcome() == store.Unknown) {
		err = errors.Join(err, x.gateway.rollout.RecordUnknown(ctx, call, way, x.shown))
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
	x.count(call, way, succeeded)
}

// keepShown keeps what the upstream's answer shows of the bill, if it is to be recorded in the ledger. That happens when the answer has been
// sent: another call may use the buffer of the reply then.
func (x *exchange) keepShown(way rollout.Route) {
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
	if way.Relevant(shown) {
		shown.State, shown.Amount = strings.Clone(shown.State), strings.Clone(shown.Amount)
		x.shown = &shown
	}
}

// count tells the rollout what became of a call, for its report, and has the bill read back that a canary made.
func (x *exchange) count(call rollout.Call, way rollout.Route, succeeded bool) {
	end := evidence.End{Succeeded: succeeded}
	// What we say in a side's place is no answer of it: where its word must not be relayed, and where nobody waited for it.
	if x.out.asked && !strings.HasPrefix(x.out.reason, unowned.reason) && x.out.status != statusGone {
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
		case name == way.Upstream && !x.out.asked && x.lacks(map[string]string{c.Old: c.New, c.New: c.Old}[name]) == "":
			end.Lacks[side] = x.lacks(name)
		}
	}
	x.gateway.rollout.Count(call, way, end)
	if way.ReadBack && succeeded {
		x.readBack(call, way.Upstream)
	}
}

// lacks is why an upstream's form cannot carry the call: the code and the field of the refusal. "" if it can.
func (x *exchange) lacks(upstream string) string {
	translation := x.route.targets[upstream].translation
	if translation.SameForm() {
		return ""
	}
	try := translation.Start()
	defer try.Release()
	_, err := try.Request(nil, x.in.Bytes())
	var refusal *translate.Refusal
	if !errors.As(err, &refusal) {
		return ""
	}
	if translation.Names(refusal.Field) {
		return refusal.Code + " " + refusal.Field
	}
	return refusal.Code
}

// compare has the other upstream's answer to a read compared with the one that the partner got.
func (x *exchange) compare(call rollout.Call, other string, asked []byte, status int, body []byte) {
	c, first, id := x.state.config, x.target, x.id // and not x, which holds all of the call
	second := x.route.targets[other]
	in := bytes.Clone(x.in.Bytes()) // its place is another call's when this one has been answered
	limit := int64(c.Limits.Reply)
	side := map[string]evidence.Side{c.Rollout.Old: evidence.OldSide, c.Rollout.New: evidence.NewSide}[first.upstream.config.Name]
	x.gateway.rollout.Shadow().Offer(evidence.Shadowed{
		ID: id, At: x.start, Partner: call.Partner, Operation: x.route.operation, Side: side,
		First: evidence.Answer{Form: first.upstream.config.Form, Request: asked, Status: status, Body: body},
		Other: func(ctx context.Context, most int64) (evidence.Answer, error) {
			call := second.translation.Start()
			defer call.Release()
			request, err := call.Request(nil, in)
			if err != nil {
				return evidence.Answer{}, err
			}
			return second.answer(ctx, c, id, request, min(most, limit))
		},
		Again: func(ctx context.Context, most int64) (evidence.Answer, error) {
			return first.answer(ctx, c, id, asked, min(most, limit))
		},
	})
}

// readBack has a bill of canary read where it was made, and compared with what was asked for.
func (x *exchange) readBack(call rollout.Call, upstream string) {
	c, read := x.state.config, x.state.reads[x.client][upstream]
	if read == nil {
		return
	}
	say := read.translation.Start()
	defer say.Release()
	question, err := x.state.read.Compose(nil, x.client, billing.IdentityOf(x.call).Values())
	if err != nil {
		return
	}
	request, err := say.Request(nil, question)
	if err != nil {
		return
	}
	limit, id := int64(c.Limits.Reply), x.id
	x.gateway.rollout.Shadow().Check(evidence.Checked{
		ID: id, At: x.start, Partner: call.Partner, Operation: call.Operation, Read: x.state.read,
		Asked: evidence.Created{Bill: call.Bill, Amount: strings.Clone(x.call.Value(billing.Amount))},
		Show: func(ctx context.Context, most int64) (evidence.Answer, error) {
			return read.answer(ctx, c, id, request, min(most, limit))
		},
	})
}

// answer asks an upstream for the sake of a comparison.
func (l *routeTarget) answer(ctx context.Context, c *config.Config, id string, request []byte, most int64) (evidence.Answer, error) {
	reply := new(bytes.Buffer)
	asking := newPayload(request)
	asking.own = true
	response, err := l.upstream.post(ctx, l.url, id, asking, reply, most)
	if err != nil {
		return evidence.Answer{}, err
	}
	return evidence.Answer{
		Form: l.upstream.config.Form, Request: request, Status: response.StatusCode, Body: reply.Bytes(),
	}, nil
}

// outcome is what is known of a write after its exchange.
func (x *exchange) outcome() store.Outcome {
	switch {
	case !x.out.asked:
		return store.NotSent
	case x.out.sent:
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
