// Package relay delivers the payment callbacks of upstreams to partners, each in the partner's own form, at least once.
//
//	r := relay.New(config, relay.Options{Store: opened, Registerer: registry, Logger: logger})
//	go r.Run(ctx) // delivers
//	// Before a create is sent, ours replaces theirs in it.
//	ours, err := r.Bind(ctx, relay.Binding{URL: theirs, …})
//	http.Handle("/callback/", r) // what the upstream then calls
//
// The callback address of a bill or a registration is replaced by one of ours. When the upstream calls it, the
// callback is translated by the rows of the table and stored, and only then acknowledged; after that it is delivered
// to the partner (INTERFACE.md, Events). A partner may get a callback twice, and recognises it by its
// webhook-id.
//
// A partner's address is untrusted input: see guard.go. Everything that must outlive the process is in package store.
package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the dependencies of a relay.
type Options struct {
	Store      *store.Store
	Registerer prometheus.Registerer // if nil, the metrics are not registered
	Logger     *slog.Logger          // if nil, nothing is logged
	UserAgent  string                // towards partners
	Now        func() time.Time      // if nil, time.Now
	// Contradicted gets what a callback shows against the ledger; nil without a rollout, which has none.
	Contradicted func(ledger.Bill, []ledger.Contradiction)
	// Shows returns what the fields of a callback show of a bill, in a state with a meaning of the table.
	Shows func(t *translate.Table, means string, facts []translate.Fact) ledger.Shows
}

// A Relay receives callbacks, stores them and delivers them. It is safe for concurrent use.
type Relay struct {
	store     *store.Store
	log       *slog.Logger
	storeLog  *slog.Logger // for errors of the store, which each callback can repeat
	lostLog   *slog.Logger // for addresses that may be lost: anybody can call one that does not exist
	userAgent string
	now       func() time.Time
	shows     func(*translate.Table, string, []translate.Fact) ledger.Shows // see Options
	metrics   *metrics
	current   atomic.Pointer[settings]
	arrived   chan struct{} // holds one: a callback may be due
	proving   chan struct{} // holds as many as valid keys are recorded at the same time

	contradicted func(ledger.Bill, []ledger.Contradiction) // see Options

	claimWithin time.Duration // the constant, except in tests
	attempts    attempts
}

// settings are those of one config. They are immutable; a reload replaces them.
type settings struct {
	config    *config.Config
	callbacks *config.Callbacks // see callbacksOf
	rows      *translate.Callback
	guard     *guard
	transport *http.Transport
}

// New returns a relay for a config, whose table must have a callback.
func New(c *config.Config, o Options) *Relay {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Relay{
		store: o.Store, log: o.Logger, userAgent: o.UserAgent, contradicted: o.Contradicted, shows: o.Shows, now: o.Now,
		storeLog: accesslog.Limited(o.Logger, time.Second), lostLog: accesslog.Limited(o.Logger, time.Minute),
		arrived: make(chan struct{}, 1), proving: make(chan struct{}, 4),
		attempts:    attempts{of: map[string]int{}},
		claimWithin: claimWithin,
	}
	r.metrics = newMetrics(o.Registerer, r)
	r.Use(c)
	return r
}

// Use replaces the config. Attempts under way keep the old one.
func (r *Relay) Use(c *config.Config) {
	next := &settings{config: c, callbacks: callbacksOf(c), rows: c.Table.Callback}
	next.guard = newGuard(next.callbacks)
	next.transport = newTransport(next.guard, next.callbacks)
	if old := r.current.Swap(next); old != nil {
		old.transport.CloseIdleConnections()
	}
	for _, u := range c.Upstreams {
		r.metrics.know(u.Name, c.Table)
	}
	r.Wake()
}

// A Binding is a partner's callback address, and the call that has it. Bill and URL must not be parts of a buffer
// that is reused: the store may still read them after Bind returned an error.
type Binding struct {
	Upstream, Operation string
	Form                translate.Form // the partner's
	Partner             partner.ID     // "" if the call names none
	OfBill              bool           // the call is about one bill, and not a registration
	Bill                string         // "" if the call does not name it
	Member, Merchant    string
	Expiry              string // of the bill, YYYY-MM-DD; may be empty
	URL                 string // the partner's address
	Stored              string // the id of its row, if that is stored; else ""
}

// A Wrong is the refusal of a callback address, before anything is sent. Its text shows nothing of the address. The
// gateway has it in the languages of partners.
type Wrong struct{ Text string }

func (w *Wrong) Error() string { return w.Text }

// Bind stores the callback address of a call, and returns the address of ours that the upstream gets in its place. It
// returns the partner's own if the config relays no callbacks. After an error the call must not be sent. The error is a
// [*Wrong] if the address is wrong; otherwise it could not be stored.
func (r *Relay) Bind(ctx context.Context, a Binding) (string, error) {
	s := r.current.Load()
	if s.config.Callbacks == nil {
		return a.URL, nil
	}
	// A call under way during a reload may go to an upstream that the reload removed. Its callbacks would be refused.
	if s.config.Upstreams.Find(a.Upstream) == nil {
		return "", errors.New("the config has no such upstream any more")
	}
	id := a.Stored
	if id == "" {
		row, err := r.Row(a)
		if err != nil {
			r.metrics.refused.WithLabelValues(a.Upstream, "address").Inc()
			return "", err
		}
		row.ID = r.store.Sealed(row)
		if id, err = r.store.Bind(ctx, row); err != nil {
			return "", err
		}
	}
	return s.callbacks.PublicURL.JoinPath("callback", id).String(), nil
}

// Row returns the row of a callback address for [store.Store.Begin], which stores it with a create; the zero row if the
// config relays no callbacks. The error is a [*Wrong].
func (r *Relay) Row(a Binding) (row store.Address, err error) {
	s := r.current.Load()
	if s.config.Callbacks == nil {
		return row, nil
	}
	if _, err := s.guard.check(a.URL); err != nil {
		return row, &Wrong{err.Error()}
	}
	if strings.ContainsRune(a.Bill, 0) { // a database cannot store it, and the id must not be changed
		return row, &Wrong{"can be stored only for a bill id without a NUL character"}
	}
	if max(len(a.Bill), len(a.Member), len(a.Merchant)) > longestName {
		return row, &Wrong{"can be stored only for a bill, a member and a merchant of at most 1000 bytes each"}
	}
	row = store.Address{
		ID: random()[:store.RandomDigits], Upstream: a.Upstream, Operation: a.Operation,
		Partner: cmp.Or(a.Partner, partner.Of("")), Bill: a.Bill, Form: string(a.Form), URL: a.URL, Created: r.now(),
		Until: r.until(s, a.Expiry), Merchant: a.Merchant,
	}
	if a.OfBill && a.Bill != "" {
		row.Member, row.Look = a.Member, s.nextLook(row.Created, row.Created)
	}
	if !a.OfBill {
		row.Store = merchant(row.Partner, fmt.Sprintf("%q %q", a.Member, a.Merchant))
	}
	return row, nil
}

// longestName bounds stored names. Documented names have up to 60 characters; an index of PostgreSQL takes about
// 2,700 bytes. Without a bound, a caller who is not yet authenticated could fill the store.
const longestName = 1000

// nameOf is a name as it can be stored: whatever name a callback has, the callback must be stored.
func nameOf(given string) string {
	name := strings.ReplaceAll(given, "\x00", "\ufffd")
	if len(name) > longestName {
		name = strings.ToValidUTF8(name[:longestName], "")
	}
	return name
}

// random is 128 random bits in hex.
func random() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

// seoul is Korean local time, the time zone of the interface (INTERFACE.md, Dates).
var seoul = time.FixedZone("KST", 9*60*60)

// Until is when a bill with that expiry ends: at the end of that day. It is zero if the expiry is not a date.
func Until(expiry string) time.Time {
	day, err := time.ParseInLocation(time.DateOnly, expiry, seoul)
	if err != nil {
		return time.Time{}
	}
	return day.AddDate(0, 0, 1)
}

// until is Until for the row of an address, at most the retention from now: a caller without a valid key must not
// choose how long its rows stay. A clock that is behind the store's does not make it earlier.
func (r *Relay) until(s *settings, expiry string) time.Time {
	now := r.now()
	if storeTime := r.store.Clock(now).StoreTime; storeTime.After(now) {
		now = storeTime
	}
	until, most := Until(expiry), now.Add(s.callbacks.Retention)
	if until.After(most) {
		return most
	}
	return until
}

// Unbind is called after a call with an address from Bind that certainly had no effect: the address is removed,
// unless another registration has it. The id of the address is enough.
func (r *Relay) Unbind(ctx context.Context, address string) error {
	return r.store.Unbind(ctx, path.Base(address))
}

// MayHold reports whether a call of a partner may add rows to the store, and whether one has succeeded already. If the
// store cannot be read, it may: then no row can be added either.
func (r *Relay) MayHold(ctx context.Context, partner partner.ID) (proven, may bool) {
	may, err := r.store.MayHold(ctx, partner)
	return r.store.KnownProven(partner), may || err != nil
}

// provedWithin bounds how long the store takes to record that a key is valid.
const provedWithin = 5 * time.Second

// Prove records that a call of a partner succeeded. It does not wait for the store: if that fails, the next success
// is recorded.
func (r *Relay) Prove(partner partner.ID) {
	if r.store.KnownProven(partner) {
		return
	}
	select {
	case r.proving <- struct{}{}:
	default: // enough are under way
		return
	}
	go func() {
		defer func() { <-r.proving }()
		ctx, cancel := context.WithTimeout(context.Background(), provedWithin)
		defer cancel()
		if err := r.store.Prove(ctx, partner); err != nil {
			r.storeLog.Warn("the store cannot record that a partner's key is valid: its rows stay limited",
				"partner", partner.Short(), "error", err.Error())
		}
	}()
}

// Wake wakes the deliverer: a callback may be due.
func (r *Relay) Wake() {
	select {
	case r.arrived <- struct{}{}:
	default: // it is already awake
	}
}

// StateIn returns the state of the bill that a callback reports; none if the table describes none. Its body is in the
// form of the partner.
func (r *Relay) StateIn(c store.Callback) billing.Reported {
	s, form := r.current.Load(), translate.Form(c.Form)
	// A reload may have replaced the table in the meantime.
	if forms := s.config.Table.Forms(); !slices.Contains(forms[:], form) {
		return billing.Reported{}
	}
	read, err := billing.ReadOperation(s.config.Table)
	if err != nil { // the table describes no state
		return billing.Reported{}
	}
	return billing.StateIn(s.rows.Explain(c.Body, form, form), read, form)
}
