package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/store"
)

type rolloutStatus struct {
	adminFlags
	partnerFlags
	Limit int  `default:"100" placeholder:"N" help:"The maximum number of partners (${default}); 0 for all."`
	JSON  bool `name:"json" help:"Print JSON instead of a table."`
}

// Help implements kong's detailed help.
func (rolloutStatus) Help() string {
	return examples("billbridge rollout status", "billbridge rollout status --key-file partner.key --json") +
		"\n\nThe column BILLS counts bills in the ledger. The ledger does not have bills that were created before the gateway was in use."
}

// Run shows the status.
func (c *rolloutStatus) Run(ctx context.Context, s system) error {
	if c.Limit < 0 {
		return usageError(fmt.Sprintf("--limit must not be negative, but is %d", c.Limit))
	}
	partner, err := c.ref()
	if err != nil {
		return err
	}
	status, err := c.pages(ctx, partner)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(status)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	printRollout(w, status)
	if err := w.Flush(); err != nil || len(status.Partners) == 0 {
		return err
	}
	printPartners(w, status)
	if err := w.Flush(); err != nil || status.Next == "" {
		return err
	}
	return printfErr(s.out, "There are more partners than these %d. To print all, add --limit 0.\n", len(status.Partners))
}

// pages gets the status with the partners of as many pages as are wanted.
func (c *rolloutStatus) pages(ctx context.Context, partner operate.PartnerRef) (all operate.Status, err error) {
	all.Partners = []operate.PartnerStatus{} // a list in JSON, also when it is empty
	for {
		page := maxPage
		if c.Limit > 0 {
			page = min(page, c.Limit-len(all.Partners))
		}
		var status operate.Status
		p := operate.Page{PartnerRef: partner, After: all.Next, Limit: operate.AtMost(page)}
		if err := c.get(ctx, "/rollout", p, &status); err != nil {
			return all, err
		}
		status.Partners = append(all.Partners, status.Partners...)
		status.Uncounted = cmp.Or(all.Uncounted, status.Uncounted)
		if all = status; all.Next == "" || c.Limit > 0 && len(all.Partners) >= c.Limit {
			return all, nil
		}
	}
}

// printRollout prints what concerns all partners.
func printRollout(w *tabwriter.Writer, status operate.Status) {
	backend := func(name string) string {
		for _, b := range status.Backends {
			if b.Name == name {
				return name + ", " + b.URL
			}
		}
		return name
	}
	declared := func(d *operate.Declared, effect string) string {
		if d == nil {
			return "-"
		}
		return formatTime(d.At) + " by " + d.By + ": " + effect
	}
	lines := [][2]string{
		{"old backend", backend(status.Old)},
		{"new backend", backend(status.New)},
		{"bills", status.Bills},
		{"canary", "splits by " + status.Split + "; a bill stays at its owner"},
		{"settling period", status.Settle},
		{"stopped", declared(status.Stopped, "new bills are created at "+status.Old)},
		{"restored", declared(status.Restored, restoredBy(status.Restored)+"both backends are probed for bills that are not in the ledger")},
	}
	lines = append(lines, begunLines(status)...)
	lines = append(lines, [2]string{"default stage", stageText(status.Default)})
	if e := status.Default.Effect; e != nil {
		lines = append(lines, [2]string{"", "at the new backend: " + e.String()})
	}
	for _, line := range append(lines, noticeLines(status)...) {
		printf(w, "%s\t%s\n", line[0], line[1])
	}
}

// printPartners prints one row per partner.
func printPartners(w *tabwriter.Writer, status operate.Status) {
	if status.Uncounted != "" {
		printf(w, "\nThe bills are not counted: %s.\n", status.Uncounted)
	}
	printf(w, "\nPARTNER\tSTAGE\tSEEN SINCE\tBILLS\tCANARY AT THE NEW BACKEND\n")
	for _, p := range status.Partners {
		stage, seen := stageText(p.StageSetting), "-"
		if p.Default {
			stage = p.String() + ", the default"
		}
		if p.Seen != nil {
			seen = formatTime(*p.Seen)
			if !p.Settled {
				seen += ", not settled"
			}
		}
		effect := "-"
		if p.Effect != nil {
			effect = p.Effect.String()
		}
		printf(w, "%s\t%s\t%s\t%s\t%s\n", operate.Label(p.Partner, p.Name), stage, seen, billCounts(p.Bills), effect)
	}
}

// begunLines report whether the rollout has begun on this store, and what to do if not.
func begunLines(s operate.Status) [][2]string {
	switch {
	case s.Begun != nil:
		return [][2]string{{"begun", formatTime(s.Begun.At) + " by " + s.Begun.By}}
	case s.Started == nil:
		return [][2]string{{"begun", "-"}}
	}
	return [][2]string{
		{"begun", "no, the store is new since " + formatTime(*s.Started) + ": both backends are probed for every bill that is not in the ledger"},
		{"", "if the new backend has no bills of these partners, run billbridge rollout begin"},
		{"", "if there was a store before, restore it from its backup"},
	}
}

// noticeLines report what may need an action of the operator.
func noticeLines(s operate.Status) (lines [][2]string) {
	if s.RefusedUntil != nil {
		lines = append(lines, [2]string{"new bills", "refused until " + formatTime(*s.RefusedUntil) + ": a create that is not in the ledger may still be under way"})
	}
	if s.Store != "" {
		lines = append(lines, [2]string{"store", "it cannot be written to: " + s.Store})
	}
	if s.Unstored {
		lines = append(lines, [2]string{"not stored", "only this gateway is stopped, because the store did not record it; the gateway retries every second"})
	}
	for _, b := range s.Backends {
		if b.MayMove != nil {
			lines = append(lines, [2]string{"moving", "the url of " + b.Name + " may change once until " + formatTime(b.MayMove.At.Add(24*time.Hour)) + ", allowed by " + b.MayMove.By})
		}
	}
	if c := s.Clock; c != nil && c.Stepped {
		lines = append(lines, [2]string{"clock", "the machine's is " + formatTime(c.Machine()) + ", the store's is " + formatTime(c.Store) + ": expired rows are not removed; if the machine's is right, run billbridge store clock --confirm"})
	}
	if s.Reload != nil {
		lines = append(lines, [2]string{"last reload", "refused at " + formatTime(s.Reload.At) + ", the config before it is in use: " + strings.ReplaceAll(s.Reload.Error, "\n", " ")})
	}
	return lines
}

// stageText describes a stage and who set it.
func stageText(p operate.StageSetting) string {
	if p.At == nil {
		return p.String() + ", from the config"
	}
	return p.String() + forcedSuffix(p.Forced) + ", " + formatTime(*p.At) + " by " + p.By
}

// billCounts describes how many bills of each backend may be open.
func billCounts(held []operate.BillCounts) string {
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

// restoredBy is what happened if no operator has declared the store restored.
func restoredBy(d *operate.Declared) string {
	if d != nil && d.By == store.ByFailOver {
		return "the store lacks acknowledged writes, or may lack some; "
	}
	return ""
}
