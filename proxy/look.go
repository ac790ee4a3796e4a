package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// callersAtMost bounds of how many partners the key is remembered.
const callersAtMost = 10_000

// callers are the partners whose calls an upstream has taken since the start, with the key, user and store of the first: an
// operator who asks for a bill names a partner by its hash, and a backend wants the key. They are in memory alone.
type callers struct {
	by sync.Map // rollout.Asker by partner.ID, full
	n  atomic.Int64
}

// remember keeps the first call of a partner.
func (c *callers) remember(partner partner.ID, call *translate.Call) {
	if _, known := c.by.Load(partner); known || c.n.Load() >= callersAtMost {
		return
	}
	names := billing.IdentityOf(call)
	as := rollout.Asker{Partner: partner, Key: names.Partner, Member: names.Member, Merchant: names.Merchant}
	if _, known := c.by.LoadOrStore(partner, as); !known {
		c.n.Add(1)
	}
}

// look reads a bill at an upstream for the operator (see rollout.Look).
func (g *Gateway) look(ctx context.Context, upstream string, as rollout.Asker, bill string) (says rollout.BackendBill, asked rollout.Asker) {
	says.Upstream = upstream
	if known, ok := g.callers.by.Load(as.Partner); ok {
		first := known.(rollout.Asker)
		if as.Key == "" {
			as.Key = first.Key
		}
		if as.Member == "" {
			as.Member = first.Member
		}
		if as.Merchant == "" {
			as.Merchant = first.Merchant
		}
	}
	if as.Key == "" {
		return says, rollout.Asker{}
	}
	s := g.current.Load()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.config.Rollout.Ask))
	defer cancel()
	// In the first form: every read of a bill is in both.
	x := &exchange{gateway: g, state: s, id: requestID(nil), client: s.config.Table.Forms()[0]}
	found, answer := x.ask(ctx, upstream, billing.Identity{Partner: as.Key, Member: as.Member, Merchant: as.Merchant, Bill: bill})
	says.Finding, says.State, says.Amount, says.Code = rollout.Findings[found], answer.state, answer.amount, answer.code
	says.Ended = billing.Final(answer.means)
	return says, as
}
