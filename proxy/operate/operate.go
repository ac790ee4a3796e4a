// Package operate has what an operator can do, as functions over values:
//
//	o := operate.New(operate.Options{Config: gateway.Config, Store: opened, Rollout: router, Relay: relay})
//	change, err := o.Move(ctx, operate.Move{Partner: "6e2b0f4cd1aa", Do: operate.Next, Preview: true})
//	http.Handle("/rollout/", o.Handler()) // the same for scripts and the commands, in JSON
//
// The pages of the console call the functions, the commands send the same values to the handler. A function that is
// refused returns an [*Error], and has changed nothing. Reasons and warnings are notes: English in JSON, and a
// page words them in the language of its visitor.
package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"billbridge/config"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Options are what an operator works with.
type Options struct {
	Config   func() *config.Config // the config in force
	Store    *store.Store          // nil if the config has none
	Rollout  *routing.Router       // nil if the config has none
	Relay    *relay.Relay          // nil without a store
	ReadBill routing.ReadBill      // if nil, bills are not read at backends
	Knows    func(partner.ID) bool // whether ReadBill has a partner's key; nil without ReadBill
	// if nil, bills are not compared
	CompareBill CompareBill
	Opened      func(upstream string) bool // whether the breaker of an upstream is open; nil for never
	Tick        func(context.Context)      // updates what the gateway knows of the store; may be nil
	Registerer  prometheus.Registerer      // if nil, the metrics are not registered
	Logger      *slog.Logger               // if nil, nothing is logged
	Now         func() time.Time           // if nil, time.Now
	Version     string                     // of the program, for reports
	Gateway     Gateway                    // its name and version, for the list of gateways
}

// An Operator does what operators decide. It is safe for concurrent use.
type Operator struct {
	*core
	waveVerbs
	billVerbs
	callbackVerbs
	storeVerbs
}

// The verbs of an Operator, by what they are about. Those about the rollout are its own.
type (
	waveVerbs     struct{ *core }
	billVerbs     struct{ *core }
	callbackVerbs struct{ *core }
	storeVerbs    struct{ *core }
)

// core is what all verbs work with.
type core struct {
	Options
	reading   atomic.Pointer[Reading] // the last one
	scanning  chan struct{}           // holds one, see scan
	comparing sync.Mutex              // held by CompareBills
	read      *prometheus.CounterVec  // by the gateway itself
	behind    prometheus.Gauge        // how long the first read for a callback has been due, in seconds
}

func newCore(o Options) *core { return &core{Options: o, scanning: make(chan struct{}, 1)} }

// New returns an operator.
func New(o Options) *Operator {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Opened == nil {
		o.Opened = func(string) bool { return false }
	}
	c := newCore(o)
	c.read = promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "billbridge_bill_reads_total",
		Help: "Reads that the gateway made by itself, of bills after their create, with an unknown outcome or a " +
			"doubtful state, or whose callback may be lost, by what they showed.",
	}, []string{"shown"})
	c.behind = promauto.With(o.Registerer).NewGauge(prometheus.GaugeOpts{
		Name: "billbridge_callbacks_reconcile_behind_seconds",
		Help: "For how long a read of callbacks.reconcile has been due and was not made, of partners whose key this " +
			"gateway knows.",
	})
	for _, shown := range append(slices.Collect(maps.Values(routing.ResultTexts)), routing.NotAsked) {
		c.read.WithLabelValues(shown)
	}
	c.Gateway.Started = o.Now()
	var refused error
	if o.Rollout != nil {
		refused = o.Rollout.Refused()
	}
	made := &Operator{c, waveVerbs{c}, billVerbs{c}, callbackVerbs{c}, storeVerbs{c}}
	made.NoteReading(refused)
	return made
}

// A Refusal is the kind of an [Error], as an HTTP status.
type Refusal int

// The refusals.
const (
	BadRequest Refusal = http.StatusBadRequest // the values are wrong
	NotFound   Refusal = http.StatusNotFound
	Conflict   Refusal = http.StatusConflict // the state does not allow it, or there are reasons against it
)

// An Error refuses what an operator wants. Nothing was changed.
type Error struct {
	Refusal Refusal                `json:"-"`
	Text    string                 `json:"error"`
	Reasons []moves.BlockingReason `json:"reasons,omitempty"` // that Force must name
}

// Error returns the text, and the reasons in a line each.
func (e *Error) Error() string {
	if len(e.Reasons) == 0 {
		return e.Text
	}
	kinds := moves.JoinKinds(moves.KindsOf(e.Reasons))
	return e.Text + " To change it anyway, give force=" + kinds + ". Reasons:" + Lines(e.Reasons)
}

// Lines returns the texts of reasons with their kinds, each at the beginning of a line.
func Lines(reasons []moves.BlockingReason) (lines string) {
	for _, reason := range reasons {
		lines += fmt.Sprintf("\n  %s [%s]", reason.Text, reason.Kind)
	}
	return lines
}

func notFound(format string, args ...any) error {
	return &Error{Refusal: NotFound, Text: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &Error{Refusal: BadRequest, Text: fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) error {
	return &Error{Refusal: Conflict, Text: fmt.Sprintf(format, args...)}
}

// Explain returns an error of a reload with the reasons against it.
func Explain(err error) error {
	var b *moves.Blocked
	if !errors.As(err, &b) {
		return err
	}
	return fmt.Errorf("rollout.default is %[1]s, was %[2]s: not changed. To change it anyway, "+
		"run billbridge rollout set --default --stage %[1]s --force %[3]s while the config says %[2]s. Reasons:%[4]s",
		b.To, b.From,
		moves.JoinKinds(moves.KindsOf(b.Reasons)), Lines(b.Reasons))
}

// storeTimeout is how long a call of an operator waits for the store.
const storeTimeout = 10 * time.Second

// withNewTimeout gives a change its own timeout: the checks before it may have used up the first one, and the kill
// switch must work then, too.
func withNewTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

// needStore refuses what depends on a store if there is none.
func (o *core) needStore() error {
	if o.Store == nil {
		return conflict("the config has no store, so the stages are those of the config " +
			"and cannot be changed while the gateway runs")
	}
	return nil
}

const (
	// Default in place of a partner means all partners without a stage of their own. A missing partner, for example
	// from an unset variable, must not mean that.
	Default = "default"
	// All in place of a partner means all partners.
	All = "all"
)

// An Author is who decides, and why, for the audit log.
type Author struct {
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"` // "" if none is given
}

func (a Author) author() store.Author { return store.Author{Name: a.By, Reason: a.Reason} }

// mostReason bounds the reason of a decision, in characters.
const mostReason = 500

func (a Author) check() error {
	strange := func(text string) bool {
		return strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
	}
	if a.By == "" || strange(a.By) || !utf8.ValidString(a.By) || utf8.RuneCountInString(a.By) > 100 {
		return badRequest("by must be your name, for the audit log: 1 to 100 printable characters")
	}
	if strange(a.Reason) || !utf8.ValidString(a.Reason) || utf8.RuneCountInString(a.Reason) > mostReason {
		return badRequest("reason must be at most %d printable characters", mostReason)
	}
	return nil
}

// checkUnless is check, unless nothing will be changed.
func (a Author) checkUnless(preview bool) error {
	if preview {
		return nil
	}
	return a.check()
}

// A Limit bounds the entries of an answer. Zero is 100.
type Limit struct {
	Most *int `json:"limit,omitzero,string"`
}

// AtMost returns a limit.
func AtMost(n int) Limit { return Limit{&n} }

func (l Limit) get() (int, error) {
	switch {
	case l.Most == nil:
		return 100, nil
	case *l.Most < 1 || *l.Most > listedMost:
		return 0, badRequest("limit must be 1 to %d, but is %d", listedMost, *l.Most)
	}
	return *l.Most, nil
}

// listedMost is the most entries of one answer.
const listedMost = 10_000

// PartnerRef names a partner by its ID, by 12 digits or more of it if the partner is known, by its name in the config,
// or by what Named returns for that name. "" is all partners.
type PartnerRef struct {
	Partner string `json:"partner,omitzero"`
}

// one returns the full ID of the partner, "" for all.
func (p PartnerRef) one(ctx context.Context, o *core) (partner.ID, error) {
	if p.Partner == "" {
		return "", nil
	}
	only, err := o.named(ctx, p.Partner)
	if err == nil && only == "" {
		err = badRequest("partner cannot be default here: leave partner out, every answer has the default")
	}
	return only, err
}

// Named returns the reference to the partner that has a name in the config, as config.FoldName compares names. The
// reference has a hash of the name: what an operator gives as a name may be a key.
func Named(name string) string {
	return "name:" + string(partner.Of(config.FoldName(name)))
}

// hashFor returns the hash in the config, at least 12 digits of it, of the partner with a name; "" if there is none.
func (o *core) hashFor(name string) string {
	folded := config.FoldName(name)
	for _, one := range o.Config().Partners {
		if name != Default && (name == Named(one.Name) || folded == config.FoldName(one.Name)) {
			return one.Hash
		}
	}
	return ""
}

// named returns the full ID of a partner, "" for the default. Its errors do not repeat a name that is not an ID: it
// might be a key.
func (o *core) named(ctx context.Context, name string) (partner.ID, error) {
	id, ok := partner.Parse(name)
	if hash := o.hashFor(name); !ok && hash != "" {
		return o.named(ctx, hash)
	}
	switch {
	case name == Default:
		return "", nil
	case name == "":
		return "", badRequest("partner is missing: name one, or %s for all without a stage of their own", Default)
	case !ok:
		return "", badRequest("a partner is named by its name in the config, or by 12 to 64 lower-case hex digits of " +
			"the SHA-256 of its key: no partner has the name that was given")
	case id.IsFull():
		return o.identity(id), nil
	case o.Store == nil:
		return "", badRequest("without a store a partner is named by all 64 digits of its hash")
	}
	full, err := o.Store.Partner(ctx, id)
	switch {
	case errors.Is(err, store.ErrAmbiguous):
		return "", badRequest("the hashes of several partners begin with %s: give more digits", id)
	case errors.Is(err, store.ErrNotFound):
		return "", notFound("no known partner has a hash that begins with %s: for a new partner give all 64 digits", id)
	}
	return full, err
}

// Who is a partner, for people.
type Who struct {
	ID      partner.ID `json:"-"`
	Partner string     `json:"partner"`        // the first digits of the ID
	Name    string     `json:"name,omitempty"` // by the config
}

func (o *core) who(id partner.ID) Who {
	return Who{id, id.Short(), o.Config().Partners.Name(string(id))}
}

// Label returns the partner with its name.
func (w Who) Label() string { return partner.Label(w.Partner, w.Name) }

// declared returns a declaration, nil if there is none.
func declared(d store.Declaration) *Declared {
	if d.At.IsZero() {
		return nil
	}
	return &d
}

// known returns a pointer to a time, nil for an unknown time.
func known(t time.Time) *time.Time {
	if t.IsZero() || t.UnixMilli() == 0 { // of a released bill
		return nil
	}
	return &t
}

// list returns a list that is never nil: a list in JSON, also when it is empty.
func list[T any](all []T) []T { return append([]T{}, all...) }
