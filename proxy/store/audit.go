package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"billbridge/proxy/partner"
)

// An AuditFilter selects entries of the audit log.
type AuditFilter struct {
	Partner     partner.ID // "" for all
	Shared      bool       // with Partner: also changes that name no partner
	Actions     []Action   // none for all
	By          string     // "" for all
	Since       time.Time  // only changes at that time or later; zero for all
	OldestFirst bool       // else the last one first
	After       int64      // only entries that follow this revision in that order; 0 for all
	Limit       int        // at most so many
}

// Audit returns the first changes that a filter selects, in its order. Who goes on after the last revision with
// OldestFirst misses none: revisions become visible in their order, because the next one waits for the commit of the
// one before (see nextRevision).
func (s *Store) Audit(ctx context.Context, f AuditFilter) (all []Change, err error) {
	if len(f.Actions) == 0 {
		f.Actions = []Action{""}
	}
	for _, action := range f.Actions { // of each at most Limit are needed
		w := walk{table: "billbridge_audit", by: "revision", oldestFirst: f.OldestFirst, meant: f.meant}
		if action != "" {
			w.of, w.is = "action", string(action)
		}
		w.rows.given("revision >= %s", f.Since) // no revision is lower than its time
		of := 0
		for from := cmp.Or(f.After, start(f.OldestFirst)); from != 0 && of < f.Limit; {
			p, err := read(ctx, s.db, "reading the audit log", func(q tx) part[Change] {
				return partOf[Change](q, w, auditColumns, from, f.Limit-of)
			})
			if err != nil {
				return nil, err
			}
			all, of, from = append(all, p.found...), of+len(p.found), p.next
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		if f.OldestFirst {
			a, b = b, a
		}
		return cmp.Compare(b.Revision, a.Revision)
	})
	return all[:min(len(all), max(0, f.Limit))], nil
}

// meant adds the conditions of entries that a filter selects.
func (f AuditFilter) meant(c *conditions) {
	partners := "partner = %s"
	if f.Shared {
		partners = "partner IN (%s, '')"
	}
	c.given(partners, f.Partner)
	c.given("done_at >= %s", f.Since)
	c.given("done_by = %s", f.By)
}
