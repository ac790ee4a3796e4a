// Package desk is for practice with the integration of a partner. It runs a sandbox of its own, tells the partner's
// order hook what to do, disturbs calls and callbacks, and says what to repair. It proves nothing to others.
//
//	plan, err := desk.ParsePlan(text, os.LookupEnv)
//	result := desk.Run(ctx, desk.Config{Plan: plan, Mount: serve, Progress: show})
//	err = desk.Report(file, result)
package desk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy/sandbox"
)

// Config configures a run.
type Config struct {
	Plan Plan
	// Mount gets the handler of the partner's calls. BaseURL is where the partner finds it, if its path is not /.
	Mount     func(http.Handler)
	BaseURL   string
	Transport http.RoundTripper // for the hook and callbacks; that of net/http if nil
	// Progress is called after each case.
	Progress func(Verdict)
}

// A Result is what a run has found.
type Result struct {
	Plan     Plan
	Verdicts []Verdict
	Records  []Record
}

const (
	attempts = 3        // at a case on a busy machine
	maxLog   = 16 << 20 // bytes of the log
	maxBody  = 64 << 10 // bytes of a call
)

// A runner drives one run. Its service is in memory: a change of the clock and the end do not fail.
type runner struct {
	Config
	service *sandbox.Service
	ctx     context.Context // ends with the run
	stop    context.CancelFunc
	all     sync.WaitGroup // calls of the hook and of the partner

	mu      sync.Mutex
	log     []Record
	size    atomic.Int64 // of the log
	current *attempt
	first   int               // the number of the first amount
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
	attempt                 *attempt
	name, id, amount, phone string
}

// Run runs the cases of a plan, until ctx ends.
func Run(ctx context.Context, c Config) Result {
	c.Plan.Run = strings.ToLower(rand.Text()[:6])
	r := &runner{
		Config: c, amounts: map[string]*order{}, bills: map[string]*order{}, current: &attempt{},
		first: int(time.Now().Unix()) % 199 * 200,
	}
	r.ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.service = sandbox.New(sandbox.Options{
		Partners:  []sandbox.Partner{{Key: c.Plan.Key, Name: c.Plan.Partner}},
		Transport: c.Transport, CallbackCancelDestroy: true, BaseURL: c.BaseURL, Observe: r.observe,
	})
	c.Mount(r)
	chosen := slices.DeleteFunc(slices.Clone(all().Cases), func(one Case) bool {
		return one.ID != "A1" && !one.in(c.Plan.Only)
	})
	for i, one := range chosen {
		if r.Plan.lacks(one.Needs) == "" { // else it is skipped
			r.drive(one)
		}
		v := judge(r.Plan, one, r.records())
		r.Progress(v)
		if r.ctx.Err() != nil || i == 0 && v.Result != Passed && v.Result != Warning {
			break
		}
	}
	r.mu.Lock()
	r.stop() // calls that are open are aborted
	r.mu.Unlock()
	r.all.Wait()
	_ = r.service.Close()
	res := Result{Plan: r.Plan, Records: r.records()}
	for _, one := range chosen { // again: a call can count for a case that has ended
		res.Verdicts = append(res.Verdicts, judge(r.Plan, one, res.Records))
	}
	return res
}

// ServeHTTP answers a call of the partner until the run ends.
func (r *runner) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	r.mu.Lock()
	over := err != nil || r.ctx.Err() != nil
	if !over {
		r.all.Add(1)
		if o := r.amounts[field(body, "price")]; o != nil { // the bill can be read before its create ends
			r.bills[field(body, "billid")] = o
		}
	}
	r.mu.Unlock()
	if over {
		http.Error(w, "The body is too long, or the run has ended.", http.StatusServiceUnavailable)
		return
	}
	defer r.all.Done()
	ctx, stop := context.WithCancel(req.Context())
	defer context.AfterFunc(r.ctx, stop)()
	req = req.WithContext(ctx)
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.service.ServeHTTP(w, req)
}

// drive makes the steps of a case, and records how it ended. On a busy machine it repeats them.
func (r *runner) drive(one Case) {
	for range attempts {
		r.mu.Lock()
		if r.current.ID == one.ID { // the attempt before does not count
			r.current.ID = ""
		}
		a := &attempt{Case: one, orders: map[string]*order{}}
		r.current = a
		r.mu.Unlock()
		r.attempt(a)
		if judge(r.Plan, one, r.records()).Text != tooBusy {
			return
		}
	}
}

func (r *runner) attempt(a *attempt) {
	for _, a.step = range a.Steps {
		args, name := words(a.step)
		r.record(&order{attempt: a, name: name}, Record{Text: a.step})
		r.fail(a, r.step(a, args, name))
		if a.failed.Load() || r.ctx.Err() != nil {
			break
		}
	}
	a.step = end
	for _, name := range slices.Sorted(maps.Keys(a.orders)) {
		o := a.orders[name]
		_ = r.until(o, "", r.agreed)
		_, err := r.ask(o, r.agreed(o))
		r.fail(a, err)
	}
	r.service.ClearFaults("")
	_ = r.service.SetClock(time.Time{}) // in memory it does not fail
}

// stateOf are the states of an order by the state of its bill.
var stateOf = map[string]string{"W": "waiting", "F": "paid", "C": "refunded"}

// agreed returns the states of an order at the partner that agree with its bills: that of a bill, but of a destroyed
// one only if there is no other.
func (r *runner) agreed(o *order) (want []string) {
	none := []string{"new", "unknown"}
	for _, b := range r.service.Bills() {
		switch {
		case b.Price != o.amount:
		case b.State == "D":
			none = []string{"withdrawn"}
		default:
			want = append(want, stateOf[b.State])
		}
	}
	if want == nil {
		return none
	}
	return want
}

// fail records why a case cannot go on, if there is an error, and the run has not ended.
func (r *runner) fail(a *attempt, err error) {
	if err != nil && r.ctx.Err() == nil {
		a.failed.Store(true)
		r.record(&order{attempt: a}, Record{Error: err.Error()})
	}
}

// record adds a record about an order, or of the case that runs.
func (r *runner) record(o *order, rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.N, rec.At, rec.attempt = len(r.log), time.Now(), cmp.Or(o.attempt, r.current)
	rec.Order, rec.Amount = o.name, o.amount
	r.log = append(r.log, rec)
}

// records returns the records until now.
func (r *runner) records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.log)
	for i := range list {
		list[i].Case = list[i].attempt.ID
	}
	return list
}

// observe records a call, unless it has another key or is about a bill of another run. A call with another key ends
// the first case. When the log is full, the run ends.
func (r *runner) observe(x sandbox.Exchange) {
	r.mu.Lock()
	a, o := r.current, r.orderOf(x)
	other := a.ID == "A1" && x.Partner != "" && x.Partner != r.Plan.Key
	// A job reads old bills as long as the run lasts: only what allows another bill counts.
	if o != nil && o.attempt != a && x.Operation == "bill.read" && x.After != "D" {
		o = nil
	}
	r.mu.Unlock()
	switch {
	case other:
		r.fail(a, errors.New("a call came with another key than api_key of the plan: set the key of the test system"))
	case o != nil:
		r.record(o, Record{Call: &x})
		if r.size.Add(int64(len(x.Request)+len(x.Reply)+1<<10)) > maxLog {
			r.stop()
		}
	}
}

// orderOf returns the order of a call: the one whose bill it names; or the first one of the case that runs, if a create
// has a wrong amount, or the call cannot be read.
func (r *runner) orderOf(x sandbox.Exchange) *order {
	o := r.bills[x.Bill]
	amount, _ := strconv.Atoi(field(x.Request, "price"))
	wrong := x.Operation == "bill.create" && amount%amountStep != amountRest
	switch {
	case x.Partner != "" && x.Partner != r.Plan.Key:
		return nil
	case o == nil && (x.Partner == "" || wrong):
		return r.current.orders["a"]
	}
	return o
}

// The amounts of orders of all runs have the same rest, by which a bill that is left over from another run is known. In
// a run they are unique. Runs within three minutes have others.
const (
	amountStep = 101
	amountRest = 17
)

// newOrder returns a new order of a case.
func (r *runner) newOrder(a *attempt, name, phone string) *order {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.amounts)
	o := &order{attempt: a, name: name, phone: phone, id: fmt.Sprintf("D-%s-%s-%d", r.Plan.Run, a.ID, n)}
	o.amount = fmt.Sprint(amountStep*(r.first+n+198) + amountRest)
	a.orders[name], r.amounts[o.amount] = o, o
	return o
}
