package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"billbridge/proxy/relay"
)

type callbacksCommand struct {
	List   callbackList   `cmd:"" help:"List callbacks, the newest first."`
	Show   callbackShow   `cmd:"" help:"Show one callback: where it goes and what came of each attempt."`
	Replay callbackReplay `cmd:"" help:"Have dead callbacks delivered again, under the ids they have."`
	Drop   callbackDrop   `cmd:"" help:"Give up dead callbacks for good."`
	Audit  callbackAudit  `cmd:"" help:"Show who had callbacks delivered again, or gave them up."`
}

// filterFlags say which callbacks are meant. One that is given empty is no filter but a mistake, a variable that is not
// set in a script say: taken for none, it would have more callbacks replayed or dropped than were meant.
type filterFlags struct {
	Partner  *string `placeholder:"REF" help:"Of this partner: at least the first 12 hex digits of the SHA-256 of its key, as logs and reports name it."`
	Bill     *string `placeholder:"ID" help:"Of this bill."`
	Upstream *string `placeholder:"NAME" help:"Of this upstream."`
	Since    *string `placeholder:"TIME" help:"Received since then: 2h for two hours ago, or 2026-11-21T09:00:00+09:00."`
	Until    *string `placeholder:"TIME" help:"Received before then."`
}

// query is the filter as the admin listener reads it.
func (f *filterFlags) query(now time.Time) (url.Values, error) {
	q := url.Values{}
	for key, value := range map[string]*string{"partner": f.Partner, "bill": f.Bill, "upstream": f.Upstream} {
		if value == nil {
			continue
		}
		if *value == "" {
			return nil, usageError(fmt.Sprintf("--%s is empty", key))
		}
		q.Set(key, *value)
	}
	for key, value := range map[string]*string{"since": f.Since, "until": f.Until} {
		if value == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, *value)
		if ago, wrong := time.ParseDuration(strings.TrimSuffix(*value, " ago")); wrong == nil && ago >= 0 {
			at, err = now.Add(-ago), nil
		}
		if err != nil {
			return nil, usageError(fmt.Sprintf("--%s must be like 2h or 2026-11-21T09:00:00+09:00, but is %q", key, *value))
		}
		q.Set(key, at.Format(time.RFC3339))
	}
	return q, nil
}

type callbackList struct {
	adminFlags
	filterFlags
	State string `enum:",waiting,delivered,dead,dropped" default:"" placeholder:"STATE" help:"waiting, delivered, dead or dropped."`
	Limit int    `default:"100" placeholder:"N" help:"At most so many (${default}); 0 for all."`
	JSON  bool   `name:"json" help:"One JSON object a line instead of a table."`
}

// Help implements kong's detailed help.
func (callbackList) Help() string {
	return examples("billbridge callbacks list --state dead", "billbridge callbacks list --partner 6e2b0f4cd1aa --since 24h --json")
}

const pageOf = 500

// Run lists, page by page.
func (c *callbackList) Run(ctx context.Context, s surroundings) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	if c.Limit < 0 {
		return usageError(fmt.Sprintf("--limit must not be negative, but is %d", c.Limit))
	}
	if c.State != "" {
		q.Set("state", c.State)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "RECEIVED\tSTATE\tATTEMPTS\tLAST\tUPSTREAM\tPARTNER\tBILL\tID")
	}
	for shown := 0; c.Limit == 0 || shown < c.Limit; {
		page := pageOf
		if c.Limit > 0 {
			page = min(page, c.Limit-shown)
		}
		q.Set("limit", strconv.Itoa(page))
		var list []relay.Listed
		if err := c.get(ctx, "/callbacks?"+q.Encode(), &list); err != nil {
			return err
		}
		for _, l := range list {
			if c.JSON {
				if err := json.NewEncoder(s.out).Encode(l); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", clock(l.Received), l.State, l.Attempts, lastOf(l), l.Upstream, l.Partner, quoted(cmp.Or(l.Bill, "-")), l.ID)
		}
		if shown += len(list); len(list) < page {
			break
		}
		q.Set("after", strconv.FormatInt(list[len(list)-1].Cursor, 10))
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return w.Flush()
}

// lastOf is what came of the last attempt.
func lastOf(l relay.Listed) string {
	if l.Status == 0 {
		return cmp.Or(l.Outcome, "-")
	}
	return l.Outcome + " " + strconv.Itoa(l.Status)
}

func clock(t time.Time) string { return t.Local().Format(time.RFC3339) }

type callbackShow struct {
	adminFlags
	ID   string `arg:"" placeholder:"ID" help:"As callbacks list shows it; the webhook-id of every attempt."`
	JSON bool   `name:"json" help:"JSON instead of lines."`
}

// Help implements kong's detailed help.
func (callbackShow) Help() string {
	return examples("billbridge callbacks show cb_00112233445566778899aabbccddeeff") +
		"\n\nThe body is not shown: it names the partner's key and the payer's card."
}

// Run shows one.
func (c *callbackShow) Run(ctx context.Context, s surroundings) error {
	if err := checkID(c.ID); err != nil {
		return err
	}
	var l relay.Listed
	if err := c.get(ctx, "/callbacks/"+url.PathEscape(c.ID), &l); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(l)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, value) }
	line("id", l.ID)
	line("received", clock(l.Received))
	line("from", l.Upstream)
	line("partner", l.Partner+", in the "+l.Form+" form")
	line("bill", quoted(cmp.Or(l.Bill, "-")))
	line("goes to", l.Address)
	line("state", l.State)
	line("attempts", strconv.Itoa(l.Attempts))
	if l.LastAt != nil {
		line("last", clock(*l.LastAt)+", "+lastOf(l))
	}
	if l.Next != nil {
		line("next", clock(*l.Next))
	}
	line("body", fmt.Sprintf("%d bytes, %s, not shown; the upstream's has SHA-256 %s", l.Size, l.Type, l.Digest))
	if err := w.Flush(); err != nil || len(l.History) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nATTEMPT\tENDED\tTOOK\tSTATUS\tCODE\tRESULT")
	for _, a := range l.History {
		status := "-"
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		fmt.Fprintf(w, "%d\t%s\t%.3fs\t%s\t%s\t%s\n", a.Number, clock(a.At), a.Took, status, cmp.Or(a.Code, "-"), cmp.Or(a.Reason, a.Outcome))
	}
	return w.Flush()
}

// checkID refuses what is no id of a callback: as part of a path, it could mean another page of the admin listener.
func checkID(id string) error {
	if digits, ok := strings.CutPrefix(id, "cb_"); !ok || len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return usageError(fmt.Sprintf("an id is cb_ and 32 hex digits, as callbacks list shows it, but is %q", id))
	}
	return nil
}

// chosen are the callbacks that a decision is about: one by its id, or all dead ones that a filter means.
type chosen struct {
	decisionFlags
	filterFlags
	ID     *string `arg:"" optional:"" placeholder:"ID" help:"This one."`
	All    bool    `help:"All dead ones, of every partner."`
	DryRun bool    `help:"Say how many are meant, and change nothing."`
}

type callbackReplay struct{ chosen }

// Help implements kong's detailed help.
func (callbackReplay) Help() string {
	return examples("billbridge callbacks replay --partner 6e2b0f4cd1aa --since 24h --by kim --dry-run", "billbridge callbacks replay cb_00112233445566778899aabbccddeeff",
		"billbridge callbacks replay --all") + "\n\nBy its id a delivered one can be replayed, too. The partner knows it by its webhook-id."
}

// Run replays.
func (c *callbackReplay) Run(ctx context.Context, s surroundings) error {
	return c.decide(ctx, s, "replay", "to be delivered again", "would be delivered again")
}

type callbackDrop struct{ chosen }

// Help implements kong's detailed help.
func (callbackDrop) Help() string {
	return examples("billbridge callbacks drop --bill A1B2C3D4E5F6G7H8I9J0", "billbridge callbacks drop cb_00112233445566778899aabbccddeeff")
}

// Run drops.
func (c *callbackDrop) Run(ctx context.Context, s surroundings) error {
	return c.decide(ctx, s, "drop", "dropped", "would be dropped")
}

// decide has the gateway do it. outcome says what became of the callbacks, would what a dry run shows.
func (c *chosen) decide(ctx context.Context, s surroundings, what, outcome, would string) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	switch filtered := len(q) > 0; {
	case c.ID != nil && (filtered || c.All), c.All && filtered:
		return usageError("name one callback by its id, or several by --partner, --bill, --upstream, --since and --until, or --all of them")
	case c.ID == nil && !filtered && !c.All:
		return usageError("say which: an id, --partner, --bill, --upstream, --since, --until, or --all dead ones")
	case c.ID != nil:
		if err := checkID(*c.ID); err != nil {
			return err
		}
	}
	if c.DryRun {
		q.Set("dry_run", "true")
	} else {
		by, err := c.decider(s)
		if err != nil {
			return err
		}
		q.Set("by", by)
	}
	if c.ID != nil {
		if err := c.call(ctx, http.MethodPost, "/callbacks/"+url.PathEscape(*c.ID)+"/"+what+"?"+q.Encode(), nil); err != nil {
			return err
		}
		if c.DryRun {
			outcome = would
		}
		fmt.Fprintf(s.out, "1 callback %s.\n", outcome)
		return nil
	}
	last := relay.Progress{}
	err = c.call(ctx, http.MethodPost, "/callbacks/"+what+"?"+q.Encode(), func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
				return err
			}
			if s.terminal && !last.Over {
				fmt.Fprintf(s.err, "\r%d of %d", last.Done, last.Of)
			}
		}
		if s.terminal {
			fmt.Fprint(s.err, "\r\x1b[K")
		}
		return lines.Err()
	})
	switch {
	case err == nil && last.Error != "":
		err = errors.New(last.Error)
	case err == nil && !last.Over:
		err = errors.New("the gateway went away")
	}
	if err != nil && last.Done > 0 {
		return fmt.Errorf("%d of %d dead callbacks %s, then: %w", last.Done, last.Of, outcome, err)
	}
	if err != nil {
		return err
	}
	n := last.Done
	if c.DryRun {
		n, outcome = last.Of, would
	}
	noun := "callbacks"
	if n == 1 {
		noun = "callback"
	}
	fmt.Fprintf(s.out, "%d dead %s %s.\n", n, noun, outcome)
	return nil
}

type callbackAudit struct {
	adminFlags
	Limit int  `default:"100" placeholder:"N" help:"At most so many (${default}); up to 10000."`
	JSON  bool `name:"json" help:"One JSON object a line instead of a table."`
}

// Help implements kong's detailed help.
func (callbackAudit) Help() string {
	return examples("billbridge callbacks audit", "billbridge callbacks audit --limit 1000 --json") +
		"\n\nWhere there is a rollout, billbridge rollout audit lists these changes among its own."
}

// Run lists decisions.
func (c *callbackAudit) Run(ctx context.Context, s surroundings) error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return usageError(fmt.Sprintf("--limit must be 1 to 10000, but is %d", c.Limit))
	}
	var log []relay.Decided
	if err := c.get(ctx, "/callbacks/audit?limit="+strconv.Itoa(c.Limit), &log); err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "AT\tBY\tACTION\tPARTNER\tWERE\tCALLBACKS")
	}
	for _, d := range log {
		if c.JSON {
			if err := json.NewEncoder(s.out).Encode(d); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", clock(d.At), d.By, d.Action, cmp.Or(d.Partner, "-"), d.From, quoted(d.What))
	}
	return w.Flush()
}
