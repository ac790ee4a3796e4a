package operate

import (
	"context"
	"crypto/rand"

	"billbridge/proxy/notify"
)

// An EventTest sends examples of events.
type EventTest struct {
	Kind   string `json:"kind,omitzero"` // "" for all that a destination wants
	DryRun bool   `json:"dry_run,omitzero,string"`
}

// A SentExample is an example of an event for a destination.
type SentExample struct {
	To     string       `json:"to"` // without what may be secret in the URL
	Format string       `json:"format"`
	ID     string       `json:"id,omitempty"` // by which it is listed as a callback
	Event  notify.Event `json:"event"`
}

// TestEvents queues an example of each event for each destination that wants it.
func (o callbackVerbs) TestEvents(ctx context.Context, t EventTest) (all []SentExample, err error) {
	c := o.Config()
	for i := range c.Notify {
		to := &c.Notify[i]
		for _, kind := range notify.Kinds() {
			if !to.Wants(kind.Name) || t.Kind != "" && t.Kind != kind.Name {
				continue
			}
			one := SentExample{To: to.Host(), Format: to.Format, Event: kind.Event(o.Now())}
			if !t.DryRun {
				if one.ID, err = notify.Queue(ctx, o.Relay, to, one.Event, rand.Text()); err != nil {
					return nil, err
				}
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, conflict("no destination in the config (notify) gets such an event")
	}
	return all, nil
}
