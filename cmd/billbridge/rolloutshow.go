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
)

type rolloutStatus struct {
	adminFlags
	partnerFlags
	JSON bool `name:"json" help:"JSON instead of a table."`
}

// Help implements kong's detailed help.
func (rolloutStatus) Help() string {
	return examples("billbridge rollout status", "billbridge rollout status --key-file partner.key --json") +
		"\n\nBills are those that the gateway knows: of those made before it was there it knows nothing."
}

// Run shows where partners stand.
func (c *rolloutStatus) Run(ctx context.Context, s surroundings) error {
	path, err := c.about("/rollout")
	if err != nil {
		return err
	}
	var status rollout.Status
	if err := c.get(ctx, path, &status); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(status)
	}
	declared := func(d *rollout.Declared, effect string) string {
		if d == nil {
			return "-"
		}
		return clock(d.At) + " by " + d.By + ": " + effect
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"old side", status.Old},
		{"new side", status.New},
		{"bills", status.Bills},
		{"settling time", status.Settle},
		{"stopped", declared(status.Stopped, "new bills are made at "+status.Old)},
		{"restored", declared(status.Restored, "what the ledger does not know is asked at both sides")},
		{"default stage", setting(status.Default)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	if err := w.Flush(); err != nil || len(status.Partners) == 0 {
		return err
	}
	if status.Uncounted != "" {
		fmt.Fprintf(w, "\nBills are left out: %s.\n", status.Uncounted)
	}
	fmt.Fprint(w, "\nPARTNER\tSTAGE\tSEEN SINCE\tBILLS\n")
	for _, p := range status.Partners {
		stage, seen := setting(p.Placing), "-"
		if p.Default {
			stage = p.String() + ", the default"
		}
		if p.Seen != nil {
			seen = clock(*p.Seen)
			if !p.Settled {
				seen += ", not settled"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Partner, stage, seen, bills(p.Bills))
	}
	return w.Flush()
}

// setting is a stage, and who set it.
func setting(p rollout.Placing) string {
	if p.At == nil {
		return p.String() + ", by the config"
	}
	return p.String() + forced(p.Forced) + ", " + clock(*p.At) + " by " + p.By
}

func forced(is bool) string {
	if is {
		return ", forced"
	}
	return ""
}

// bills are how many each side may have.
func bills(held []rollout.Held) string {
	var parts []string
	for _, h := range held {
		if h.Open() == 0 {
			continue
		}
		part := fmt.Sprintf("%d at %s", h.Open(), h.Upstream)
		if h.Pending > 0 {
			part += fmt.Sprintf(" (%d pending)", h.Pending)
		}
		parts = append(parts, part)
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

type rolloutReport struct {
	adminFlags
	partnerFlags
	Format string `default:"text" enum:"text,markdown,json" placeholder:"FORMAT" help:"text, markdown to attach to a ticket, or json (${default})."`
}

// Help implements kong's detailed help.
func (rolloutReport) Help() string {
	return examples("billbridge rollout report", "billbridge rollout report --partner 6e2b0f4cd1aa --format markdown") +
		"\n\nIt exits with 1 if a verdict is FAIL."
}

// Run prints the report.
func (c *rolloutReport) Run(ctx context.Context, s surroundings) error {
	path, err := c.about("/rollout/report")
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
		if v.Ruling == rollout.Fail {
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
	Limit int  `default:"100" placeholder:"N" help:"At most so many (${default}); up to 10000."`
	JSON  bool `name:"json" help:"One JSON object a line instead of a table."`
}

// Help implements kong's detailed help.
func (rolloutAudit) Help() string {
	return examples("billbridge rollout audit", "billbridge rollout audit --limit 1000 --json")
}

// Run lists changes.
func (c *rolloutAudit) Run(ctx context.Context, s surroundings) error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", c.Limit))
	}
	var log []rollout.Changed
	if err := c.get(ctx, "/rollout/audit?limit="+strconv.Itoa(c.Limit), &log); err != nil {
		return err
	}
	if c.JSON {
		var failed error
		for _, made := range log {
			failed = errors.Join(failed, json.NewEncoder(s.out).Encode(made))
		}
		return failed
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AT\tBY\tACTION\tPARTNER\tFROM\tTO")
	for _, made := range log {
		none := "-"
		switch {
		case made.Action == "stage" && made.Partner == "default":
			none = "the config's"
		case made.Action == "stage":
			none = "the default"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", clock(made.At), made.By, made.Action, cmp.Or(made.Partner, "-"),
			cmp.Or(rollout.InWords(made.From, made.FromPercent), none), cmp.Or(rollout.InWords(made.To, made.ToPercent), none)+forced(made.Forced))
	}
	return w.Flush()
}
