// Package notify tells people and systems what happens: the events of [Kinds], to the destinations of
// [config.Config.Notify].
//
//	n := notify.New(notify.Options{Config: gateway.Config, Store: opened, Relay: relay, Rollout: router})
//	go n.Run(ctx)
//
// Every gateway looks in the store for what has happened, and offers it to the relay, which stores each event once, by
// its id, and delivers it as a callback. So no gateway need lead, and none need remember what it has told.
package notify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/rollout/wave"
	"billbridge/proxy/store"
)

const (
	lookEvery = 5 * time.Second
	// beforeStart is how far back the first look goes.
	beforeStart = time.Hour
	// overlap is how much of the time before a look it repeats: clocks differ, and a row is committed after its time.
	overlap = 5 * time.Minute
)

// Options are what a notifier works with.
type Options struct {
	Config       func() *config.Config // the config in force
	Store        *store.Store
	Relay        *relay.Relay
	Rollout      *rollout.Router                                   // nil if the config has none
	Certificates func(each func(end time.Time, kind, name string)) // if nil, there are none
	Logger       *slog.Logger
	Now          func() time.Time // if nil, time.Now
}

// A Notifier finds what has happened.
type Notifier struct {
	Options
	from  time.Time       // of the next look
	known map[string]bool // the ids of the last look
}

// New returns a notifier.
func New(o Options) *Notifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Notifier{Options: o, from: o.Now().Add(-beforeStart)}
}

// Run tells until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := n.Look(ctx); err != nil && ctx.Err() == nil {
			n.Logger.Error("events could not be queued; the gateway tries again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// An event is what is told, with what it is about: events about the same are delivered in their order.
type event struct {
	Event
	kind, about string
	identity    []any // events that are equal in these are the same
}

// Look queues what has happened since the last look.
func (n *Notifier) Look(ctx context.Context) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	now, c := n.Now(), n.Config()
	if len(c.Notify) == 0 {
		n.from = now.Add(-beforeStart)
		return nil
	}
	events, err := n.found(ctx, c, now)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range c.Notify {
		to := &c.Notify[i]
		for _, e := range events {
			id := idOf(to, e.Type, e.identity...)
			if !to.Wants(e.kind) || known[id] {
				continue
			}
			if known[id] = true; n.known[id] {
				continue
			}
			if err := n.queue(ctx, to, e); err != nil {
				return err
			}
		}
	}
	n.known, n.from = known, now.Add(-overlap)
	return nil
}

// queue queues an event, unless its destination is never called, which is logged.
func (n *Notifier) queue(ctx context.Context, to *config.Destination, e event) error {
	_, err := Queue(ctx, n.Relay, to, e.Event, e.about, e.identity...)
	if wrong := (*relay.Wrong)(nil); errors.As(err, &wrong) {
		n.Logger.Error("an event was not queued: its destination is never called from here", "type", e.Type,
			"to", to.Host(), "reason", wrong.Text)
		return nil
	}
	return err
}

// Queue queues an event for a destination, after earlier ones about the same, and returns its id. Events of a type that
// are equal in their identity are queued once.
func Queue(
	ctx context.Context, r *relay.Relay, to *config.Destination, e Event, about string, identity ...any,
) (id string, err error) {
	id = idOf(to, e.Type, identity...)
	return id, r.Queue(ctx, to, id, idOf(to, "order", about), e.body(to.Format == config.Slack))
}

// idOf returns the id of an event for a destination: equal identities have equal ids.
func idOf(to *config.Destination, of string, identity ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", to.URL.Reveal(), of, fmt.Sprintln(identity...)))
	return fmt.Sprintf("%s%x", store.EventPrefix, sum[:16])
}

// found returns what has happened, in its order, and what is the case now.
func (n *Notifier) found(ctx context.Context, c *config.Config, now time.Time) (all []event, err error) {
	add := func(kind, about string, at time.Time, d Data, identity ...any) {
		e := Event{Type: Kind{Name: kind}.Type(), Timestamp: at.UTC(), Data: d}
		all = append(all, event{e, kind, kind + " " + about, identity})
	}
	for after, more := int64(0), true; more; {
		page := store.AuditFilter{
			Actions: []store.Action{store.Staged, store.WaveChanged, store.Stopped, store.Resumed, store.Restored},
			Since:   n.from, OldestFirst: true, After: after, Limit: 1000,
		}
		log, err := n.Store.Audit(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, entry := range log {
			kind, about, d := ofEntry(entry)
			if d.Revision = entry.Revision; entry.Partner != "" {
				d.Partner, d.Name = entry.Partner.Short(), c.Partners.Name(string(entry.Partner))
			}
			add(kind, about, entry.At, d, entry.Revision)
			after = entry.Revision
		}
		more = len(log) == page.Limit
	}
	unclear := [2]time.Time{}
	if n.Rollout != nil {
		s := n.Rollout.Settings()
		unclear = [2]time.Time{s.UnclearBefore(n.from), s.UnclearBefore(now)}
	}
	happened, err := n.Store.Happened(ctx, n.from, unclear, config.NotifyUpstream)
	if err != nil {
		return nil, err
	}
	for _, h := range happened {
		d := Data{Upstream: h.Upstream, Callback: h.Callback}
		switch h.Kind {
		case "dead":
			d.Reason = h.Word
		case "missing":
			d.To = h.Word
		default:
			d.Operation = h.Word
		}
		d.Partner, d.Name = h.Partner.Short(), c.Partners.Name(string(h.Partner))
		add(h.Kind, d.Partner, h.At, d, h.Partner, h.At.Unix()/3600) // a storm is not told row by row
	}
	if n.Certificates != nil {
		n.Certificates(func(end time.Time, kind, name string) {
			for _, within := range []time.Duration{0, 7 * 24 * time.Hour, 21 * 24 * time.Hour} {
				if end.Sub(now) <= within {
					name = kind + " " + name
					add("certificate", name, now, Data{Certificate: name, Ends: end.UTC()}, name, end.Unix(), within)
					return
				}
			}
		})
	}
	return all, n.failing(ctx, c, now, add)
}

// failing adds the verdicts that are FAIL. A verdict is the same until its counts start again.
func (n *Notifier) failing(
	ctx context.Context, c *config.Config, now time.Time,
	add func(kind, about string, at time.Time, d Data, identity ...any),
) error {
	if n.Rollout == nil || len(n.Rollout.Failed()) == 0 {
		return nil
	}
	reset := map[partner.ID]int64{}
	log, err := n.Store.Audit(ctx, store.AuditFilter{Actions: []store.Action{store.Reset}, Limit: 1000})
	if err != nil {
		return err
	}
	for _, entry := range log {
		reset[entry.Partner] = max(reset[entry.Partner], entry.Revision)
	}
	for _, v := range n.Rollout.Failed() {
		d := Data{
			Partner: v.Partner.Short(), Name: c.Partners.Name(string(v.Partner)), Operation: v.Operation,
			Reason: string(v.Evidence), To: string(evidence.Fail),
		}
		version := ""
		if o := c.Table.Operation(v.Operation); o != nil {
			version = o.Version()
		}
		add("verdict", d.Partner, now, d, v.Partner, v.Operation, v.Evidence, version,
			max(reset[v.Partner], reset[""]))
	}
	return nil
}

// ofEntry returns the event of an entry of the audit log, without its partner.
func ofEntry(entry store.Change) (kind, about string, d Data) {
	switch entry.Action {
	case store.Staged:
		d = Data{Partner: "default", From: position(entry.From, entry.FromPercent), To: position(entry.To, entry.ToPercent)}
		if name, ok := strings.CutPrefix(entry.By, wave.ByWave("")); ok {
			d.Wave = name
		}
		d.Forced = entry.Forced
		return "stage", string(entry.Partner), d
	case store.WaveChanged:
		reason := evidence.ReadNote(entry.Evidence).Kind
		return "wave", entry.Subject, Data{Wave: entry.Subject, From: entry.From, To: entry.To, Reason: reason}
	case store.Restored:
		reason := map[string]string{store.ByFailOver: "fail-over", "config": "backends"}[entry.By]
		if reason == "" {
			reason = "operator"
		}
		return "failover", "", Data{Reason: reason}
	case store.Stopped:
		return "kill_switch", "", Data{To: "on"}
	}
	return "kill_switch", "", Data{To: "off"}
}

// position returns a stage as the steps of a wave name it.
func position(stage string, percent int) string {
	if stage == string(rollout.StageCanary) {
		return fmt.Sprintf("%s:%d", stage, percent)
	}
	return stage
}
