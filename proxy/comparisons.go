package proxy

import (
	"bytes"
	"context"
	"strings"

	"billbridge/config"
	"billbridge/proxy/rollout/evidence"
	"billbridge/translate/billing"
)

// compare has the other upstream's answer to a read compared with the one that the partner got.
func (x *exchange) compare(asked []byte, status int, body []byte) {
	c, first, id := x.state.config, x.target, x.id // and not x, which holds all of the call
	second := x.route.targets[x.decided.route.Compare]
	request, err := x.requestFor(second, asked)
	limit := int64(c.Limits.Reply)
	backend := map[string]evidence.Backend{c.Rollout.Old: evidence.Old, c.Rollout.New: evidence.New}[first.upstream.config.Name]
	x.gateway.rollout.Shadow().Offer(evidence.Shadowed{
		ID: id, At: x.start, Partner: x.decided.call.Partner, Operation: x.route.operation, Backend: backend,
		First: evidence.Answer{Form: first.upstream.config.Form, Request: asked, Status: status, Body: body},
		Other: func(ctx context.Context, most int64) (evidence.Answer, error) {
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

// requestFor is the request in the form of another target than the call's, where asked is what the call's upstream got. It
// outlives the exchange.
func (x *exchange) requestFor(to *routeTarget, asked []byte) ([]byte, error) {
	switch {
	case to.translation == x.target.translation:
		return asked, nil
	case to.translation.SameForm():
		return bytes.Clone(x.in.body.Bytes()), nil // its room is another call's when this one has been answered
	}
	return x.in.read.Translate(nil)
}

// readBack has a bill of canary read where it was made, and compared with what was asked for.
func (x *exchange) readBack() {
	c, call, read := x.state.config, x.decided.call, x.state.reads[x.client][x.decided.route.Upstream]
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
	asking.noPartnerLimit = true
	response, err := l.upstream.post(ctx, l.url, id, asking, reply, most)
	if err != nil {
		return evidence.Answer{}, err
	}
	return evidence.Answer{
		Form: l.upstream.config.Form, Request: request, Status: response.StatusCode, Body: reply.Bytes(),
	}, nil
}
