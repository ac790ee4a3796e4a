package proxy

import (
	"cmp"
	"context"
	"sync"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// maxKnownPartners limits the number of partners whose keys are remembered.
const maxKnownPartners = 10_000

// knownPartners holds the key, member and merchant of partners that have called since the start. An operator names a
// partner by the hash of its key, and a read at a backend needs the key. The keys are only in memory.
type knownPartners struct {
	mu   sync.Mutex
	byID map[partner.ID]routing.Credentials
}

// of returns the identity of a partner, zero if it is not known.
func (p *knownPartners) of(id partner.ID) routing.Credentials {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}

// remember keeps the identity of a partner's first call that succeeded with the key that it used last: it may have
// several, and a backend may not accept the earlier ones any more.
func (p *knownPartners) remember(id partner.ID, call *translate.Call) {
	if p.of(id).Key == call.Value(billing.Partner) {
		return
	}
	identity := billing.IdentityOf(call)
	p.add(routing.Credentials{
		Partner: id, Key: identity.Partner, Member: identity.Member, Merchant: identity.Merchant,
	})
}

// add keeps an identity. If there are too many, it forgets another one, which comes back with its next call.
func (p *knownPartners) add(one routing.Credentials) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.byID[one.Partner]; !known && len(p.byID) >= maxKnownPartners {
		for other := range p.byID {
			delete(p.byID, other)
			break
		}
	}
	p.byID[one.Partner] = one
}

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
