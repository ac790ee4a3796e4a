package operate

import (
	"context"
	"strings"
	"time"

	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
)

// An AuditPage is a page of the audit log.
type AuditPage struct {
	PartnerRef
	After int64 `json:"after,omitzero,string"` // the revision of the last entry of the page before
	Limit
}

// Audit returns the decisions of operators, the last one first: about the rollout, callbacks and the clock.
func (o *Operator) Audit(ctx context.Context, p AuditPage) ([]Change, error) {
	limit, err := p.within(listedMost)
	if err != nil {
		return nil, err
	}
	if err := o.needStore(); err != nil {
		return nil, err
	}
	only, err := p.one(ctx, o)
	if err != nil {
		return nil, err
	}
	log, err := o.Store.Audit(ctx, store.AuditFilter{Partner: only, Before: p.After, Limit: limit})
	if err != nil {
		return nil, err
	}
	answer := make([]Change, len(log))
	for i, c := range log {
		answer[i] = o.entry(c)
	}
	return answer, nil
}

// entry returns an entry of the audit log.
func (o *Operator) entry(c store.Change) Change {
	e := Change{
		Revision: c.Revision, Action: string(c.Action), By: c.By, At: c.At, Forced: c.Forced, Subject: c.Subject, From: c.From, To: c.To,
	}
	for name := range strings.SplitSeq(c.Overridden, ",") {
		if name != "" {
			e.Overridden = append(e.Overridden, rollout.ReasonKind(name))
		}
	}
	if c.Forced && c.Action == store.Assigned { // its only kind of reason
		e.Overridden = []rollout.ReasonKind{rollout.NotAtBoth}
	}
	e.about(o, c.Partner, map[store.Action]string{store.Staged: Default, store.Reset: All}[c.Action])
	e.FromPercent = percentOf(rollout.Position{Stage: rollout.Stage(c.From), Percent: c.FromPercent})
	e.ToPercent = percentOf(rollout.Position{Stage: rollout.Stage(c.To), Percent: c.ToPercent})
	return e
}

// Redelivered is an entry of the audit log about callbacks.
type Redelivered struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Action  string    `json:"action"`            // replay, drop or address
	Partner string    `json:"partner,omitempty"` // "" for callbacks of several
	Name    string    `json:"name,omitempty"`    // of the partner
	What    string    `json:"what"`              // the id of one callback, or the number and the filter of several
	From    string    `json:"from"`
}

// CallbackAudit returns the decisions about callbacks alone, the last one first.
func (o *Operator) CallbackAudit(ctx context.Context, l Limit) ([]Redelivered, error) {
	limit, err := l.within(listedMost)
	if err != nil {
		return nil, err
	}
	actions := []store.Action{store.CallbackReplayed, store.CallbackDropped, store.AddressAssigned}
	log, err := o.Store.Audit(ctx, store.AuditFilter{Actions: actions, Limit: limit})
	list := make([]Redelivered, len(log))
	for i, c := range log {
		e := o.entry(c)
		list[i] = Redelivered{e.At, e.By, e.Action, e.Partner, e.Name, e.Subject, e.From}
	}
	return list, err
}
