package proxy

import (
	"bytes"
	"context"

	"billbridge/proxy/evidence"
	"billbridge/proxy/upstream"
)

// compare offers a read that is answered for a comparison with the other backend.
func (x *exchange) compare() {
	request := x.sent.compared
	first, second := x.to.target, x.route.targets[x.to.route.Compare]
	otherRequest, err := x.requestFor(second, request)
	other := x.state.fetch(second, x.id, otherRequest)
	if err != nil {
		other = func(context.Context) evidence.Answer { return evidence.Answer{} }
	}
	x.gateway.rollout.Shadow().Offer(evidence.Shadowed{
		ID: x.id, At: x.start, Partner: x.in.call.Partner, Operation: x.route.operation,
		First: x.answerOf(first), Other: other, Again: x.state.fetch(first, x.id, request),
	})
}

// requestFor returns the request for another target. sent is the request as it was sent. The result stays valid
// after the exchange.
func (x *exchange) requestFor(target *routeTarget, sent []byte) ([]byte, error) {
	switch {
	case target.translation == x.to.target.translation:
		return sent, nil
	case target.translation.SameForm():
		return bytes.Clone(x.in.body.Bytes()), nil // the buffer is reused after the exchange
	}
	return x.in.readCall.Translate(nil)
}

// answerOf returns the reply of the backend, with the request as it was sent.
func (x *exchange) answerOf(t *routeTarget) evidence.Answer {
	return evidence.Answer{
		Form: t.upstream.Config().Form, Request: x.sent.compared, Status: x.sent.status, Body: x.sent.reply.Bytes(),
	}
}

// fetch returns a function that sends a request for a comparison. It does not refer to an exchange, which holds the
// whole call.
func (s *state) fetch(t *routeTarget, id string, request []byte) func(context.Context) evidence.Answer {
	return func(ctx context.Context) evidence.Answer {
		r := &upstream.Request{
			Head: t.head, ID: id, Body: request, NoPartnerLimit: true,
			Reply: new(bytes.Buffer), Limit: evidence.MostBody, Fresh: true,
		}
		reply, failed := t.upstream.Do(ctx, r)
		if failed != nil {
			return evidence.Answer{}
		}
		return evidence.Answer{
			Form: t.upstream.Config().Form, Request: request, Status: reply.Status, Body: r.Reply.Bytes(),
		}
	}
}
