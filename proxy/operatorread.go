package proxy

import (
	"cmp"
	"context"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/translate/billing"
)

// ownRead returns a read of a bill by the gateway itself. It fills the empty fields of the identity from the partner's
// first call: the key stays empty if it is not known.
func (g *Gateway) ownRead(as *routing.Credentials, bill string) (*state, probe) {
	first := g.partners.of(as.Partner)
	as.Key, as.Member = cmp.Or(as.Key, first.Key), cmp.Or(as.Member, first.Member)
	as.Merchant = cmp.Or(as.Merchant, first.Merchant)
	s := g.current.Load()
	return s, probe{
		id: requestID(nil), client: s.config.Table.Forms()[0], // both forms have the read
		key: g.admission.Proof(as.Partner), own: true,
		identity: billing.Identity{Partner: as.Key, Member: as.Member, Merchant: as.Merchant, Bill: bill},
	}
}

// Knows reports whether the key of a partner is known: it has called since the start.
func (g *Gateway) Knows(id partner.ID) bool { return g.partners.of(id).Key != "" }

// ReadBill reads a bill at an upstream, not for a call (see routing.ReadBill). It returns the identity that it
// used, which is zero if the partner's key is not known.
func (g *Gateway) ReadBill(
	ctx context.Context, upstream string, asker routing.Credentials, bill string,
) (result routing.BackendBill, used routing.Credentials) {
	result.Upstream, result.Result = upstream, routing.NotAsked
	s, p := g.ownRead(&asker, bill)
	if asker.Key == "" {
		return result, routing.Credentials{}
	}
	if r := s.config.Rollout; r != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.ProbeTimeout)
		defer cancel()
	}
	p.callback = s.config.Callbacks != nil
	found, reply := s.readBill(ctx, p, upstream)
	result.Result, result.Code = routing.ResultTexts[found], reply.Code
	result.State, result.Amount, result.Ended = reply.state, reply.amount, billing.Final(s.config.Table, reply.means)
	result.Shows, result.Callback = reply.shows, reply.callback
	if g.current.Load() == s { // else the comparison would count for another table
		result.Created = func(amount string) evidence.Comparison {
			return evidence.CompareCreated(s.readOperation, bill, amount, reply.answer)
		}
	}
	return result, asker
}
