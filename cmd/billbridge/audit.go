package main

import (
	"context"
	"fmt"
	"slices"

	"billbridge/proxy/operate"
)

type auditCommand struct {
	adminFlags
	partnerFlags
	Since moment `placeholder:"TIME" help:"Only what was done since then: 24h for a day ago, or 2026-11-21T09:00:00+09:00."`
	After int64  `placeholder:"REVISION" help:"With --json: only entries after the one with this revision. In the table: only entries before it."`
	Limit *int   `placeholder:"N" help:"Only the last N entries, from 1 to 10000. If omitted, the table has the last 100, and --json has all."`
	JSON  bool   `name:"json" help:"Print one JSON object per line, the oldest entry first, instead of a table with the last entry first."`
}

// Run lists what operators and the gateway did.
func (c *auditCommand) Run(ctx context.Context, partner operate.PartnerRef) error {
	limit, last := 100, !c.JSON || c.Limit != nil
	switch {
	case c.JSON && last && c.After != 0:
		return usageError("--limit selects the last entries, and cannot be combined with --after and --json")
	case c.Limit != nil:
		limit = *c.Limit
	case c.JSON:
		limit = 10_000 // the gateway returns no more at once
	}
	if err := checkLimit(limit); err != nil {
		return err
	}
	page := operate.AuditPage{
		PartnerRef: partner, Since: c.Since.Time, OldestFirst: !last, After: c.After, Limit: operate.AtMost(limit),
	}
	for n := 0; ; {
		var log []operate.Change
		err := c.get(ctx, "/audit", &log, page)
		if c.progressf(""); err != nil {
			return err
		}
		if last && c.JSON {
			slices.Reverse(log)
		}
		if err := showRows(c.out, c.JSON, "audit", log); err != nil || last || len(log) < limit {
			return err
		}
		n += len(log)
		c.progressf("entries: %d", n)
		page.After = log[len(log)-1].Revision
	}
}

// checkLimit refuses a number of rows that the gateway would refuse.
func checkLimit(limit int) error {
	if limit < 1 || limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", limit))
	}
	return nil
}
