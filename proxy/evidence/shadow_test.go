package evidence_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

type asking = func(context.Context) evidence.Answer

// says is an upstream that answers at once.
func says(a evidence.Answer) asking {
	return func(context.Context) evidence.Answer { return a }
}

// after is an upstream that answers after some time, or when the call is cancelled.
func after(d time.Duration, a evidence.Answer) asking {
	return func(ctx context.Context) evidence.Answer {
		select {
		case <-time.After(d):
			return a
		case <-ctx.Done():
			return evidence.Answer{}
		}
	}
}

// notCalled is an upstream that must not be called.
func notCalled(t testing.TB) asking {
	return func(context.Context) evidence.Answer {
		t.Error("an upstream was called")
		return evidence.Answer{}
	}
}

type stage struct {
	*evidence.Shadow
	t        testing.TB
	counts   *evidence.Counts
	registry *prometheus.Registry
	table    map[string]evidence.Shadowed
}

func newStage(t testing.TB, c config.Shadow, overlays ...string) *stage {
	t.Helper()
	compiled := compileTable(t, overlays...)
	s := &stage{t: t, counts: evidence.NewCounts(compiled.Version, time.Now), registry: prometheus.NewRegistry()}
	s.Shadow = evidence.NewShadow(c, s.counts, s.registry, slog.New(slog.DiscardHandler))
	s.table = map[string]evidence.Shadowed{}
	for _, o := range compiled.Operations {
		s.table[o.Name] = evidence.Shadowed{ID: "id", Partner: someone, Operation: o}
	}
	return s
}

func (s *stage) offer(first evidence.Answer, other, again asking) bool {
	c := s.table["bill.read"]
	c.First, c.Other, c.Again = first, other, again
	return s.Offer(c)
}

// metrics are the metrics that are not 0.
func (s *stage) metrics() string {
	s.t.Helper()
	families, err := s.registry.Gather()
	must(s.t, err)
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue() > 0 {
				all = append(all, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetCounter().GetValue()))
			}
		}
	}
	return strings.Join(all, ", ")
}

var whole = config.Shadow{InFlight: 32}

// A difference counts only if the first upstream answers the same again, and the other one still differs.
func TestDifferencesAreConfirmed(t *testing.T) {
	t.Parallel()
	unpaid, paid := answer("v2", `{"billId":"1","apprState":"W"}`), v2(`,"apprPrice":"1000"`)
	gone := answer("v2", `{"code":"BILL_003","message":"","data":null}`)
	for name, test := range map[string]struct {
		first, other evidence.Answer
		again        asking
		want         string
	}{
		"alike":                           {paid, legacy(`,"appr_price":"1000"`), notCalled(t), "same 1"},
		"paid in between":                 {unpaid, legacy(`,"appr_price":"1000"`), says(paid), "moved 1"},
		"still another":                   {paid, legacy(`,"appr_price":"1001"`), says(paid), "differs 1"},
		"another each time":               {v2(`,"apprNum":"1"`), legacy(`,"appr_num":"2"`), says(v2(`,"apprNum":"3"`)), "moved 1"},
		"one that moved and one that not": {v2(`,"apprNum":"1","apprPrice":"1"`), legacy(`,"appr_num":"2","appr_price":"2"`), says(v2(`,"apprNum":"3","apprPrice":"1"`)), "differs 1"},
		"refused in between":              {paid, legacy(`,"appr_price":"1001"`), says(answer("v2", `{"code":"PARTNER_006","message":"","data":null}`)), "moved 1"},
		"gone in between":                 {paid, legacy(``), says(gone), "not_there 1"},
		"not there":                       {paid, answer("legacy", `{"code":"9980","msg":""}`), notCalled(t), "not_there 1"},
		"no answer":                       {paid, answer("legacy", ``), notCalled(t), "unclear 1"},
		"no answer when asked again":      {paid, legacy(``), says(answer("v2", ``)), "unclear 1"},
		"broke off":                       {paid, evidence.Answer{}, nil, "unclear 1"},
		"a panic":                         {paid, legacy(``), func(context.Context) evidence.Answer { panic("here") }, "unclear 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, whole)
			s.offer(test.first, says(test.other), test.again)
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if got := s.metrics(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			// The success of the first upstream shows that the partner exists: the call is counted, whatever the other answers.
			if counts := s.counts.Snapshot(); len(counts) != 1 && name != "a panic" {
				t.Errorf("%+v", counts)
			}
			for _, n := range s.counts.Snapshot() {
				for path := range n.Fields {
					if n.Differed != 1 || path != "apprPrice" || n.Fields[path].Kind != evidence.InMoney {
						t.Errorf("%+v", n)
					}
				}
			}
		})
	}
}

// No upstream is called because of a write, whatever its operation.
func TestWritesAreNeverShadowed(t *testing.T) {
	t.Parallel()
	s := newStage(t, whole)
	n := 0
	for name, c := range s.table {
		if c.Operation.Effect == "read" {
			continue
		}
		n++
		c.Other, c.Again = notCalled(t), notCalled(t)
		if s.Offer(c) {
			t.Error(name)
		}
	}
	if err := s.Close(t.Context()); err != nil || n == 0 {
		t.Error(n, err)
	}
}

// A comparison above the limit is dropped at once and counted, as one of a long answer is. A place is free again when a
// comparison ends.
func TestShadowIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, config.Shadow{InFlight: 3})
		var now, most atomic.Int64
		other := func(ctx context.Context) evidence.Answer {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return after(time.Second, legacy(``))(ctx)
		}
		begin, long := time.Now(), v2(`,"apprIssuer":"`+strings.Repeat("x", evidence.MostBody)+`"`)
		for range 2 {
			taken := 0
			for range 10 {
				if s.offer(long, notCalled(t), notCalled(t)) {
					t.Error("a long answer is compared")
				}
				if s.offer(v2(``), other, notCalled(t)) {
					taken++
				}
			}
			if taken != 3 || time.Since(begin)%time.Second != 0 {
				t.Errorf("%d were taken, want 3, after %s", taken, time.Since(begin))
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if err := s.Close(t.Context()); err != nil || most.Load() > 3 {
			t.Errorf("%d at once, %v", most.Load(), err)
		}
		if got, want := s.metrics(), "same 6, skipped 34"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if s.offer(v2(``), notCalled(t), notCalled(t)) {
			t.Error("taken after the end")
		}
	})
}

// Close waits for comparisons in progress until its context ends, and then cancels them.
func TestCloseWaitsAndThenCancels(t *testing.T) {
	t.Parallel()
	for within, want := range map[time.Duration]string{time.Second: "", time.Minute: "same 1"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, whole)
			s.offer(v2(``), after(10*time.Second, legacy(``)), notCalled(t))
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			begin := time.Now()
			if err := s.Close(ctx); errors.Is(err, context.DeadlineExceeded) != (within == time.Second) || time.Since(begin) != min(within, 10*time.Second) {
				t.Errorf("%v after %s", err, time.Since(begin))
			}
			if got := s.metrics(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}) // it fails if a goroutine is left
	}
}

// The caller may reuse its buffers as soon as Offer has returned.
func TestShadowCopiesTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, whole)
		first := v2(`,"apprPrice":"1000"`)
		s.offer(first, after(time.Second, legacy(`,"appr_price":"1000"`)), notCalled(t))
		clear(first.Body)
		clear(first.Request)
		if err := s.Close(t.Context()); err != nil || s.metrics() != "same 1" {
			t.Error(s.metrics(), err)
		}
	})
}

// An example has the values by backend, and the bill, the call and its time.
func TestExamplesNameBackendBillAndCall(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC)
	s := newStage(t, whole)
	c := s.table["bill.read"]
	c.ID, c.At, c.First = "call-1", at, legacy(`,"appr_price":"20000","appr_issuer":"김하늘"`)
	c.Other, c.Again = says(v2(`,"apprPrice":30000,"apprIssuer":"박"`)), says(c.First)
	if !s.Offer(c) {
		t.Fatal("not taken")
	}
	must(t, s.Close(t.Context()))
	want := map[string]evidence.Field{
		"apprPrice":  {Difference: evidence.Difference{Path: "apprPrice", Kind: evidence.InMoney, Old: "20000", New: "30000"}, Count: 1, Bill: "1", Request: "call-1", At: at},
		"apprIssuer": {Difference: evidence.Difference{Path: "apprIssuer", Kind: evidence.InOther, Old: "•••", New: "•••"}, Count: 1, Bill: "1", Request: "call-1", At: at},
	}
	if diff := cmp.Diff(want, s.counts.Snapshot()[0].Fields); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
