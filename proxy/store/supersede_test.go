package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// answered ends an attempt at the only due callback with HTTP 201, and returns the ids of the callbacks that end for a newer one.
func answered(t testing.TB, s *store.Store, at time.Time) []string {
	t.Helper()
	due := claim(t, s, at)
	if len(due) != 1 {
		t.Fatalf("%d are due", len(due))
	}
	ended, err := s.Finish(t.Context(), due[0], store.Result{
		At: at, Status: 201, Outcome: "answer", Reason: "HTTP 201 but an empty body", State: store.Waiting, Next: at.Add(time.Second),
	})
	must(t, err)
	return idsOf(ended)
}

// The third answer to an older callback and a newer one, at two replicas at the same time: one of them supersedes the older one.
func TestSupersededAtTheSameTime(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		for i := range proxytest.Size(12, 50) {
			bill, at := fmt.Sprint("b", i), noon.Add(time.Duration(i)*time.Hour)
			older, newer := callback(bill+" older", bill), callback(bill+" newer", bill)
			older.Received, newer.Received = at, at
			accept(t, replicas[0], older)
			answered(t, replicas[0], at)
			answered(t, replicas[0], at.Add(time.Second))
			due := claim(t, replicas[0], at.Add(2*time.Second))
			var ended [2][]store.Supersession
			var both sync.WaitGroup
			both.Go(func() {
				var err error
				ended[0], err = replicas[0].Finish(t.Context(), due[0], store.Result{At: at, Status: 201, State: store.Waiting, Next: at})
				if err != nil {
					t.Error(err)
				}
			})
			both.Go(func() {
				var err error
				got, err := replicas[1].Accept(t.Context(), newer, time.Minute)
				if ended[1] = got.Ended; err != nil {
					t.Error(err)
				}
			})
			both.Wait()
			if n := len(ended[0]) + len(ended[1]); n != 1 || get(t, replicas[0], older.ID).State != store.Superseded {
				t.Fatalf("%s: %d ended, %s", bill, n, get(t, replicas[0], older.ID).State)
			}
			next := claim(t, replicas[1], at.Add(time.Minute))
			finish(t, replicas[1], next[0], at, store.Delivered)
		}
	})
}
