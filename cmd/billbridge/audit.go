package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/rollout"
)

type auditCommand struct {
	adminFlags
	partnerFlags
	Since  moment `placeholder:"TIME" help:"Only what was done since then: 24h for a day ago, or 2026-11-21T09:00:00+09:00."`
	After  int64  `placeholder:"REVISION" help:"With jsonl and csv: only entries after the one with this revision. In the table: only entries before it."`
	Limit  *int   `placeholder:"N" help:"Only the last N entries, from 1 to 10000. If omitted, the table has the last 100, and jsonl and csv have all."`
	Format string `default:"table" enum:"table,jsonl,csv" placeholder:"FORMAT" help:"The output format: table, the last entry first; jsonl (one JSON object per line) or csv, the oldest entry first (${default})."`
	JSON   bool   `name:"json" help:"The same as --format jsonl."`
}

// Run lists what operators and the gateway did.
func (c *auditCommand) Run(ctx context.Context, partner operate.PartnerRef) error {
	table := c.Format == "table" && !c.JSON
	limit, last := 100, table || c.Limit != nil
	switch {
	case c.JSON && c.Format == "csv":
		return usageError("--json and --format csv cannot be combined")
	case !table && last && c.After != 0:
		return usageError("--limit selects the last entries, and cannot be combined with --after in jsonl and csv")
	case c.Limit != nil:
		limit = *c.Limit
	case !table:
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
		if last && !table {
			slices.Reverse(log)
		}
		if c.Format == "csv" {
			err = showCSV(c.out, n == 0, log)
		} else {
			err = showRows(c.out, !table, "audit", log)
		}
		if err != nil || last || len(log) < limit {
			return err
		}
		n += len(log)
		c.progressf("entries: %d", n)
		page.After = log[len(log)-1].Revision
	}
}

// showCSV prints entries of the audit log as CSV, each in one line.
func showCSV(out io.Writer, header bool, log []operate.Change) error {
	var rows [][]string
	if header {
		rows = append(rows, strings.Split("revision,at,by,action,partner,name,subject,from,to,forced,overridden", ","))
	}
	for _, e := range log {
		row := []string{
			strconv.FormatInt(e.Revision, 10), e.At.Format(time.RFC3339Nano), e.By, e.Action,
			e.Partner, e.Name, e.Subject,
			e.Old(), e.New(), strconv.FormatBool(e.Forced), rollout.JoinKinds(e.Overridden),
		}
		for i, text := range row {
			// The beginning of a formula of a spreadsheet.
			if row[i] = printable(text); strings.IndexAny(text, "=+-@\t\r＝＋－＠") == 0 {
				row[i] = "'" + row[i]
			}
		}
		rows = append(rows, row)
	}
	var text bytes.Buffer // because a Write to out must not end inside a character
	_ = csv.NewWriter(&text).WriteAll(rows)
	_, err := out.Write(text.Bytes())
	return err
}

// checkLimit refuses a number of rows that the gateway would refuse.
func checkLimit(limit int) error {
	if limit < 1 || limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", limit))
	}
	return nil
}
