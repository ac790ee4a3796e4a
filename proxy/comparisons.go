package proxy

import (
	"bytes"
	"context"

	"billbridge/proxy/evidence"
	"billbridge/proxy/upstream"
)

// compare offers a read that is answered for a comparison with the other backend. What it offers stays valid after the
// exchange.
func (x *exchange) compare() {
	sent := x.out.compared
	first, second := x.to.target, x.route.targets[x.to.route.Compare]
	request, err := sent, error(nil)
	switch {
	case second.translation == first.translation:
	case second.translation.SameForm():
		request = bytes.Clone(x.in.body.Bytes()) // the buffer is reused after the exchange
	default:
		request, err = x.asked.call.Translate(nil)
	}
	other := x.state.fetch(second, x.id, request)
	if err != nil {
		other = func(context.Context) evidence.Answer { return evidence.Answer{} }
	}
	x.gateway.rollout.Shadow().Offer(evidence.Shadowed{
		ID: x.id, At: x.start, Partner: x.to.call.Partner, Operation: x.route.operation,
		First: evidence.Answer{
			Form: first.upstream.Config.Form, Request: sent, Status: x.sent.status, Body: x.sent.reply.Bytes(),
		},
		Other: other, Again: x.state.fetch(first, x.id, sent),
	})
}

// fetch returns a function that sends a request for a comparison. It does not refer to an exchange, which holds the
// whole call.
func (s *state) fetch(t *routeTarget, id string, request []byte) func(context.Context) evidence.Answer {
	return func(ctx context.Context) evidence.Answer {
		r := &upstream.Request{
			Head: t.head, ID: id, Body: request, NoPartnerLimit: true,
			Reply: new(bytes.Buffer), Limit: evidence.MostBody, Fresh: true,
		}
		reply, failed := t.do(ctx, r)
		if failed != nil {
			return evidence.Answer{}
		}
		return evidence.Answer{
			Form: t.upstream.Config.Form, Request: request, Status: reply.Status, Body: r.Reply.Bytes(),
		}
	}
}
