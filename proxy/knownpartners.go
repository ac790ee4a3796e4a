package proxy

import (
	"sync"

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
