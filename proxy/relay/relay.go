// Package relay brings the payment callbacks of upstreams to partners, each in the partner's own form, at least once.
//
//	r, err := relay.New(config, relay.Options{Store: opened, Registerer: registry, Logger: logger})
//	go r.Run(ctx)                                    // delivers
//	ours, err := r.Bind(ctx, relay.Asked{URL: theirs, …}) // before a create goes out, its address becomes ours
//	http.Handle("/callback/", r)                     // what the upstream then calls
//
// A callback address that a partner gives with a bill or a registration is replaced by one of ours. The upstream calls
// ours; the callback is translated by the rows of the table, stored, and only then acknowledged; then it is ours to
// deliver (translate/README.md, Events). Partners must bear a callback that comes twice: each
// carries a webhook-id that stays the same.
//
// A partner's address is untrusted input: see guard.go. Everything that must outlive the process is in package store.
package relay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are what a relay takes from its surroundings.
type Options struct {
	Store      *store.Store
	Registerer prometheus.Registerer // if nil, the metrics are kept but nobody sees them
	Logger     *slog.Logger          // if nil, nothing is logged
	UserAgent  string                // towards partners; if empty, "billbridge"
	Now        func() time.Time      // if nil, time.Now
}

// A Relay receives callbacks, stores them and delivers them. It is safe for concurrent use.
type Relay struct {
	store     *store.Store
	log       *slog.Logger
	userAgent string
	now       func() time.Time
	metrics   *metrics
	current   atomic.Pointer[settings]
	arrived   chan struct{} // holds one: something may be due

	claimWithin time.Duration // the constant; a test has less patience

	mu       sync.Mutex
	underWay int            // attempts
	busy     map[string]int // the same by host, and by partner
}

// settings are what one config says of callbacks. They are immutable; a reload swaps them whole.
type settings struct {
	config *config.Config
	// callbacks are the config's, or the defaults where it relays none any more: what was taken before is brought to
	// its end all the same.
	callbacks config.Callbacks
	rows      *translate.Callback
	guard     *guard
	transport *http.Transport
}

// New makes a relay that works by the config. The config's table has a callback.
func New(c *config.Config, o Options) (*Relay, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.UserAgent == "" {
		o.UserAgent = "billbridge"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Relay{
		store: o.Store, log: o.Logger, userAgent: o.UserAgent, now: o.Now,
		arrived: make(chan struct{}, 1), busy: map[string]int{}, claimWithin: claimWithin,
	}
	var err error
	if r.metrics, err = newMetrics(o.Registerer, r); err != nil {
		return nil, err
	}
	r.Use(c)
	return r, nil
}

// Use replaces the config. Attempts under way end by the one they began with.
func (r *Relay) Use(c *config.Config) {
	next := &settings{config: c, callbacks: config.DefaultCallbacks(), rows: c.Table.Callback()}
	if c.Callbacks != nil {
		next.callbacks = *c.Callbacks
	}
	next.guard = newGuard(&next.callbacks)
	next.transport = newTransport(next.guard, &next.callbacks)
	if old := r.current.Swap(next); old != nil {
		old.transport.CloseIdleConnections()
	}
	for _, u := range c.Upstreams {
		r.metrics.know(u.Name, c.Table)
	}
	r.wake()
}

// Asked is a call of a partner that carries a callback address. The store may still read Bill and URL when Bind has
// returned an error: they must not be parts of a buffer that is used again.
type Asked struct {
	Upstream, Operation string
	Form                translate.Form // the partner's
	Key                 string         // the partner's, as the call has it
	OfBill              bool           // whether it is about one bill, and not a registration
	Bill                string         // which, if the call says it
	Member, Merchant    string
	Expiry              string // of the bill, YYYY-MM-DD; may be empty
	URL                 string // the partner's address
}

// A Wrong address is refused before anything is sent. Its text is for the partner and shows nothing of the address.
type Wrong struct{ Text string }

func (w *Wrong) Error() string { return w.Text }

// Bind stores where callbacks of a call are to go, and returns the address of ours that the upstream gets instead.
// It is the partner's own where the config relays none, or leaves an address that is never called as it is. The error is a
// [*Wrong] where the address itself is at fault; any other means that it could not be stored. Nothing may be sent then.
func (r *Relay) Bind(ctx context.Context, a Asked) (string, error) {
	s := r.current.Load()
	if s.config.Callbacks == nil {
		return a.URL, nil
	}
	// A call that was under way during a reload may go to an upstream that the reload dropped: no row referred to it. Its
	// callbacks could not be placed.
	if s.config.Upstreams.Find(a.Upstream) == nil {
		return "", errors.New("the config has no such upstream any more")
	}
	if _, err := s.guard.check(a.URL); err != nil {
		if s.callbacks.InvalidAddress == config.LeaveInvalid {
			r.metrics.left.WithLabelValues(a.Upstream).Inc()
			r.log.Warn("a callback address that is never called from here goes out as it is", "upstream", a.Upstream,
				"partner", partner.Of(a.Key).Short(), "operation", a.Operation, "reason", err.Error())
			return a.URL, nil
		}
		r.metrics.refused.WithLabelValues(a.Upstream, "address").Inc()
		return "", &Wrong{err.Error()}
	}
	if strings.ContainsRune(a.Bill, 0) { // no text of a database; the bill is told apart by it
		return "", &Wrong{"can be kept only for a bill whose id has no zero character"}
	}
	if max(len(a.Bill), len(a.Member), len(a.Merchant)) > longestName {
		return "", &Wrong{fmt.Sprintf("can be kept only for a bill, a member and a merchant with names of at most %d bytes", longestName)}
	}
	row := store.Address{
		ID: random(), Upstream: a.Upstream, Operation: a.Operation,
		Partner: partner.Of(a.Key), Bill: a.Bill, Form: string(a.Form), URL: a.URL, Created: r.now(), Until: Until(a.Expiry),
	}
	if !a.OfBill {
		row.Store = fmt.Sprintf("%q %q", a.Member, a.Merchant)
	}
	id, err := r.store.Bind(ctx, row)
	if err != nil {
		return "", err
	}
	return s.callbacks.PublicURL.JoinPath("callback", id).String(), nil
}

// longestName bounds the names that are kept. Those of the document have up to 60 characters. An index of PostgreSQL
// takes some 2,700 bytes; and whoever calls with a name of a megabyte is known to nobody yet, but the row would stay.
const longestName = 1000

// nameOf is a name as it can be kept. One that comes with a payment must not keep it from being stored.
func nameOf(given string) string {
	name := strings.ReplaceAll(given, "\x00", "\ufffd")
	if len(name) > longestName {
		name = strings.ToValidUTF8(name[:longestName], "")
	}
	return name
}

// random is 128 bits that nobody can guess, in hex.
func random() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

// seoul is Korean local time, in which the times of the interface are (translate/README.md, Dates).
var seoul = time.FixedZone("KST", 9*60*60)

// Until is when a bill with that expiry is over, zero if it is no date: a bill is good to midnight of its day.
func Until(expiry string) time.Time {
	day, err := time.ParseInLocation(time.DateOnly, expiry, seoul)
	if err != nil {
		return time.Time{}
	}
	return day.AddDate(0, 0, 1)
}

// wake makes the deliverer look.
func (r *Relay) wake() {
	select {
	case r.arrived <- struct{}{}:
	default: // it is to look anyway
	}
}
