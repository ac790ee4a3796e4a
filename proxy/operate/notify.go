package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"billbridge/config"
	"billbridge/proxy/notify"
	"billbridge/proxy/relay"
)

// An EventTest sends examples of events.
type EventTest struct {
	Kind   string `json:"kind,omitzero"` // "" for all that a destination wants
	DryRun bool   `json:"dry_run,omitzero,string"`
}

// A SentExample is an example of an event for a destination.
type SentExample struct {
	To      string       `json:"to"` // without what may be secret in the URL
	Format  string       `json:"format"`
	Event   notify.Event `json:"event"`
	Words   string       `json:"words"`
	ID      string       `json:"id,omitempty"`      // by which it is listed as a callback
	Refused string       `json:"refused,omitempty"` // why the destination is never called
}

// TestEvents queues an example of each event for each destination that wants it.
func (o *Operator) TestEvents(ctx context.Context, t EventTest) (all []SentExample, err error) {
	c := o.Config()
	if len(c.Notify) == 0 {
		return nil, conflict("the config has no destination of events: see notify in config/README.md")
	}
	known := func(k notify.Kind) bool { return k.Name == t.Kind }
	if t.Kind != "" && !slices.ContainsFunc(notify.Kinds, known) {
		return nil, badRequest("there is no event %q", t.Kind)
	}
	for i := range c.Notify {
		for _, kind := range notify.Kinds {
			if to := &c.Notify[i]; to.Wants(kind.Name) && (t.Kind == "" || t.Kind == kind.Name) {
				one, err := o.testEvent(ctx, to, kind, t.DryRun)
				if err != nil {
					return nil, err
				}
				all = append(all, one)
			}
		}
	}
	return all, nil
}

func (o *Operator) testEvent(
	ctx context.Context, to *config.Destination, kind notify.Kind, dryRun bool,
) (one SentExample, err error) {
	e := notify.Event{Type: kind.Type(), Timestamp: o.Now().UTC(), Test: true, Data: kind.Example}
	one = SentExample{To: to.Host(), Format: to.Format, Event: e, Words: e.Sentence()}
	if dryRun {
		return one, nil
	}
	one.ID, err = notify.Queue(ctx, o.Relay, to, e, "test", rand.Text())
	if wrong := (*relay.Wrong)(nil); errors.As(err, &wrong) {
		one.ID, one.Refused, err = "", wrong.Text, nil
	}
	return one, err
}
