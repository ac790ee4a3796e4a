package proxy

import (
	"bytes"
	"context"
	"strings"

	"billbridge/proxy/admission"
	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/routing"
	"billbridge/proxy/upstream"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// probeReply is an upstream's reply to a read of a bill, in the caller's form.
type probeReply struct {
	routing.Answer // of a bill that was not found; not masked (failures.mask_hosts)

	state  string // of a bill that was found
	means  string // what the state means by the table
	amount string // of a bill that was found
	shows  ledger.Shows

	answer evidence.Answer // as the upstream gave it; zero if it gave none

	callback []byte // that reports this, in the upstream's form
}

// A probe is a read of a bill by the gateway itself, with the identity of a partner.
type probe struct {
	id       string // of the call for which it is made
	client   translate.Form
	identity billing.Identity
	key      admission.Proof // of the identity
	callback bool            // whether a callback is made from the reply
	own      bool            // no call of the partner waits for the read, or because of it
}

// composeRead returns a read of a bill, and its call, which must be released.
func composeRead(
	read *translate.Operation, t *translate.Translation, client translate.Form, identity billing.Identity,
) (call *translate.Call, request []byte, err error) {
	composed, err := read.Compose(nil, client, identity.Values())
	if err != nil {
		return nil, nil, err
	}
	call = t.Start()
	if request, err = call.Request(nil, composed); err != nil {
		call.Release()
	}
	return call, request, err
}

// readBill reads a bill at an upstream.
func (s *state) readBill(ctx context.Context, p probe, name string) (routing.ProbeResult, probeReply) {
	target := s.readTargets[p.client][name]
	if target == nil {
		return routing.Unclear, probeReply{}
	}
	call, body, err := composeRead(s.readOperation, target.translation, p.client, p.identity)
	if err != nil {
		return routing.Unclear, probeReply{}
	}
	defer call.Release()
	r := &upstream.Request{
		Head: target.head, ID: p.id, Body: body, Key: p.key, NoPartnerLimit: p.own,
		Reply: new(bytes.Buffer), Limit: int64(s.config.Limits.Reply), Fresh: true,
	}
	reply, failed := target.do(ctx, r)
	if failed != nil {
		return routing.Unclear, probeReply{}
	}
	form := target.upstream.Config.Form
	answer := evidence.Answer{Form: form, Request: body, Status: reply.Status, Body: r.Reply.Bytes()}
	translated, err := call.Reply(nil, reply.Status, answer.Body)
	if err != nil {
		_ = target.unusable(reply.Status, err)
		return routing.Unclear, probeReply{answer: answer}
	}
	found := probeResults[billing.SaysOf(call, reply.Status)]
	if found == routing.Present {
		shown := probeReply{
			answer: answer,
			state:  strings.Clone(call.ReplyValue(billing.State)), means: call.ReplyMeaning(billing.State),
			amount: strings.Clone(call.ReplyValue(billing.Amount)),
		}
		if shown.shows = s.shows(call, shown.means); p.callback {
			shown.callback = s.config.Table.Callback.FromReply(nil, call)
		}
		return found, shown
	}
	return found, probeReply{answer: answer, Answer: routing.Answer{Status: call.Status(), Code: call.Code(), Body: translated}}
}

// shows is what the reply of a call shows of a bill in a state with a meaning. A bill that can still be paid often has
// no amount.
func (s *state) shows(call *translate.Call, means string) ledger.Shows {
	done := means != "" && !billing.NeverPaid(s.config.Table, means)
	if !done && strings.Trim(call.ReplyValue(billing.Amount), "0") == "" {
		return ledger.Shows{Means: means, Moves: s.moves}
	}
	return routing.Shows(s.config.Table, s.moves, means, call.Facts(false), call.Operation() == s.readOperation)
}

// probeResults are the results of probes by what the reply says; the others are Unclear. A refusal of the caller
// says nothing about the bill. If both backends refuse it, the caller gets the refusal for every operation: it is
// permanent and must not look like maintenance.
var probeResults = map[billing.Says]routing.ProbeResult{
	billing.Done: routing.Present, billing.NotFound: routing.Absent, billing.CallerRefused: routing.Refusing,
}
