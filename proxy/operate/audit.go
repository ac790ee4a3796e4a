package operate

import (
	"context"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// An AuditPage is a page of the audit log.
type AuditPage struct {
	PartnerRef
	By          string    `json:"author,omitzero"` // who decided; "" for all
	Since       time.Time `json:"since,omitzero"`
	OldestFirst bool      `json:"oldest_first,omitzero,string"`
	After       int64     `json:"after,omitzero,string"` // the revision of the last entry of the page before
	Limit
}

// Audit returns what operators and the gateway did with the rollout, callbacks, the config, tokens and the store. The
// last is the first, unless OldestFirst is set.
func (o storeVerbs) Audit(ctx context.Context, p AuditPage) ([]Change, error) {
	limit, err := p.get()
	if err != nil {
		return nil, err
	}
	if o.Store == nil {
		return nil, conflict("there is no audit log: it is in the store, and the config has no store section")
	}
	only, err := p.one(ctx, o.core)
	if err != nil {
		return nil, err
	}
	return o.entries(ctx, store.AuditFilter{
		Partner: only, By: p.By, Since: p.Since, OldestFirst: p.OldestFirst, After: p.After, Limit: limit,
	})
}

func (o storeVerbs) entries(ctx context.Context, f store.AuditFilter) ([]Change, error) {
	log, err := o.Store.Audit(ctx, f)
	all := make([]Change, len(log))
	for i, c := range log {
		all[i] = o.entry(c)
	}
	return all, err
}

// entry returns an entry of the audit log.
func (o storeVerbs) entry(c store.Change) Change {
	e := Change{
		Revision: c.Revision, Action: string(c.Action), By: c.By, At: c.At, Subject: c.Subject,
		Moved: Moved{From: c.From, To: c.To, Forced: c.Forced}, Evidence: c.Evidence, Reason: c.Reason,
	}
	if c.Action == store.WaveChanged { // why it came into its state
		e.Evidence = evidence.ReadNote(c.Evidence).String()
	}
	if c.Overridden != "" {
		_ = (*Force)(&e.Overridden).UnmarshalText([]byte(c.Overridden))
	}
	if c.Forced && c.Action == store.Assigned { // its only kind of reason
		e.Overridden = []moves.ReasonKind{moves.NotAtBoth}
	}
	e.about(o.core, c.Partner, map[store.Action]string{store.Staged: Default, store.Reset: All}[c.Action])
	e.FromPercent = percentOf(routing.At(c.From, c.FromPercent))
	e.ToPercent = percentOf(routing.At(c.To, c.ToPercent))
	return e
}

// A Backup is a file to which the store was copied.
type Backup struct {
	Author
	File string `json:"file,omitzero"`
}

// BackedUp records that the store was backed up.
func (o storeVerbs) BackedUp(ctx context.Context, b Backup) (struct{}, error) {
	err := b.check()
	if err == nil {
		err = o.Record(store.Change{Action: store.BackedUp, By: b.By, Reason: b.Reason, Subject: b.File})
	}
	if err == nil && o.Tick != nil {
		o.Tick(ctx)
	}
	return struct{}{}, err
}

// Record records in the audit log what changes nothing in the store. What is recorded has happened: a failure is
// logged.
func (o storeVerbs) Record(c store.Change) error {
	if o.Store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // a visitor who signs in waits for it
	defer cancel()
	c.At = o.Now()
	err := o.Store.Change(ctx, c)
	if err != nil {
		o.Logger.Error(
			"the audit log lacks an entry: the store did not record it",
			"action", c.Action, "by", c.By, "error", err.Error(),
		)
	}
	return err
}
