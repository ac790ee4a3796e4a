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
	"maps"
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
	Transport http.RoundTripper // for the hook and callbacks; that of net/http if nil
	// Progress is called after each case. It can be nil.
	Progress func(Case, Verdict)
}

// A Result is what a run has found.
type Result struct {
	Plan     Plan
	Verdicts []Verdict
	Records  []Record
}

// A runner drives one run.
type runner struct {
	Config
	service *sandbox.Service
	posts   sync.WaitGroup

	mu      sync.Mutex
	log     []Record
	current *attempt
	amounts map[string]*order // by amount
	bills   map[string]*order // by bill
}

// An attempt is a case that runs.
type attempt struct {
	Case
	step   string
	orders map[string]*order
	failed atomic.Bool
}

// An order is one that the partner was told to make.
type order struct {
	attempt          *attempt
	name, id, amount string
}

// Run runs the cases of a plan. The error is one of the desk: what the partner does is in the verdicts.
func Run(ctx context.Context, c Config) (Result, error) {
	c.Plan.Run = strings.ToLower(rand.Text()[:6])
	r := &runner{
		Config: c, amounts: map[string]*order{}, bills: map[string]*order{}, current: &attempt{},
	}
	var err error
	r.service, err = sandbox.Open("", sandbox.Options{
		Partners:  []sandbox.Partner{{Key: c.Plan.Key, Name: c.Plan.Partner}},
		Transport: c.Transport, CallbackCancelDestroy: true, BaseURL: c.BaseURL, Observe: r.observe,
	})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = r.service.Close() }()
	c.Mount(r.service)
	chosen := slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !r.Plan.applies(c) })
	for _, one := range chosen {
		if ctx.Err() != nil {
			break
		}
		if r.Plan.lacks(one.Needs) == "" { // else it is skipped
			r.drive(ctx, &attempt{Case: one, orders: map[string]*order{}})
		}
		if r.Progress != nil {
			r.Progress(one, judge(r.Plan, one, r.records()))
		}
	}
	r.posts.Wait()
	res := Result{Plan: r.Plan, Records: r.records()}
	for _, one := range chosen { // again: a call can count for a case that has ended
		res.Verdicts = append(res.Verdicts, judge(r.Plan, one, res.Records))
	}
	return res, ctx.Err()
}

// drive makes the steps of a case, and records how it ended.
func (r *runner) drive(ctx context.Context, a *attempt) {
	r.mu.Lock()
	r.current = a
	r.mu.Unlock()
	for _, a.step = range a.Steps {
		args, name := words(a.step)
		r.record(&order{attempt: a, name: name}, Record{Text: a.step})
		if err := r.step(ctx, a, args, name); err != nil {
			r.fail(a, err)
		}
		if a.failed.Load() || ctx.Err() != nil {
			break
		}
	}
	a.step = ""
	for _, name := range slices.Sorted(maps.Keys(a.orders)) {
		o := a.orders[name]
		if _, err := r.ask(ctx, o); err != nil {
			r.fail(a, err)
		}
		book := map[string]string{}
		for _, b := range r.service.Bills() {
			if b.Price == o.amount {
				book[b.ID] = b.State
			}
		}
		r.record(o, Record{Book: book})
	}
	r.service.ClearFaults("")
	_ = r.service.SetClock(time.Time{}) // in memory it does not fail
}

// fail records why a case cannot go on.
func (r *runner) fail(a *attempt, err error) {
	a.failed.Store(true)
	r.record(&order{attempt: a}, Record{Error: err.Error()})
}

// record adds a record about an order.
func (r *runner) record(o *order, rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.N, rec.At, rec.Case = len(r.log)+1, time.Now(), o.attempt.ID
	rec.Order, rec.Amount = o.name, o.amount
	r.log = append(r.log, rec)
}

// records returns the records until now.
func (r *runner) records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// observe records a call. It belongs to the order whose amount or bill it names, also if another case runs; else to the
// case that runs.
func (r *runner) observe(x sandbox.Exchange) {
	r.mu.Lock()
	o := cmp.Or(r.bills[x.Bill], r.current.orders["a"], &order{attempt: r.current})
	if x.Operation == "bill.create" {
		o = cmp.Or(r.amounts[field(x.Request, "price")], o)
		r.bills[x.Bill] = o
	}
	r.mu.Unlock()
	r.record(o, Record{Call: &x})
}

// newOrder returns a new order of a case. Its amount is unique in the run, so that a bill is known by it.
func (r *runner) newOrder(a *attempt, name string) *order {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &order{attempt: a, name: name, amount: fmt.Sprint(20013 + 2*len(r.amounts))}
	o.id = fmt.Sprintf("D-%s-%s%s", r.Plan.Run, a.ID, name)
	a.orders[name], r.amounts[o.amount] = o, o
	return o
}
