package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

var backends = []string{"old", "new"}

// A sent create is a create that the ledger allowed to be sent to an upstream.
type sent struct {
	proxytest.Create
	of      string         // the merchant of the call
	ended   ledger.Outcome // "" while it is open; it stays open if its process was killed
	may     bool           // it may have taken effect, or may yet
	arrived bool           // it took effect
}

// A ledgerModel is the simplest model of the store's ledger, with the bills that the upstreams really have.
type ledgerModel struct {
	t     *rapid.T
	ctx   context.Context
	s     *store.Store
	now   time.Time
	rows  map[string]proxytest.Owner
	sent  []*sent
	there map[string]map[string]bool // by upstream and bill

	denied map[string]time.Time // by bill
	alsoAt map[string]string    // by bill: where another merchant has or may have one with the id
}

func (l *ledgerModel) check(err, want error) {
	l.t.Helper()
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		l.t.Fatalf("%v, want %v", err, want)
	}
}

func (l *ledgerModel) bill(t *rapid.T) string {
	return fmt.Sprint("b", rapid.IntRange(0, 2).Draw(t, "bill"))
}

// merchant is that of a call; "" if it names none.
func (l *ledgerModel) merchant(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "a", "a", "b", ""}).Draw(t, "merchant")
}

func (l *ledgerModel) own(t *rapid.T) {
	bill, backend, merchant := l.bill(t), rapid.SampledFrom(backends).Draw(t, "backend"), l.merchant(t)
	var until time.Time
	if rapid.IntRange(0, 3).Draw(t, "has an end") == 0 {
		until = l.now.Add(time.Duration(rapid.IntRange(-5, 60).Draw(t, "ends")) * time.Second)
	}
	end := until
	if !end.After(l.now) {
		end = l.now.Add(365 * 24 * time.Hour) // estimated
	}
	row, ok := l.rows[bill]
	if at, denied := l.denied[bill]; ok && (row.State != ledger.Owned || row.OfOther(merchant)) && denied && !at.Before(l.now) {
		_, err := proxytest.On(l.s).Own(l.ctx, partnerOne, bill, backend, l.now, until, merchant)
		l.check(err, ledger.ErrDenied)
		return
	}
	if !ok || row.State == ledger.Released {
		for _, s := range l.sent {
			if s.Bill == bill && s.may {
				t.Fatalf("%s is decided anew while a create at %s may take effect", bill, s.Upstream)
			}
		}
		row = proxytest.Owner{Partner: partnerOne, Bill: bill, Upstream: backend, State: ledger.Pending, Changed: l.now, Ends: end, Merchant: merchant}
		delete(l.alsoAt, bill)
	} else {
		row.Ends = latest(row.Ends, end)
		if row.OfOther(merchant) {
			l.alsoAt[bill] = cmp.Or(l.alsoAt[bill], row.Upstream)
		}
	}
	row.Open, row.Tried = row.Open+1, l.now
	c, err := proxytest.On(l.s).Own(l.ctx, partnerOne, bill, backend, l.now, until, merchant)
	l.check(err, nil)
	equal(t, c.Owner, row, "Own")
	l.rows[bill] = row
	l.sent = append(l.sent, &sent{Create: c, of: merchant, may: true})
}

// arrive lets a create take effect that may: one in progress, one without an answer, or one whose process was killed.
func (l *ledgerModel) arrive(t *rapid.T) {
	if s := l.pick(t, func(s *sent) bool { return s.may && !s.arrived && !l.there[s.Upstream][s.Bill] }); s != nil {
		s.arrived, l.there[s.Upstream][s.Bill] = true, true
	}
}

func (l *ledgerModel) pick(t *rapid.T, so func(*sent) bool) *sent {
	var fit []*sent
	for _, s := range l.sent {
		if so(s) {
			fit = append(fit, s)
		}
	}
	if len(fit) == 0 {
		t.Skip("there is none")
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(t, "which")]
}

// settle completes a create with one of the possible outcomes.
func (l *ledgerModel) settle(t *rapid.T) {
	s := l.pick(t, func(s *sent) bool { return s.ended == "" })
	outcomes := []ledger.Outcome{ledger.Unknown}
	switch {
	case s.arrived:
		outcomes = append(outcomes, ledger.Succeeded)
	case l.there[s.Upstream][s.Bill]:
		outcomes = append(outcomes, ledger.Taken, ledger.Refused, ledger.NotSent)
	default:
		outcomes = append(outcomes, ledger.Succeeded, ledger.Refused, ledger.NotSent)
	}
	s.ended = rapid.SampledFrom(outcomes).Draw(t, "outcome")
	row := l.rows[s.Bill]
	row.Open--
	switch s.ended {
	case ledger.Succeeded:
		s.arrived, l.there[s.Upstream][s.Bill] = true, true
		if row.State != ledger.Owned {
			row.State, row.Changed, row.Merchant = ledger.Owned, l.now, cmp.Or(s.of, row.Merchant)
		}
	case ledger.Refused, ledger.NotSent:
		s.may = false
		if row.State == ledger.Pending && row.Open == 0 && !row.Uncertain {
			row.State, row.Changed, row.Ends = ledger.Released, l.now, time.UnixMilli(0).UTC()
		}
	case ledger.Taken:
		s.may, row.Uncertain = false, true
	default:
		row.Uncertain = true
	}
	l.rows[s.Bill] = row
	o, err := proxytest.On(l.s).Complete(l.ctx, s.Create, s.ended, l.now)
	l.check(err, nil)
	equal(t, o, row, "Settle")
}

// repeat completes a create again, as a caller does that did not learn of the first time.
func (l *ledgerModel) repeat(t *rapid.T) {
	s := l.pick(t, func(s *sent) bool { return s.ended != "" })
	want := ledger.ErrNotOpen
	if s.ended == ledger.Succeeded {
		want = nil
	}
	o, err := proxytest.On(l.s).Complete(l.ctx, s.Create, s.ended, l.now)
	l.check(err, want)
	equal(t, o, l.rows[s.Bill], "Settle again")
}

// find reads a bill where it is.
func (l *ledgerModel) find(t *rapid.T) {
	bill, backend := l.bill(t), rapid.SampledFrom(backends).Draw(t, "backend")
	if !l.there[backend][bill] {
		t.Skip("it is not there")
	}
	row, merchant := l.rows[bill], l.merchant(t)
	switch {
	case row.OfOther(merchant) && l.alsoAt[bill] == "":
		l.alsoAt[bill], row.Ends = backend, latest(row.Ends, l.now.Add(365*24*time.Hour))
	case row.State != ledger.Owned && !row.OfOther(merchant):
		row.State, row.Changed = ledger.Owned, l.now
	}
	l.rows[bill] = row
	o, err := proxytest.On(l.s).Found(l.ctx, partnerOne, bill, backend, l.now, merchant)
	l.check(err, nil)
	equal(t, o, row, "Found")
}

// deny records the answer "no such bill", unless a recent create may still create the bill.
func (l *ledgerModel) deny(t *rapid.T) {
	bill, merchant := l.bill(t), l.merchant(t)
	since := l.now.Add(-time.Duration(rapid.IntRange(0, 40).Draw(t, "young")) * time.Second)
	row, ok := l.rows[bill]
	want := error(nil)
	switch {
	case !ok:
		row = proxytest.Owner{Partner: partnerOne, Bill: bill, State: ledger.Released, Changed: l.now, Tried: l.now, Ends: time.UnixMilli(0).UTC(), Merchant: merchant}
	case (row.State == ledger.Pending || row.OfOther(merchant)) && (row.Open > 0 || row.Uncertain) && row.Tried.After(since):
		want = ledger.ErrInProgress
	}
	if want == nil && (row.State != ledger.Owned || row.OfOther(merchant)) {
		l.denied[bill] = l.now
	}
	o, err := proxytest.On(l.s).Deny(l.ctx, partnerOne, bill, l.now, since, merchant)
	l.check(err, want)
	equal(t, o, row, "Deny")
	l.rows[bill] = row
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// mistake records a bill as found at an upstream that does not have it.
func (l *ledgerModel) mistake(t *rapid.T) {
	row, ok := l.rows[l.bill(t)]
	if !ok || row.State == ledger.Released {
		t.Skip("it can be anywhere")
	}
	backend := backends[1-slices.Index(backends, row.Upstream)]
	merchant, want := l.merchant(t), ledger.ErrOtherOwner
	if row.OfOther(merchant) {
		want = nil
		if at := l.alsoAt[row.Bill]; at == "" || at == row.Upstream {
			l.alsoAt[row.Bill], row.Ends = backend, latest(row.Ends, l.now.Add(365*24*time.Hour))
		}
	}
	l.rows[row.Bill] = row
	o, err := proxytest.On(l.s).Found(l.ctx, partnerOne, row.Bill, backend, l.now, merchant)
	l.check(err, want)
	equal(t, o, row, "Found")
}

func (l *ledgerModel) sweep(t *rapid.T) {
	before := len(l.rows)
	for bill, row := range l.rows {
		if denied, ok := l.denied[bill]; !row.Ends.Before(l.now.Add(-retention)) || ok && l.now.Sub(denied) <= 10*time.Minute {
			continue
		}
		delete(l.rows, bill)
		delete(l.denied, bill)
		delete(l.alsoAt, bill)
		if row.State == ledger.Released {
			continue
		}
		for _, there := range l.there { // it is over
			delete(there, bill)
		}
		l.sent = slices.DeleteFunc(l.sent, func(s *sent) bool { return s.Bill == bill })
	}
	n, err := l.s.SweepBills(l.ctx, l.now, l.now, retention)
	l.check(err, nil)
	equal(t, n, before-len(l.rows), "removed")
}

func (l *ledgerModel) wait(t *rapid.T) {
	l.now = l.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
}

// same compares the rows with the model, and both with the bills of the upstreams.
func (l *ledgerModel) same(t *rapid.T) {
	want := map[string]store.Bills{}
	for i := range 3 {
		bill := fmt.Sprint("b", i)
		o, err := proxytest.On(l.s).Owner(l.ctx, partnerOne, bill)
		row, ok := l.rows[bill]
		if !ok {
			l.check(err, store.ErrNotFound)
		} else {
			l.check(err, nil)
			if row.Upstream == "" { // it was denied, and is at no upstream
				continue
			}
			b := want[row.Upstream]
			b.Partner, b.Upstream = row.Partner, row.Upstream
			switch row.State {
			case ledger.Pending:
				b.Pending++
			case ledger.Owned:
				b.Owned++
			case ledger.Released:
				b.Released++
			}
			want[row.Upstream] = b
			if at := l.alsoAt[bill]; row.State != ledger.Released && at != "" && at != row.Upstream {
				b := want[at]
				b.Partner, b.Upstream, b.Owned = row.Partner, at, b.Owned+1
				want[at] = b
			}
		}
		equal(t, o, row, "the row")
		for backend, there := range l.there {
			if there[bill] && (!ok || row.Upstream != backend || row.State == ledger.Released) {
				t.Fatalf("%s is at %s, and the row says: %s", bill, backend, inWords(row))
			}
		}
	}
	got := map[string]store.Bills{}
	all, err := l.s.OpenBillsIn(l.ctx, store.AllPartners, noon.Add(-time.Hour*24*365*10))
	l.check(err, nil)
	for _, b := range all {
		got[b.Upstream] = b
	}
	equal(t, got, want, "OpenBills")
}

// Whatever the outcomes of creates and their order, a bill is at one upstream at most, and the ledger has that upstream. A create
// whose process is killed is never completed.
func TestLedgerModel(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "sqlite") {
			url = "memory:"
		}
		s := openSmall(t, url, 0)
		rapid.Check(t, func(rt *rapid.T) {
			l := &ledgerModel{
				t: rt, ctx: t.Context(), s: s, now: noon,
				rows: map[string]proxytest.Owner{}, there: map[string]map[string]bool{"old": {}, "new": {}}, denied: map[string]time.Time{},
				alsoAt: map[string]string{},
			}
			l.check(s.Clear(l.ctx), nil)
			rt.Repeat(map[string]func(*rapid.T){
				"own": l.own, "own more": l.own, "settle": l.settle, "settle more": l.settle, "arrive": l.arrive, "repeat": l.repeat,
				"find": l.find, "deny": l.deny, "mistake": l.mistake, "sweep": l.sweep, "wait": l.wait, "": l.same,
			})
		})
	})
}

// Creates of the same bills at two replicas succeed, are refused, get no answer or lose their process, while others are in
// progress. Those that may have taken effect count as if they had.
func TestNoBillIsAtBothUpstreams(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		const bills, callers, each = 40, 16, 40
		var mutex sync.Mutex
		at := map[string]map[string]bool{} // by bill: the upstreams where it may be
		var calling sync.WaitGroup
		for n := range callers {
			calling.Go(func() {
				random := rand.New(rand.NewPCG(uint64(n), 5))
				s := replicas[n%2]
				for range each {
					bill := fmt.Sprint("b", random.IntN(bills))
					c, err := proxytest.On(s).Own(t.Context(), partnerOne, bill, backends[random.IntN(2)], noon, time.Time{}, "")
					if err != nil {
						t.Error(err)
						return
					}
					outcome := ledger.Refused
					if draw := random.IntN(40); draw < 3 {
						outcome = []ledger.Outcome{ledger.Succeeded, ledger.Unknown, ""}[draw]
						mutex.Lock()
						if at[bill] == nil {
							at[bill] = map[string]bool{}
						}
						at[bill][c.Upstream] = true
						mutex.Unlock()
					}
					if outcome == "" {
						continue // its process was killed
					}
					if _, err := proxytest.On(s).Complete(t.Context(), c, outcome, noon); err != nil {
						t.Error(err)
					}
				}
			})
		}
		calling.Wait()
		for bill, upstreams := range at {
			o := ownerOf(t, replicas[0], bill)
			if len(upstreams) != 1 || !upstreams[o.Upstream] || o.State == ledger.Released {
				t.Errorf("%s may be at %v, and the row says: %s", bill, upstreams, inWords(o))
			}
		}
		if len(at) < bills/2 {
			t.Errorf("only %d bills were made", len(at))
		}
	})
}
