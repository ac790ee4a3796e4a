package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"billbridge/proxy/operate"
)

type auditCommand struct {
	adminFlags
	partnerFlags
	After int64 `placeholder:"REVISION" help:"Only entries before this one: the revision of the last entry of the page before, which --json prints."`
	Limit int   `default:"100" placeholder:"N" help:"The maximum number of rows (${default}), from 1 to 10000."`
	JSON  bool  `name:"json" help:"Print one JSON object per line instead of a table."`
}

// Help implements kong's detailed help.
func (auditCommand) Help() string {
	return examples("billbridge audit", "billbridge audit --partner 6e2b0f4cd1aa", "billbridge audit --limit 1000 --json")
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
	if err := c.get(ctx, "/audit", page, &log); err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		printf(w, "AT\tBY\tACTION\tPARTNER\tFROM\tTO\n")
	}
	for _, e := range log {
		if c.JSON {
			if err := json.NewEncoder(s.out).Encode(e); err != nil {
				return err
			}
			continue
		}
		none := "-"
		switch {
		case e.Action == "stage" && e.Partner == operate.Default:
			none = "the config's"
		case e.Action == "stage":
			none = "the default"
		}
		about := operate.Label(e.Partner, e.Name)
		if e.Subject != "" { // a bill, an upstream, or callbacks
			about = strings.TrimPrefix(about+" "+quoted(e.Subject), " ")
		}
		printf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", formatTime(e.At), e.By, e.Action, cmp.Or(about, "-"),
			cmp.Or(e.Old(), none), cmp.Or(e.New(), none)+forcedSuffix(e.Forced, e.Overridden...))
	}
	return w.Flush()
}

// checkLimit refuses a number of rows that the gateway would refuse.
func checkLimit(limit int) error {
	if limit < 1 || limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", limit))
	}
	return nil
}
