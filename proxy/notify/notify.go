// Package notify reports to people and systems what happens: the events of [Kinds], to the destinations of
// [config.Config.Notify].
//
//	n := notify.New(notify.Options{Config: gateway.Config, Store: opened, Relay: relay, Rollout: router})
//	go n.Run(ctx)
//
// Every gateway looks in the store for what has happened, and offers it to the relay, which stores each event once, by
// its id, and delivers it as a callback. So no gateway need lead, and none need remember what it has reported.
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
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

const (
	lookEvery   = 5 * time.Second
	lookTakes   = 30 * time.Second // at most
	beforeStart = time.Hour        // how far back the first look goes
	// overlap is how much of the time before a look it repeats: clocks differ, and a row is committed after its time.
	overlap = 5 * time.Minute
	logMost = 100_000 // entries of the audit log that a look reads
	day     = 24 * time.Hour
)

// Options are what a notifier works with.
type Options struct {
	Config       func() *config.Config // the config in force
	Store        *store.Store
	Relay        *relay.Relay
	Rollout      *routing.Router // nil if the config has none
	Certificates func(each func(end time.Time, kind, name string))
	Logger       *slog.Logger
	Now          func() time.Time
}

// A Notifier finds what has happened.
type Notifier struct {
	Options
	from  time.Time       // of the next look
	known map[string]bool // the ids of events that were queued and that the next look may find
}

// New returns a notifier.
func New(o Options) *Notifier {
	return &Notifier{Options: o, from: o.Now().Add(-beforeStart), known: map[string]bool{}}
}

// Run reports events until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	routing.Every(ctx, lookEvery, n.Logger, "events could not be queued; the gateway tries again", n.Look)
}

// An event is what is reported. Events that are equal in their identity are the same.
type event struct {
	Event
	identity []any
}

// Look queues what has happened since the last look. After an error of a destination or of a part of the store it goes on
// with the others, and the next look begins where this one began.
func (n *Notifier) Look(ctx context.Context) (err error) {
	defer routing.Recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, lookTakes)
	defer cancel()
	now, c := n.Now(), n.Config()
	if len(c.Notify) == 0 {
		n.from = now.Add(-beforeStart)
		return nil
	}
	events, err := n.found(ctx, c, now)
	known := map[string]bool{}
	for i := range c.Notify {
		err = errors.Join(err, n.queue(ctx, &c.Notify[i], events, known))
	}
	if err != nil {
		return err
	}
	n.known, n.from = known, now.Add(-overlap)
	return nil
}

// queue queues events for a destination, up to an error: the later ones must not come before that one. It adds the ids
// of the events to known.
func (n *Notifier) queue(
	ctx context.Context, to *config.Destination, events []event, known map[string]bool,
) (err error) {
	defer routing.Recovered(&err)
	for _, e := range events {
		id := idOf(to, e.Type, e.identity...)
		if !to.Wants(strings.TrimPrefix(e.Type, typePrefix)) || known[id] {
			continue
		}
		if known[id] = true; n.known[id] {
			continue
		}
		if _, err := Queue(ctx, n.Relay, to, e.Event, e.identity...); err != nil {
			return err
		}
		n.known[id] = true
	}
	return nil
}

// Queue queues an event for a destination, after earlier ones of its type about the same partner, wave or certificate,
// and returns its id. Events of a type that are equal in their identity are queued once.
func Queue(
	ctx context.Context, r *relay.Relay, to *config.Destination, e Event, identity ...any,
) (id string, err error) {
	id = idOf(to, e.Type, identity...)
	order := idOf(to, "order", e.Type, e.Data.Partner, e.Data.Wave, e.Data.Certificate)
	return id, r.Queue(ctx, to, id, order, e.body(to.Format == config.Slack))
}

func idOf(to *config.Destination, of string, identity ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", to.URL.Reveal(), of, fmt.Sprintln(identity...)))
	return fmt.Sprintf("%s%x", store.EventPrefix, sum[:16])
}

// found returns what has happened, in its order, and what is the case now. With an error a part is missing.
func (n *Notifier) found(ctx context.Context, c *config.Config, now time.Time) (all []event, err error) {
	add := func(kind string, of partner.ID, at time.Time, d Data, identity ...any) {
		if of != "" {
			d.Partner, d.Name = of.Short(), c.Partners.Name(string(of))
		}
		e := Event{Type: typePrefix + kind, Timestamp: at.UTC(), Data: d}
		all = append(all, event{e, append(identity, of)})
	}
	actions := []store.Action{store.Staged, store.WaveChanged, store.Stopped, store.Resumed, store.Restored}
	filter := store.AuditFilter{Actions: actions, Since: n.from, OldestFirst: true, Limit: logMost}
	log, err := n.Store.Audit(ctx, filter)
	for _, entry := range log {
		kind, d := ofEntry(entry)
		add(kind, entry.Partner, entry.At, d, d.Revision)
	}
	var unclear time.Time
	if n.Rollout != nil {
		unclear = routing.UnclearBefore(now)
	}
	happened, failed := n.Store.Happened(ctx, n.from, unclear)
	err = errors.Join(err, failed)
	for _, h := range happened {
		d := Data{Upstream: h.Upstream, Operation: h.Operation, Reason: h.Outcome, To: h.State, Callback: h.Callback}
		add(h.Kind, h.Partner, h.At, d, h.At.Truncate(time.Hour)) // as Happened returns them
	}
	n.Certificates(func(end time.Time, kind, name string) {
		d := Data{Certificate: kind + " " + name, Ends: end.UTC()}
		for _, within := range []time.Duration{0, 7 * day, 21 * day} {
			if end.Sub(now) <= within {
				add("certificate", "", now, d, d.Certificate, d.Ends, within)
				return
			}
		}
	})
	if n.Rollout == nil || len(n.Rollout.Failed()) == 0 {
		return all, err
	}
	// Counts start again after a reset, and with another table.
	resets, failed := n.Store.Audit(ctx, store.AuditFilter{Actions: []store.Action{store.Reset}, Limit: logMost})
	if failed != nil { // the identity of a verdict is not known
		return all, errors.Join(err, failed)
	}
	for _, v := range n.Rollout.Failed() {
		since := int64(0)
		for _, reset := range resets {
			if reset.Partner == "" || reset.Partner == v.Partner {
				since = max(since, reset.Revision)
			}
		}
		d := Data{Operation: v.Operation, Reason: string(v.Evidence), To: string(v.Ruling)}
		add("verdict", v.Partner, now, d, v.Operation, v.Evidence, n.Rollout.Counts().Table(), since)
	}
	return all, err
}

// ofEntry returns the event of an entry of the audit log, without the name of a partner.
func ofEntry(entry store.Change) (kind string, d Data) {
	d.Revision = entry.Revision
	switch entry.Action {
	case store.Staged:
		kind, d.Partner, d.Forced = "stage", "default", entry.Forced
		d.From = moves.Steps{routing.At(entry.From, entry.FromPercent)}.String()
		d.To = moves.Steps{routing.At(entry.To, entry.ToPercent)}.String()
		if name, ok := strings.CutPrefix(entry.By, moves.ByWave("")); ok {
			d.Wave = name
		}
	case store.WaveChanged:
		kind, d.Wave, d.From, d.To = "wave", entry.Subject, entry.From, entry.To
		d.Reason = evidence.ReadNote(entry.Evidence).Kind
	case store.Restored:
		kind, d.Reason = "failover", "operator"
		if entry.By == store.ByFailOver || entry.By == store.ByConfig {
			d.Reason = entry.By
		}
	case store.Stopped:
		kind, d.To = "kill_switch", "on"
	default:
		kind, d.To = "kill_switch", "off"
	}
	return kind, d
}
