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
	"time"

	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
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
	named := func(name string) string {
		for _, b := range status.Backends {
			if b.Name == name {
				return name + ", " + b.URL
			}
		}
		return name
	}
	declared := func(d *rollout.Declared, effect string) string {
		if d == nil {
			return "-"
		}
		return clock(d.At) + " by " + d.By + ": " + effect
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"old backend", named(status.Old)},
		{"new backend", named(status.New)},
		{"bills", status.Bills},
		{"canary", "draws by " + status.Split + "; a bill that has an owner stays there"},
		{"settling time", status.Settle},
		{"stopped", declared(status.Stopped, "new bills are made at "+status.Old)},
		{"restored", declared(status.Restored, "what the ledger does not know is asked at both backends")},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	for _, line := range append(begun(status), [2]string{"default stage", setting(status.Default)}) {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	if e := status.Default.Effect; e != nil {
		fmt.Fprintf(w, "\tat the new backend: %s\n", e)
	}
	for _, line := range notices(status) {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	if err := w.Flush(); err != nil || len(status.Partners) == 0 {
		return err
	}
	if status.Uncounted != "" {
		fmt.Fprintf(w, "\nBills are left out: %s.\n", status.Uncounted)
	}
	fmt.Fprint(w, "\nPARTNER\tSTAGE\tSEEN SINCE\tBILLS\tCANARY MAKES AT THE NEW BACKEND\n")
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
		effect := "-"
		if p.Effect != nil {
			effect = p.Effect.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Partner, stage, seen, bills(p.Bills), effect)
	}
	return w.Flush()
}

// begun is whether the ledger of a rollout is complete, and what to do if nobody has said so.
func begun(s rollout.Status) [][2]string {
	switch {
	case s.Begun != nil:
		return [][2]string{{"begun", clock(s.Begun.At) + " by " + s.Begun.By}}
	case s.Started == nil:
		return [][2]string{{"begun", "-"}}
	}
	return [][2]string{
		{"begun", "no, the store is new since " + clock(*s.Started) + ": both backends are asked about every bill that it does not know"},
		{"", "if the new backend has no bills of partners that come through here, run billbridge rollout begin"},
		{"", "if there was a store before, restore it from its backup"},
	}
}

// notices are what else an operator may have to act on.
func notices(s rollout.Status) (lines [][2]string) {
	if s.Believes != nil {
		lines = append(lines, [2]string{"new bills", "refused until " + clock(*s.Believes) + ": a create that the ledger does not know of may still be on its way"})
	}
	if s.Unstored {
		lines = append(lines, [2]string{"not stored", "the stop holds on this gateway alone; it is tried again every second"})
	}
	for _, b := range s.Backends {
		if b.MayMove != nil {
			lines = append(lines, [2]string{"moving", b.Name + " may get another url, once, until " + clock(b.MayMove.At.Add(24*time.Hour)) + ", by " + b.MayMove.By})
		}
	}
	if c := s.Clock; c != nil && c.Stepped {
		lines = append(lines, [2]string{"clock", "the machine's is " + clock(c.Machine()) + ", the store knows " + clock(c.Store) + ": nothing is removed by the time; if the machine's is right, run billbridge store clock --confirm"})
	}
	if s.Reload != nil {
		lines = append(lines, [2]string{"last reload", "refused at " + clock(s.Reload.At) + ", the config before it runs: " + strings.ReplaceAll(s.Reload.Error, "\n", " ")})
	}
	return lines
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
		if made.Subject != "" { // a bill, or an upstream
			made.Partner = strings.TrimPrefix(made.Partner+" "+quoted(made.Subject), " ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", clock(made.At), made.By, made.Action, cmp.Or(made.Partner, "-"),
			cmp.Or(rollout.InWords(made.From, made.FromPercent), none), cmp.Or(rollout.InWords(made.To, made.ToPercent), none)+forced(made.Forced))
	}
	return w.Flush()
}
