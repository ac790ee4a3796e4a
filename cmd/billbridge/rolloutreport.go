package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
)

type rolloutReport struct {
	adminFlags
	partnerFlags
	Format string `default:"text" enum:"text,markdown,json" placeholder:"FORMAT" help:"The output format: text, markdown or json (${default})."`
}

// Help implements kong's detailed help.
func (rolloutReport) Help() string {
	return examples("billbridge rollout report", "billbridge rollout report --partner 6e2b0f4cd1aa --format markdown") +
		"\n\nThe exit code is 1 if a verdict is FAIL."
}

// Run prints the report.
func (c *rolloutReport) Run(ctx context.Context, s system) error {
	path, err := c.withPartner("/rollout/report")
	if err != nil {
		return err
	}
	var r rollout.Report
	if err := c.get(ctx, path, &r); err != nil {
		return err
	}
	write := map[string]func(io.Writer) error{"text": r.WriteText, "markdown": r.WriteMarkdown, "json": r.WriteJSON}[c.Format]
	if err := write(s.out); err != nil {
		return err
	}
	failed := 0
	for _, v := range r.Verdicts {
		if v.Ruling == evidence.Fail {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d verdicts are FAIL", failed, len(r.Verdicts))
	}
	return nil
}

type rolloutAudit struct {
	adminFlags
	Limit int  `default:"100" placeholder:"N" help:"The maximum number of rows (${default}), from 1 to 10000."`
	JSON  bool `name:"json" help:"Print one JSON object per line instead of a table."`
}

// Help implements kong's detailed help.
func (rolloutAudit) Help() string {
	return examples("billbridge rollout audit", "billbridge rollout audit --limit 1000 --json")
}

// Run lists changes.
func (c *rolloutAudit) Run(ctx context.Context, s system) error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", c.Limit))
	}
	var log []rollout.Changed
	if err := c.get(ctx, "/rollout/audit?limit="+strconv.Itoa(c.Limit), &log); err != nil {
		return err
	}
	if c.JSON {
		var failed error
		for _, changed := range log {
			failed = errors.Join(failed, json.NewEncoder(s.out).Encode(changed))
		}
		return failed
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	printf(w, "AT\tBY\tACTION\tPARTNER\tFROM\tTO\n")
	for _, changed := range log {
		none := "-"
		switch {
		case changed.Action == "stage" && changed.Partner == "default":
			none = "the config's"
		case changed.Action == "stage":
			none = "the default"
		}
		changed.Partner = rollout.Label(changed.Partner, changed.Name)
		if changed.Subject != "" { // a bill, or an upstream
			changed.Partner = strings.TrimPrefix(changed.Partner+" "+quoted(changed.Subject), " ")
		}
		printf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", formatTime(changed.At), changed.By, changed.Action, cmp.Or(changed.Partner, "-"),
			cmp.Or(rollout.InWords(changed.From, changed.FromPercent), none), cmp.Or(rollout.InWords(changed.To, changed.ToPercent), none)+forcedSuffix(changed.Forced, changed.Overridden...))
	}
	return w.Flush()
}
