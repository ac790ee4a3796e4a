// Package desk is for practice with the integration of a partner. It runs a sandbox of its own, tells the partner's
// order hook what to do, disturbs calls and callbacks, and says what to repair. It proves nothing to others.
//
//	plan, err := desk.ParsePlan(text)
//	result, err := desk.Run(ctx, desk.Config{Plan: plan, Hook: "http://shop.test/desk", Mount: serve})
//	err = desk.Report(file, result)
package desk

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
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
	Plan Plan
	Hook string // base URL of the order hook
	// Mount gets the handler of the partner's calls. BaseURL is where the partner finds it, if its path is not /.
	Mount     func(http.Handler)
	BaseURL   string
	Client    *http.Client      // for the hook; http.DefaultClient if nil
	Callbacks http.RoundTripper // sends callbacks; that of net/http if nil
	Attempts  int               // at a case that does not pass; 1 if 0
	// Progress is called after each case. It can be nil.
	Progress func(Case, Verdict)
}

// A Result is what a run has found.
type Result struct {
	Plan     Plan
	Verdicts []Verdict // of all attempts
	Records  []Record
}

// A runner drives one run.
type runner struct {
	Config
	service *sandbox.Service
	net     *network
	posts   sync.WaitGroup

	mu      sync.Mutex
	log     []Record
	current *attempt
	amounts map[string]*order // by amount
	bills   map[string]*order // by bill
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
func Run(ctx context.Context, c Config) (Result, error) {
	c.Plan.Run = cmp.Or(c.Plan.Run, strings.ToLower(rand.Text()[:6]))
	c.Client = cmp.Or(c.Client, http.DefaultClient)
	if c.Callbacks == nil {
		c.Callbacks = http.DefaultTransport
	}
	r := &runner{
		Config: c, net: &network{next: c.Callbacks}, amounts: map[string]*order{}, bills: map[string]*order{},
	}
	var err error
	r.service, err = sandbox.Open("", sandbox.Options{
		Partners:  []sandbox.Partner{{Key: c.Plan.Key, Name: c.Plan.Partner}},
		Transport: r.net, CallbackCancelDestroy: true, BaseURL: c.BaseURL, Observe: r.observe,
	})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = r.service.Close() }()
	c.Mount(r.service)
	for n := 1; n <= max(c.Attempts, 1); n++ {
		for _, one := range r.due(n) {
			if ctx.Err() == nil {
				r.run(ctx, one, n)
			}
		}
	}
	r.posts.Wait()
	recs := r.records()
	return Result{r.Plan, judgeAll(r.Plan, recs), recs}, ctx.Err()
}

// due returns the cases of a round: all in the first one, later those that did not pass.
func (r *runner) due(round int) (list []Case) {
	for _, v := range Last(judgeAll(r.Plan, r.records())) {
		if round == 1 || v.Result == Failed || v.Result == Unknown {
			c, _ := caseOf(v.Case)
			list = append(list, c)
		}
	}
	return list
}

// run makes an attempt at a case.
func (r *runner) run(ctx context.Context, c Case, n int) {
	if r.Plan.lacks(c.Needs) == "" {
		r.drive(ctx, &attempt{Case: c, n: n, orders: map[string]*order{}})
	}
	if r.Progress != nil {
		r.Progress(c, judge(r.Plan, c, n, attemptOf(r.records(), c.ID, n)))
	}
}

// drive makes the steps of an attempt, and records how it ended.
func (r *runner) drive(ctx context.Context, a *attempt) {
	r.mu.Lock()
	r.current = a
	r.mu.Unlock()
	for i, text := range a.Steps {
		a.step = i + 1
		args, name := words(text)
		r.record(a, Record{Kind: kindStep, Order: name, Step: a.step, Text: text})
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
	r.service.ClearFaults()
	r.net.down.Store(false)
	_ = r.service.SetClock(time.Time{}) // in memory it does not fail
}

// fail records why an attempt cannot go on.
func (r *runner) fail(a *attempt, err error) {
	a.failed.Store(true)
	r.record(a, Record{Kind: kindError, Text: err.Error()})
}

// record adds a record of an attempt.
func (r *runner) record(a *attempt, rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.N, rec.At, rec.Case, rec.Attempt = len(r.log)+1, time.Now(), a.ID, a.n
	r.log = append(r.log, rec)
}

// records returns the records until now.
func (r *runner) records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// observe records a call. It belongs to the order whose amount or bill it names, also if another case runs; else to the
// case that runs. An operation that is carried out late is no call.
func (r *runner) observe(x sandbox.Exchange) {
	if x.Late {
		return
	}
	r.mu.Lock()
	o := r.bills[x.Bill]
	if x.Operation == "bill.create" {
		price, _ := field(x.Request, "price")
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
		r.record(o.attempt, Record{Kind: kindCall, Order: o.name, Call: &x})
	case a != nil:
		r.record(a, Record{Kind: kindCall, Call: &x})
	}
}

// newOrder returns a new order of an attempt. Its amount is unique in the run, so that a bill is known by it.
func (r *runner) newOrder(a *attempt, name string) *order {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &order{attempt: a, name: name, amount: fmt.Sprint(20013 + 2*len(r.amounts))}
	o.id = fmt.Sprintf("D-%s-%s-%d%s", r.Plan.Run, a.ID, a.n, strings.TrimPrefix(name, "a"))
	a.orders[name], r.amounts[o.amount] = o, o
	return o
}
