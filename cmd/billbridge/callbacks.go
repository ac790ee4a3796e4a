package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"billbridge/proxy/operate"
)

type callbacksCommand struct {
	List   callbackList   `cmd:"" help:"List callbacks, the newest first."`
	Show   callbackShow   `cmd:"" help:"Show one callback and its attempts."`
	Replay callbackReplay `cmd:"" help:"Deliver failed callbacks (state dead) again, with the same ids."`
	Drop   callbackDrop   `cmd:"" help:"Drop failed callbacks (state dead) for good."`
	Assign callbackAssign `cmd:"" help:"Choose the partner's address for a callback address that the store has lost."`
	Audit  auditCommand   `cmd:"" help:"List who changed what, the last change first. The same as billbridge audit."`
}

// filterFlags select callbacks. An empty value is an error and not "no filter": a script whose variable is not set would
// otherwise replay or drop too many callbacks.
type filterFlags struct {
	Partner  *string `placeholder:"REF" help:"Only callbacks of this partner: at least the first 12 hex digits of the SHA-256 of its key, as in logs and reports."`
	Bill     *string `placeholder:"ID" help:"Only callbacks of this bill."`
	Upstream *string `placeholder:"NAME" help:"Only callbacks from this upstream."`
	Since    *string `placeholder:"TIME" help:"Only callbacks received since then: 2h for two hours ago, or 2026-11-21T09:00:00+09:00."`
	Until    *string `placeholder:"TIME" help:"Only callbacks received before then."`
}

// filter returns the filter for package operate.
func (f *filterFlags) filter(now time.Time) (filter operate.CallbackFilter, err error) {
	for key, text := range map[string]struct{ from, to *string }{
		"partner": {f.Partner, &filter.Partner}, "bill": {f.Bill, &filter.Bill}, "upstream": {f.Upstream, &filter.Upstream},
	} {
		if text.from == nil {
			continue
		}
		if *text.to = *text.from; *text.to == "" {
			return filter, usageError(fmt.Sprintf("--%s is empty", key))
		}
	}
	if filter.Since, err = momentOf("since", f.Since, now); err == nil {
		filter.Until, err = momentOf("until", f.Until, now)
	}
	return filter, err
}

// momentOf returns the time of a flag: a time, or a duration before now.
func momentOf(key string, text *string, now time.Time) (at time.Time, err error) {
	if text == nil {
		return at, nil
	}
	if ago, err := time.ParseDuration(strings.TrimSuffix(*text, " ago")); err == nil && ago >= 0 {
		return now.Add(-ago).Truncate(time.Second), nil
	}
	if at, err = time.Parse(time.RFC3339, *text); err != nil {
		err = usageError(fmt.Sprintf("--%s must be a duration such as 2h or a time such as 2026-11-21T09:00:00+09:00, but is %q", key, *text))
	}
	return at, err
}

type callbackList struct {
	adminFlags
	filterFlags
	State string `enum:",waiting,delivered,dead,dropped" default:"" placeholder:"STATE" help:"Only callbacks in this state: waiting, delivered, dead (failed, no more attempts) or dropped."`
	Limit int    `default:"100" placeholder:"N" help:"The maximum number of rows (${default}); 0 for all."`
	JSON  bool   `name:"json" help:"Print one JSON object per line instead of a table."`
}

// maxPage is the number of callbacks that one request to the admin listener returns.
const maxPage = 500

// Run lists callbacks, page by page.
func (c *callbackList) Run(ctx context.Context, s system) error {
	f, err := c.filter(time.Now())
	if err != nil {
		return err
	}
	if c.Limit < 0 {
		return usageError(fmt.Sprintf("--limit must not be negative, but is %d", c.Limit))
	}
	f.State = c.State
	name := "callbacks"
	for left := c.Limit; c.Limit == 0 || left > 0; name = "more callbacks" {
		page := maxPage
		if c.Limit > 0 {
			page = min(page, left)
		}
		f.Limit = operate.AtMost(page)
		var list operate.CallbackPage
		if err := c.get(ctx, "/callbacks", &list, f); err != nil {
			return err
		}
		if err := showRows(s.out, c.JSON, name, list.Callbacks); err != nil || list.Next == 0 {
			return err
		}
		left -= len(list.Callbacks)
		f.After = list.Next
	}
	return nil
}

type callbackShow struct {
	adminFlags
	ID   string `arg:"" placeholder:"ID" help:"The id of the callback, as callbacks list prints it. It is the webhook-id of every attempt."`
	JSON bool   `name:"json" help:"Print JSON instead of lines."`
}

// Run shows a callback.
func (c *callbackShow) Run(ctx context.Context, s system) error {
	if err := checkCallbackID(c.ID); err != nil {
		return err
	}
	var l operate.Callback
	if err := c.get(ctx, "/callbacks/"+c.ID, &l); err != nil {
		return err
	}
	return showOrJSON(s.out, c.JSON, "callback", l)
}

// checkCallbackID rejects what is not the id of a callback. As a part of a path it could address another page of the admin
// listener.
func checkCallbackID(id string) error {
	if digits, ok := strings.CutPrefix(id, "cb_"); !ok || len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return usageError(fmt.Sprintf("a callback id is cb_ and 32 hex digits, as callbacks list prints it, but this is %q", id))
	}
	return nil
}

// selectFlags select the callbacks of a replay or a drop: one by its id, or the failed ones that a filter selects.
type selectFlags struct {
	decisionFlags
	filterFlags
	ID     *string `arg:"" optional:"" placeholder:"ID" help:"The id of one callback."`
	All    bool    `help:"All failed callbacks of all partners."`
	DryRun bool    `help:"Print how many callbacks are selected, and change nothing."`
}

type callbackReplay struct{ selectFlags }

// Run replays callbacks.
func (c *callbackReplay) Run(ctx context.Context, s system) error {
	return c.change(ctx, s, "replay", "queued for delivery")
}

type callbackDrop struct{ selectFlags }

// Run drops callbacks.
func (c *callbackDrop) Run(ctx context.Context, s system) error {
	return c.change(ctx, s, "drop", "dropped")
}

// change replays or drops the selected callbacks. outcome is the participle for the output.
func (c *selectFlags) change(ctx context.Context, s system, action, outcome string) error {
	selection, err := c.selection(ctx, s)
	if err != nil {
		return err
	}
	printed := outcome
	if c.DryRun {
		printed = "would be " + outcome
	}
	if c.ID != nil {
		if err := c.send(ctx, http.MethodPost, "/callbacks/"+*c.ID+"/"+action, nil, selection.Redelivery); err != nil {
			return err
		}
		printf(s.out, "1 callback %s.\n", printed)
		return nil
	}
	last, err := c.changeFailed(ctx, s, "/callbacks/"+action, selection)
	if err != nil && last.Done > 0 {
		return fmt.Errorf("%d of %d failed callbacks %s, then: %w", last.Done, last.Of, outcome, err)
	}
	if err != nil {
		return err
	}
	n := last.Done
	if c.DryRun {
		n = last.Of
	}
	noun := "callbacks"
	if n == 1 {
		noun = "callback"
	}
	printf(s.out, "%d failed %s %s.\n", n, noun, printed)
	return nil
}

// selection checks the flags and returns them for package operate.
func (c *selectFlags) selection(ctx context.Context, s system) (selected operate.Selection, err error) {
	if selected.CallbackFilter, err = c.filter(time.Now()); err != nil {
		return selected, err
	}
	switch filtered := selected.CallbackFilter != (operate.CallbackFilter{}); {
	case c.ID != nil && (filtered || c.All), c.All && filtered, c.ID == nil && !filtered && !c.All:
		return selected, usageError("give one of: an id; filters (--partner, --bill, --upstream, --since, --until); or --all")
	case c.ID != nil:
		if err := checkCallbackID(*c.ID); err != nil {
			return selected, err
		}
	}
	if selected.DryRun = c.DryRun; c.DryRun {
		return selected, nil
	}
	selected.Author, err = c.author(ctx, s)
	return selected, err
}

// changeFailed sends the change and shows its progress on a terminal. It returns the last state that the gateway reported.
func (c *selectFlags) changeFailed(
	ctx context.Context, s system, path string, selected operate.Selection,
) (last operate.Progress, err error) {
	err = c.call(ctx, http.MethodPost, path, []any{selected}, func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
				return err
			}
			if s.terminal && !last.Over {
				fmt.Fprintf(s.progress, "\r%d of %d", last.Done, last.Of)
			}
		}
		if s.terminal {
			fmt.Fprint(s.progress, "\r\x1b[K")
		}
		return lines.Err()
	})
	switch {
	case err == nil && last.Error != "":
		err = errors.New(last.Error)
	case err == nil && !last.Over:
		err = errors.New("the gateway closed the connection before the end")
	}
	return last, err
}

type callbackAssign struct {
	decisionFlags
	Lost string `arg:"" placeholder:"LOST" help:"The lost address, as the log names it."`
	Like string `required:"" placeholder:"ID" help:"A callback of the same partner: callbacks to LOST go where it went."`
	URL  string `name:"url" placeholder:"URL" help:"They go to this address of that partner instead."`
}

// Run assigns an address.
func (c *callbackAssign) Run(ctx context.Context, s system) error {
	if err := checkCallbackID(c.Like); err != nil {
		return err
	}
	if _, _, named := strings.Cut(c.Lost, "/"); !named {
		return usageError(fmt.Sprintf("the log names a lost address as new/8c21f6e0a94b, not %q", c.Lost))
	}
	by, err := c.author(ctx, s)
	if err != nil {
		return err
	}
	err = c.send(ctx, http.MethodPost, "/callbacks/"+c.Like+"/assign", nil, operate.LostAddress{Lost: c.Lost, URL: c.URL}, by)
	if err == nil {
		printf(s.out, "Callbacks to the lost address %s are accepted when the backend sends them again.\n", c.Lost)
	}
	return err
}
