package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/store"
)

type callbacksCommand struct {
	List    callbackList    `cmd:""`
	Show    callbackShow    `cmd:""`
	Missing callbackMissing `cmd:""`
	Replay  callbackReplay  `cmd:""`
	Drop    callbackDrop    `cmd:""`
	Assign  callbackAssign  `cmd:""`
}

// filterFlags select callbacks.
type filterFlags struct {
	Partner  given  `placeholder:"REF"`
	Bill     given  `placeholder:"ID"`
	Upstream given  `placeholder:"NAME"`
	Since    moment `placeholder:"TIME"`
	Until    moment `placeholder:"TIME"`
}

// filter returns the filter for package operate.
func (f *filterFlags) filter() operate.CallbackFilter {
	return operate.CallbackFilter{
		PartnerRef: operate.PartnerRef{Partner: reference(f.Partner)},
		Bill:       string(f.Bill), Upstream: string(f.Upstream),
		Since: f.Since.Time, Until: f.Until.Time,
	}
}

// A moment is a time, or a duration before now.
type moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) (err error) {
	if ago, err := time.ParseDuration(strings.TrimSuffix(string(text), " ago")); err == nil && ago >= 0 {
		m.Time = time.Now().Add(-ago).Truncate(time.Second)
		return nil
	}
	if m.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		err = fmt.Errorf("must be a duration such as 2h or a time such as 2026-11-21T09:00:00+09:00, but is %q", text)
	}
	return err
}

// A callbackID is the id of a callback. Another text as a part of a path could address another page of the admin
// listener.
type callbackID string

var callbackForm = regexp.MustCompile("^(cb_|" + store.MadePrefix + ")[0-9a-f]{32}$")

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *callbackID) UnmarshalText(text []byte) error {
	if *c = callbackID(text); !callbackForm.Match(text) {
		return fmt.Errorf("a callback id is cb_ and 32 hex digits, as callbacks list prints it, but this is %q", text)
	}
	return nil
}

type callbackList struct {
	adminFlags
	filterFlags
	State string `enum:",waiting,delivered,failed,dropped,superseded" default:"" placeholder:"STATE"`
	Limit int    `default:"100" placeholder:"N"`
	JSON  bool   `name:"json"`
}

// maxPage is the number of callbacks that one request to the admin listener returns.
const maxPage = 500

// Run lists callbacks, page by page.
func (c *callbackList) Run(ctx context.Context) error {
	if c.Limit < 0 {
		return usageError(fmt.Sprintf("--limit must not be negative, but is %d", c.Limit))
	}
	f := c.filter()
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
		if err := showRows(c.out, c.JSON, name, list.Callbacks); err != nil || list.Next == 0 {
			return err
		}
		left -= len(list.Callbacks)
		f.After = list.Next
	}
	return nil
}

type callbackShow struct {
	adminFlags
	ID   callbackID `arg:"" placeholder:"ID"`
	JSON bool       `name:"json"`
}

// Run shows a callback.
func (c *callbackShow) Run(ctx context.Context) error {
	return c.show(ctx, "/callbacks/"+string(c.ID), "callback", c.JSON, &operate.Callback{})
}

type callbackMissing struct {
	adminFlags
	Partner given `placeholder:"REF"`
	Limit   int   `default:"100" placeholder:"N"`
	JSON    bool  `name:"json"`
}

// Run lists missing callbacks.
func (c *callbackMissing) Run(ctx context.Context) error {
	var list operate.MissingList
	f := operate.MissingFilter{
		PartnerRef: operate.PartnerRef{Partner: reference(c.Partner)}, Limit: operate.AtMost(c.Limit),
	}
	if err := c.get(ctx, "/callbacks/missing", &list, f); err != nil {
		return err
	}
	err := showRows(c.out, c.JSON, "missing callbacks", list.Bills)
	if err == nil && list.LeftOut > 0 {
		printf(c.err, "%d more are not shown: raise --limit.\n", list.LeftOut)
	}
	return err
}

// selectFlags select the callbacks of a replay or a drop: one by its id, or the failed ones that a filter selects.
type selectFlags struct {
	decisionFlags
	filterFlags
	ID     callbackID `arg:"" optional:"" placeholder:"ID"`
	All    bool
	DryRun bool
}

type callbackReplay struct {
	selectFlags
	Force operate.Force `placeholder:"REASONS"`
}

// Run replays callbacks.
func (c *callbackReplay) Run(ctx context.Context) error {
	return c.change(ctx, "replay", "queued for delivery", operate.Choice{Force: c.Force})
}

type callbackDrop struct{ selectFlags }

// Run drops callbacks.
func (c *callbackDrop) Run(ctx context.Context) error {
	return c.change(ctx, "drop", "dropped", operate.Choice{})
}

// change replays or drops the selected callbacks. outcome is the participle for the output.
func (c *selectFlags) change(ctx context.Context, action, outcome string, decided operate.Choice) error {
	filter := c.filter()
	chosen := 0
	for _, one := range []bool{c.ID != "", filter != (operate.CallbackFilter{}), c.All} {
		if one {
			chosen++
		}
	}
	if chosen != 1 {
		return usageError("give one of: an id; filters (--partner, --bill, --upstream, --since, --until); or --all")
	}
	by, err := c.author(ctx)
	if err != nil {
		return err
	}
	decided.DryRun = c.DryRun
	last, err := c.await(ctx, path.Join("/callbacks", string(c.ID), action), decided, by, filter)
	switch {
	case err != nil && last.Done > 0:
		return fmt.Errorf("%d of %d failed callbacks %s, then: %w", last.Done, last.Of, outcome, err)
	case err != nil:
		return err
	}
	return show(c.out, "redelivery", struct {
		*selectFlags
		operate.Progress
		Outcome string
	}{c, last, outcome})
}

// await sends a change and shows its progress on a terminal. It returns the last state that the gateway reported.
func (c *selectFlags) await(ctx context.Context, path string, in ...any) (last operate.Progress, err error) {
	err = c.call(ctx, http.MethodPost, path, in, func(body io.Reader) error {
		steps := json.NewDecoder(body)
		for steps.More() {
			if err := steps.Decode(&last); err != nil {
				return err
			}
			if !last.Over {
				c.progressf("%d of %d", last.Done, last.Of)
			}
		}
		c.progressf("")
		return nil
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
	Lost string     `arg:"" placeholder:"LOST"`
	Like callbackID `required:"" placeholder:"ID"`
	URL  string     `name:"url" placeholder:"URL"`
}

// Run assigns an address.
func (c *callbackAssign) Run(ctx context.Context) error {
	if _, _, named := strings.Cut(c.Lost, "/"); !named {
		return usageError(fmt.Sprintf("the log names a lost address as new/8c21f6e0a94b, not %q", c.Lost))
	}
	lost := operate.LostAddress{Lost: c.Lost, URL: c.URL}
	v := verb{path: "/callbacks/" + string(c.Like) + "/assign", said: "nothing"}
	err := c.do(ctx, v, &operate.Callback{}, lost)
	if err == nil {
		printf(c.out, "Callbacks to the lost address %s are accepted when the backend sends them again.\n", c.Lost)
	}
	return err
}
