package proxy

import (
	"bytes"
	"context"

	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/upstream"
	"billbridge/translate/billing"
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

// readBack has a bill that was created in stage canary read at its backend, and compared with the request of the
// create.
func (x *exchange) readBack() {
	call := x.in.call
	target, read, request := x.state.composeRead(x.probe(billing.IdentityOf(x.call)), x.to.route.Upstream)
	if request == nil {
		return
	}
	read.Release()
	x.gateway.rollout.Shadow().Check(evidence.Checked{
		ID: x.id, At: x.start, Partner: call.Partner, Operation: call.Operation, Read: x.state.readOperation,
		Asked: evidence.Created{Bill: call.Bill, Amount: x.call.ComparableValue(billing.Amount)},
		Show:  x.fetcher(target, request),
	})
}

// answerOf returns the reply of the backend, with the request as it was sent.
func (x *exchange) answerOf(t *routeTarget) evidence.Answer {
	return evidence.Answer{
		Form: t.upstream.Config().Form, Request: x.sent.compared, Status: x.sent.status, Body: x.sent.reply.Bytes(),
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
		r := &upstream.Request{
			Head: t.head, ID: id, Body: request, NoPartnerLimit: true,
			Reply: new(bytes.Buffer), Limit: min(most, int64(s.config.Limits.Reply)), Fresh: true,
		}
		reply, failed := t.upstream.Do(ctx, r)
		if failed != nil {
			return evidence.Answer{}, failed
		}
		return evidence.Answer{
			Form: t.upstream.Config().Form, Request: request, Status: reply.Status, Body: r.Reply.Bytes(),
		}, nil
	}
}
