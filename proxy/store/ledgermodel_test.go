package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// A ledgerModel has bills in memory: each event makes of one what the rules say, whatever its gateway knew.
type ledgerModel struct {
	ctx   context.Context
	s     *store.Store
	env   ledger.Env
	now   time.Time
	bills map[string]ledger.Bill
	known []ledger.Bill // what gateways may know: as it is, as it was, or nothing
	made  int           // creates
}

func (l *ledgerModel) apply(t *rapid.T) {
	known := ledger.Bill{Partner: partnerOne, ID: fmt.Sprint("b", rapid.IntRange(0, 2).Draw(t, "bill"))}
	if n := len(l.known); n > 0 && rapid.Bool().Draw(t, "is known") {
		known = l.known[max(0, n-1-rapid.IntRange(0, 9).Draw(t, "as it was"))]
	}
	pick := func(what string, among ...string) string { return rapid.SampledFrom(among).Draw(t, what) }
	after := func(what string) time.Time {
		return l.now.Add(time.Duration(rapid.IntRange(-5, 60).Draw(t, what)) * time.Second)
	}
	is := l.bills[known.ID]
	is.Partner, is.ID = partnerOne, known.ID
	state := pick("state", "", "W", "F", "C", "D")
	read := ledger.Reading{Finding: "a read", State: state, Amount: pick("amount", "", "100", "200"), By: "anna"}
	e := ledger.Event{
		Call: ledger.Call{
			At: l.now, Operation: pick("operation", "bill.create", "bill.cancel"), Request: "r",
			Upstream: pick("backend", backends...), Member: "m", Merchant: pick("merchant", "a", "a", "a", "b", ""),
		},
		What: rapid.SampledFrom([]ledger.What{
			ledger.CreateBegun{Token: fmt.Sprint(l.made), Amount: read.Amount, Until: after("ends")},
			ledger.CreateEnded{
				Token: fmt.Sprint(rapid.IntRange(0, l.made).Draw(t, "create")),
				Outcome: rapid.SampledFrom([]ledger.Outcome{
					ledger.Succeeded, ledger.Refused, ledger.Taken, ledger.NotSent, ledger.Unknown,
				}).Draw(t, "outcome"),
			},
			ledger.Found{},
			ledger.Denied{UnderWay: 20 * time.Second},
			ledger.Assigned{},
			ledger.EndMoved{Until: after("moved")},
			ledger.WriteUnknown{Read: read, Next: after("read at")},
			ledger.Claimed{For: time.Minute},
			ledger.ReadEnded{Claimed: is.Due, Next: func(_, now time.Time) time.Time { return now.Add(time.Minute) }},
			ledger.Looked{
				Read: read, Final: state == "D", Absent: state == "", Said: rapid.Bool().Draw(t, "said"),
				Shows: ledger.Shows{
					Means: state, Whole: true, Amount: read.Amount, Exact: map[string]string{"number": read.Amount},
					Moves: ledger.Moves{"W": {"W", "F", "C", "D"}, "F": {"F", "C"}, "C": {"C"}, "D": {"D"}},
				},
			},
		}).Draw(t, "event"),
	}
	l.made++
	want, contradictions, refusal := ledger.Next(l.env, is, e)
	got, found, err := l.s.Apply(l.ctx, known, e)
	if as, _, no := ledger.Next(l.env, known, e); known.Version != 0 && !e.Decides() && no == nil && as.Same(known) {
		want = is // for a gateway that knows it as it was, nothing is new
	} else {
		equal(t, fmt.Sprint(err), fmt.Sprint(refusal), "the error")
		equal(t, found, contradictions, "what is contradicted")
		if want.Version = got.Version; err == nil {
			equal(t, got, want, "what is returned")
		}
	}
	stored, err := l.s.Bill(l.ctx, partnerOne, known.ID)
	must(t, err)
	want.Version = stored.Version
	equal(t, stored, want, "what is stored")
	l.bills[known.ID], l.known = stored, append(l.known, stored)
}

// Whatever events come in whatever order, from gateways that know the bill, knew it once or do not know it, the store
// has what the rules of package ledger make of it.
func TestLedgerModel(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "sqlite") {
			url = "memory:"
		}
		s := openSmall(t, url, 0)
		rapid.Check(t, func(rt *rapid.T) {
			l := &ledgerModel{ctx: t.Context(), s: s, bills: map[string]ledger.Bill{}, env: ledger.Env{
				Stamp:        func(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) },
				EstimatedEnd: func(now time.Time) time.Time { return now.Add(365 * 24 * time.Hour) },
				Name:         func(name string) string { return name },
				Text:         func(text string) string { return text },
			}}
			// It is stored in milliseconds and UTC.
			l.now = noon.Add(1500 * time.Microsecond).In(time.FixedZone("Seoul", 9*60*60))
			must(rt, s.Clear(l.ctx))
			rt.Repeat(map[string]func(*rapid.T){
				"apply": l.apply, "apply more": l.apply,
				"wait": func(t *rapid.T) {
					l.now = l.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
				},
			})
		})
	})
}

// Creates of the same bills at replicas succeed, are refused, get no answer or lose their process, while others are in
// progress. Those that may have taken effect count as if they had.
func TestNoBillIsAtBothUpstreams(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 3)
		const bills, callers, each = 40, 16, 40
		var mutex sync.Mutex
		at := map[string]map[string]bool{} // by bill: the upstreams where it may be
		var calling sync.WaitGroup
		for n := range callers {
			calling.Go(func() {
				random := rand.New(rand.NewPCG(uint64(n), 5))
				s := replicas[n%3]
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
