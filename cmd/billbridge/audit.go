package main

import (
	"context"
	"fmt"

	"billbridge/proxy/operate"
)

type auditCommand struct {
	adminFlags
	partnerFlags
	After int64 `placeholder:"REVISION" help:"Only entries before this one: the revision of the last entry of the page before, which --json prints."`
	Limit int   `default:"100" placeholder:"N" help:"The maximum number of rows (${default}), from 1 to 10000."`
	JSON  bool  `name:"json" help:"Print one JSON object per line instead of a table."`
}

// Run lists the decisions of operators.
func (c *auditCommand) Run(ctx context.Context, s system) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	partner, err := c.ref()
	if err != nil {
		return err
	}
	var log []operate.Change
	page := operate.AuditPage{PartnerRef: partner, After: c.After, Limit: operate.AtMost(c.Limit)}
	if err := c.get(ctx, "/audit", &log, page); err != nil {
		return err
	}
	return showRows(s.out, c.JSON, "audit", log)
}

// checkLimit refuses a number of rows that the gateway would refuse.
func checkLimit(limit int) error {
	if limit < 1 || limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", limit))
	}
	return nil
}
