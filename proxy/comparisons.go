package proxy

import (
	"bytes"
	"context"
	"strings"

	"billbridge/config"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/tracing"
	"billbridge/translate/billing"
)

// compareReply has the reply compared: with that of the other backend, or, of a bill that was read back, with what its create asked for.
func (x *exchange) compareReply() {
	if x.sent.awaited {
		x.paidBill(x.sent.compared, x.out.status, x.sent.reply.Bytes())
	} else {
		x.compare(x.sent.compared, x.out.status, x.sent.reply.Bytes())
	}
}

// compare offers a read for a comparison with the other backend. request and reply are those of the backend that has answered.
func (x *exchange) compare(request []byte, status int, reply []byte) {
	c, first, id, span := x.state.config, x.to.target, x.id, x.span // the closures must not refer to x, which holds the whole call
	second := x.route.targets[x.to.route.Compare]
	otherRequest, err := x.requestFor(second, request)
	limit := int64(c.Limits.Reply)
	backend := map[string]evidence.Backend{c.Rollout.Old: evidence.Old, c.Rollout.New: evidence.New}[first.upstream.config.Name]
	x.gateway.rollout.Shadow().Offer(evidence.Shadowed{
		ID: id, At: x.start, Partner: x.in.call.Partner, Operation: x.route.operation, Backend: backend,
		First: evidence.Answer{Form: first.upstream.config.Form, Request: request, Status: status, Body: reply},
		Other: func(ctx context.Context, most int64) (evidence.Answer, error) {
			if err != nil {
				return evidence.Answer{}, err
			}
			return second.fetch(ctx, c, id, span, otherRequest, min(most, limit))
		},
		Again: func(ctx context.Context, most int64) (evidence.Answer, error) {
			return first.fetch(ctx, c, id, span, request, min(most, limit))
		},
	})
}

// requestFor returns the request for another target. sent is the request as it was sent. The result stays valid after the exchange.
func (x *exchange) requestFor(target *routeTarget, sent []byte) ([]byte, error) {
	switch {
	case target.translation == x.to.target.translation:
		return sent, nil
	case target.translation.SameForm():
		return bytes.Clone(x.in.body.Bytes()), nil // the buffer is reused after the exchange
	}
	return x.in.readCall.Translate(nil)
}

// readBack has a bill that was created in stage canary read at its backend, and compared with the request of the create.
func (x *exchange) readBack() {
	c, call, target := x.state.config, x.in.call, x.state.readTargets[x.client][x.to.route.Upstream]
	if target == nil {
		return
	}
	read := target.translation.Start()
	defer read.Release()
	composed, err := x.state.readOperation.Compose(nil, x.client, billing.IdentityOf(x.call).Values())
	if err != nil {
		return
	}
	request, err := read.Request(nil, composed)
	if err != nil {
		return
	}
	limit, id, span := int64(c.Limits.Reply), x.id, x.span
	x.gateway.rollout.Shadow().Check(evidence.Checked{
		ID: id, At: x.start, Partner: call.Partner, Operation: call.Operation, Read: x.state.readOperation,
		Asked: evidence.Created{Bill: call.Bill, Amount: strings.Clone(x.call.Value(billing.Amount))},
		Show: func(ctx context.Context, most int64) (evidence.Answer, error) {
			return target.fetch(ctx, c, id, span, request, min(most, limit))
		},
	})
}

// paidBill has a bill that was read back after its create, and that the partner's read shows paid, compared. request and reply are those of
// the backend.
func (x *exchange) paidBill(request []byte, status int, reply []byte) {
	c, call, target, id, span := x.state.config, x.in.call, x.to.target, x.id, x.span
	if x.route.operation != x.state.readOperation || !x.call.Succeeded() || x.call.ReplyMeaning(billing.State) != billing.Paid {
		return
	}
	again, limit := bytes.Clone(request), int64(c.Limits.Reply)
	x.gateway.rollout.Shadow().CheckPaid(evidence.Checked{
		ID: id, At: x.start, Partner: call.Partner, Read: x.state.readOperation, Asked: evidence.Created{Bill: call.Bill},
		Show: func(ctx context.Context, most int64) (evidence.Answer, error) {
			return target.fetch(ctx, c, id, span, again, min(most, limit))
		},
	}, evidence.Answer{Form: target.upstream.config.Form, Request: again, Status: status, Body: reply})
}

// fetch sends a request for a comparison.
func (t *routeTarget) fetch(ctx context.Context, c *config.Config, id string, span *tracing.Span, request []byte, most int64) (evidence.Answer, error) {
	body := new(bytes.Buffer)
	r := &upstreamRequest{head: t.head, path: t.path, id: id, span: span, body: request, noPartnerLimit: true}
	reply, err := t.post(ctx, r, body, most)
	if err != nil {
		return evidence.Answer{}, err
	}
	return evidence.Answer{
		Form: t.upstream.config.Form, Request: request, Status: reply.Status, Body: body.Bytes(),
	}, nil
}
