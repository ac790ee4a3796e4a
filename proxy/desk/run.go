// Package desk certifies the integration of a partner by what it does. It runs a sandbox of its own, tells the
// partner's order hook what to do, disturbs calls and callbacks, and watches what is sent. The log of a run is
// evidence: everybody can compute the verdicts from it again.
//
//	plan, err := desk.ParsePlan(text)
//	verdicts, err := desk.Run(ctx, desk.Config{Plan: plan, Hook: "http://shop.test/desk", Listener: l, Out: file})
//	result, err := desk.Verify(file, public)
package desk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy/sandbox"
)

// Config configures a run.
type Config struct {
	Plan     Plan
	Hook     string       // base URL of the order hook
	Listener net.Listener // for the calls of the partner
	// Mount gets the handler of these calls instead of Listener, and BaseURL is then where the partner finds it.
	Mount   func(http.Handler)
	BaseURL string
	// Via is the base URL of a gateway that the calls of the partner are passed on to, and Backend then the address of
	// its upstream. If empty, the partner calls the service directly.
	Via     string
	Backend net.Listener
	Client  *http.Client // for the hook; http.DefaultClient if nil
	// Callbacks sends callbacks; that of net/http if nil.
	Callbacks http.RoundTripper
	Out       io.Writer          // gets the evidence
	Key       ed25519.PrivateKey // signs it; nil in practice
	Attempts  int                // at a case that fails; 1 if 0
	// Progress is called after each case. It can be nil.
	Progress func(Case, Verdict)
}

// A runner drives one run.
type runner struct {
	Config
	log     *evidence
	service *sandbox.Service
	net     *network
	posts   sync.WaitGroup
	// setup has a value while an attempt uses faults and the clock: until it waits for the partner's own reads. A
	// channel, because time in a bubble of testing/synctest stands still while a goroutine waits for a mutex.
	setup chan struct{}
	ended sync.Mutex // an attempt that ends

	mu       sync.Mutex
	current  *attempt
	amounts  map[string]*order // by amount
	bills    map[string]*order // by bill
	amount   int               // of the newest order
	form     string            // of the calls that the service gets: through a gateway it can differ from the partner's
	attempts map[string]int    // by case
}

// An attempt is the attempt at a case that runs.
type attempt struct {
	Case
	n      int
	step   int
	orders map[string]*order
	failed atomic.Bool
}

// An order is one that the partner was told to make.
type order struct {
	attempt          *attempt
	name, id, amount string
	said             *Answer
}

// Run runs the cases of a plan. The error is one of the desk: what the partner does is in the verdicts of all attempts.
func Run(ctx context.Context, c Config) ([]Verdict, error) {
	c.Plan.Practice, c.Plan.Via = c.Plan.Practice || c.Key == nil, c.Via != ""
	c.Plan.Run = cmp.Or(c.Plan.Run, strings.ToLower(rand.Text()[:6]))
	c.Client = cmp.Or(c.Client, http.DefaultClient)
	if c.Callbacks == nil {
		c.Callbacks = http.DefaultTransport
	}
	r := &runner{
		Config: c, log: newEvidence(c.Out, c.Key), net: &network{next: c.Callbacks}, amount: 20011,
		amounts: map[string]*order{}, bills: map[string]*order{}, attempts: map[string]int{}, form: c.Plan.Form,
		setup: make(chan struct{}, 1),
	}
	var err error
	transport := http.RoundTripper(r.net)
	if c.Plan.Via { // the front is between the gateway and the partner
		transport = c.Callbacks
	}
	r.service, err = sandbox.Open("", sandbox.Options{
		Partners:  []sandbox.Partner{{Key: c.Plan.Key, Name: c.Plan.Partner}},
		Transport: transport, CallbackCancelDestroy: true, BaseURL: c.BaseURL,
		Observe: func(x sandbox.Exchange) { r.observe(x, c.Plan.Via) },
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.service.Close() }()
	switch {
	case c.Plan.Via:
		defer serve(c.Backend, r.service)()
		defer serve(c.Listener, &front{runner: r})()
	case c.Mount != nil:
		c.Mount(r.service)
	default:
		defer serve(c.Listener, r.service)()
	}
	plan := c.Plan
	plan.Key = r.log.fingerprint(plan.Key)
	r.log.append(Record{Kind: kindPlan, Plan: &plan})
	for n := 1; n <= max(c.Attempts, 1) && ctx.Err() == nil; n++ {
		var lost sync.WaitGroup // group L: each of its cases waits for the partner's own reads
		for _, one := range r.due(n) {
			switch {
			case ctx.Err() != nil:
			case one.Group() == "L":
				lost.Go(func() { r.run(ctx, one) })
			default:
				lost.Wait()
				r.run(ctx, one)
			}
		}
		lost.Wait()
	}
	r.posts.Wait()
	if !r.Plan.Practice && len(r.attempts) > 0 { // a bill that is sent this late still counts for its case
		sleep(ctx, lateTime)
	}
	all := judgeAll(r.Plan, r.log.records())
	r.log.append(Record{Kind: kindEnd, Text: Outcome(r.Plan, all)})
	r.log.sign()
	return all, cmp.Or(r.log.err, ctx.Err())
}

// Certify runs the cases of a plan, and returns what the evidence proves.
func Certify(ctx context.Context, c Config) (Result, error) {
	var log bytes.Buffer
	c.Out = io.MultiWriter(c.Out, &log)
	if _, err := Run(ctx, c); err != nil {
		return Result{}, err
	}
	return Verify(&log, nil)
}

// serve serves a handler until stop is called.
func serve(l net.Listener, h http.Handler) (stop func()) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	return func() { _ = server.Close() }
}

// due returns the cases of a round: all in the first one, later those that did not pass. A failure in some groups runs
// the whole group again.
func (r *runner) due(round int) (list []Case) {
	again := map[string]bool{}
	for _, v := range Last(judgeAll(r.Plan, r.log.records())) {
		if v.Result == Failed || v.Result == Unknown {
			again[v.Case] = true
			if c, _ := caseOf(v.Case); c.again() {
				again[c.Group()] = true
			}
		}
	}
	for _, c := range cases {
		if r.Plan.applies(c) && (round == 1 || again[c.ID] || c.again() && again[c.Group()]) {
			list = append(list, c)
		}
	}
	return list
}

// run makes an attempt at a case.
func (r *runner) run(ctx context.Context, c Case) {
	a := &attempt{Case: c, orders: map[string]*order{}}
	if r.Plan.lacks(c.Needs) == "" && c.Human == "" {
		r.mu.Lock()
		r.attempts[c.ID]++
		a.n = r.attempts[c.ID]
		r.mu.Unlock()
		r.record(a, Record{Kind: kindBegin})
		r.drive(ctx, a)
	}
	r.ended.Lock()
	defer r.ended.Unlock()
	v := judge(r.Plan, c, max(a.n, 1), attemptOf(r.log.records(), c.ID, max(a.n, 1)))
	r.log.append(Record{Kind: kindVerdict, Case: c.ID, Attempt: max(a.n, 1), Verdict: &v})
	r.log.sign()
	if r.Progress != nil {
		r.Progress(c, v)
	}
}

// drive makes the steps of an attempt, and records how it ended.
func (r *runner) drive(ctx context.Context, a *attempt) {
	r.setup <- struct{}{}
	ready := sync.OnceFunc(func() { <-r.setup })
	defer ready()
	r.mu.Lock()
	r.current = a
	r.mu.Unlock()
	for i, text := range a.Steps {
		a.step = i + 1
		args, name := words(text)
		if !slices.Contains([]string{"until", "says", "order", "refund", "withdraw", "resend"}, args[0]) {
			r.record(a, Record{Kind: kindStep, Order: name, Step: a.step, Text: text})
		}
		if args[0] == "until" && slices.Contains(args, "reconcile") {
			ready()
		}
		if err := r.step(ctx, a, args, name); err != nil {
			r.fail(a, err)
		}
		if ctx.Err() != nil {
			return // the attempt has no end
		}
		if a.failed.Load() {
			break
		}
	}
	a.step = 0
	for _, name := range []string{"a", "b"} {
		o := a.orders[name]
		if o == nil {
			continue
		}
		if _, err := r.ask(ctx, o, true); err != nil {
			r.fail(a, err)
		}
		book := map[string]string{}
		for _, b := range r.service.Bills() {
			if b.Price == o.amount {
				book[b.ID] = b.State
			}
		}
		r.record(a, Record{Kind: kindBook, Order: name, Book: book})
	}
	ready()
	r.setup <- struct{}{}
	defer func() { <-r.setup }()
	r.service.ClearFaults()
	r.net.down.Store(false)
	_, _ = r.service.SetMaintenance(false), r.service.SetClock(time.Time{}) // in memory they do not fail
}

// fail records why an attempt cannot go on.
func (r *runner) fail(a *attempt, err error) {
	a.failed.Store(true)
	r.record(a, Record{Kind: kindError, Step: a.step, Text: err.Error()})
}

// record adds a record of an attempt.
func (r *runner) record(a *attempt, rec Record) {
	rec.Case, rec.Attempt = a.ID, a.n
	r.log.append(rec)
}

// observe records a call. It belongs to the order whose amount or bill it names, also if another case runs; else to the
// case that runs. A call between a gateway and the service is behind.
func (r *runner) observe(x sandbox.Exchange, behind bool) {
	call := r.log.call(x)
	call.Behind = behind
	r.mu.Lock()
	if behind && x.Operation != opCallback {
		r.form = x.Form
	}
	o := r.bills[x.Bill]
	if x.Operation == "bill.create" {
		price, _ := field(call.Request, "price")
		if o == nil || r.amounts[price] != nil {
			o = r.amounts[price]
		}
	}
	a := r.current
	if o == nil && a != nil {
		o = a.orders["a"]
	}
	if x.Operation == "bill.create" && o != nil {
		r.bills[x.Bill] = o
	}
	r.mu.Unlock()
	switch {
	case o != nil:
		r.record(o.attempt, Record{Kind: kindCall, Order: o.name, Call: call})
	case a != nil:
		r.record(a, Record{Kind: kindCall, Call: call})
	}
}

// newOrder returns a new order of an attempt. Its amount is unique in the run, so that a bill is known by it.
func (r *runner) newOrder(a *attempt, name string) *order {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.amount += 2
	o := &order{attempt: a, name: name, amount: fmt.Sprint(r.amount)}
	o.id = fmt.Sprintf("D-%s-%s-%d%s", r.Plan.Run, a.ID, a.n, strings.TrimPrefix(name, "a"))
	a.orders[name], r.amounts[o.amount] = o, o
	return o
}
