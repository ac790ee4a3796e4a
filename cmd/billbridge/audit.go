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
	Author given  `placeholder:"NAME"`
	Since  moment `placeholder:"TIME"`
	After  int64  `placeholder:"REVISION"`
	Limit  *int   `placeholder:"N"`
	JSON   bool   `name:"json"`
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
		PartnerRef: partner, By: string(c.Author), Since: c.Since.Time, OldestFirst: !last,
		After: c.After, Limit: operate.AtMost(limit),
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
		if err = showRows(c.out, c.JSON, "audit", log); err != nil || last || len(log) < limit {
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
