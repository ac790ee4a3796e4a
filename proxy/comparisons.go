package proxy

import (
	"bytes"
	"context"

	"billbridge/proxy/rollout/evidence"
)

// compare offers a read that is answered for a comparison with the other backend.
func (x *exchange) compare() {
	request := x.sent.compared
	first, second := x.to.target, x.route.targets[x.to.route.Compare]
	otherRequest, err := x.requestFor(second, request)
	other := x.fetcher(second, otherRequest)
	x.gateway.rollout.Shadow().Offer(evidence.Shadowed{
		ID: x.id, At: x.start, Partner: x.in.call.Partner, Operation: x.route.operation,
		First: x.answerOf(first),
		Other: func(ctx context.Context, most int64) (evidence.Answer, error) {
			if err != nil {
				return evidence.Answer{}, err
			}
			return other(ctx, most)
		},
		Again: x.fetcher(first, request),
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
		Form: t.upstream.config.Form, Request: x.sent.compared, Status: x.sent.status, Body: x.sent.reply.Bytes(),
	}
}

// fetcher is fetch for the comparison of a call.
func (x *exchange) fetcher(t *routeTarget, request []byte) fetch {
	return x.state.fetch(t, x.id, request)
}

// A fetch gets an answer of at most a size.
type fetch func(ctx context.Context, most int64) (evidence.Answer, error)

// fetch returns a function that sends a request for a comparison. It does not refer to an exchange, which holds the
// whole call.
func (s *state) fetch(t *routeTarget, id string, request []byte) fetch {
	return func(ctx context.Context, most int64) (evidence.Answer, error) {
		r := &upstreamRequest{
			head: t.head, id: id, body: request, noPartnerLimit: true,
			reply: new(bytes.Buffer), limit: min(most, int64(s.config.Limits.Reply)), fresh: true,
		}
		reply, err := t.upstream.post(ctx, r)
		if err != nil {
			return evidence.Answer{}, err
		}
		return evidence.Answer{
			Form: t.upstream.config.Form, Request: request, Status: reply.Status, Body: r.reply.Bytes(),
		}, nil
	}
}
