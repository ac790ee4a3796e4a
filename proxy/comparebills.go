package proxy

import (
	"bytes"
	"context"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/translate/billing"
)

// CompareBill reads a bill of a partner at both backends of the rollout, with the partner's key, which must be known,
// and compares the answers as those to a read of the partner. took is how long each backend took. It is a
// [operate.CompareBill].
func (g *Gateway) CompareBill(
	ctx context.Context, id partner.ID, bill string,
) (result evidence.Comparison, took [2]time.Duration) {
	result.Class = evidence.NoAnswer
	asker := g.partners.complete(rollout.Credentials{Partner: id})
	if asker.Key == "" {
		return result, took
	}
	s := g.current.Load()
	p := probe{
		id: requestID(nil), client: s.config.Table.Forms()[0], partner: id,
		identity: billing.Identity{Partner: asker.Key, Member: asker.Member, Merchant: asker.Merchant, Bill: bill},
	}
	var reads [2]func(context.Context, int64) (evidence.Answer, error)
	for i, upstream := range []string{s.config.Rollout.Old, s.config.Rollout.New} {
		target, call, request := s.composeRead(p, upstream)
		if request == nil {
			return result, took
		}
		call.Release()
		reads[i] = func(ctx context.Context, most int64) (evidence.Answer, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(s.config.Rollout.ProbeTimeout))
			defer cancel()
			began := time.Now()
			defer func() { took[i] = max(took[i], time.Since(began)) }()
			r := &upstreamRequest{
				head: target.head, path: target.path, id: p.id, body: request, noPartnerLimit: true,
				reply: new(bytes.Buffer), limit: min(most, int64(s.config.Limits.Reply)),
			}
			reply, err := target.post(ctx, r)
			return evidence.Answer{
				Form: target.upstream.config.Form, Request: request, Status: reply.Status, Body: r.reply.Bytes(),
			}, err
		}
	}
	now, most := time.Now(), int64(s.config.Limits.Reply)
	first, err := reads[evidence.Old](ctx, most)
	if err != nil {
		first = evidence.Answer{Form: first.Form} // counted as unclear
	}
	result = g.rollout.Shadow().Compare(ctx, evidence.Shadowed{
		ID: p.id, At: now, Partner: id, Operation: s.readOperation, First: first, Backend: evidence.Old,
		Other: reads[evidence.New], Again: reads[evidence.Old],
	}, most)
	return result, took
}
