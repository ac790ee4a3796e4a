package proxy

import (
	"context"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
)

// CompareBill reads a bill of a partner at both backends of the rollout, with the partner's key, which must be known,
// and compares the answers as those to a read of the partner. It is a [operate.CompareBill].
func (g *Gateway) CompareBill(ctx context.Context, id partner.ID, bill string) evidence.Comparison {
	unread := evidence.Comparison{Class: evidence.NoAnswer}
	as := routing.Credentials{Partner: id}
	s, p := g.ownRead(&as, bill)
	if as.Key == "" {
		return unread
	}
	var reads [2]func(context.Context) evidence.Answer
	for i, upstream := range s.config.Rollout.Backends() {
		reads[i] = func(ctx context.Context) evidence.Answer {
			ctx, cancel := context.WithTimeout(ctx, s.config.Rollout.ProbeTimeout)
			defer cancel()
			_, reply := s.readBill(ctx, p, upstream)
			return reply.answer
		}
	}
	now := time.Now()
	return g.rollout.Shadow().Compare(ctx, evidence.Shadowed{
		ID: p.id, At: now, Partner: id, Operation: s.readOperation, First: reads[evidence.Old](ctx),
		Other: reads[evidence.New], Again: reads[evidence.Old],
	})
}
