package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// The completion of a create writes to no index of PostgreSQL.
func TestCompletionWritesToNoIndex(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	s := open(t, url)
	const bills = 200
	s.Together(bills) // all in one transaction: each page needs room for the new rows of all of its old ones
	var creates [bills]proxytest.Create
	for _, step := range []func(i int){
		func(i int) { creates[i] = own(t, s, fmt.Sprint("b", i), "old") },
		func(i int) { settle(t, s, creates[i], ledger.Succeeded) },
	} {
		var calling sync.WaitGroup
		for i := range bills {
			calling.Go(func() { step(i) })
		}
		calling.Wait()
	}
	if err := s.Close(); err != nil { // connections report their counters when they end
		t.Fatal(err)
	}
	db := raw(t, url)
	var updates, hot int
	proxytest.Eventually(t, func() bool {
		err := db.QueryRow("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'billbridge_bills'::regclass").Scan(&updates, &hot)
		return err == nil && updates >= bills
	}, func() string { return fmt.Sprintf("%d updates are counted", updates) })
	if hot < bills*9/10 {
		t.Errorf("%d of %d updates of owners wrote to no index", hot, updates)
	}
}

// The removal of old rows pauses between its batches, and ends with its context in a pause.
func TestRemovalPausesBetweenBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := store.OpenSmall(t.Context(), "memory:", 0)
		must(t, err)
		const batch, batches = 10, 4
		for i := range batch*batches + 1 {
			settle(t, s, own(t, s, fmt.Sprint("b", i), "old"), ledger.Refused)
		}
		later := noon.Add(time.Hour)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(store.Pause/2, cancel)
		if n, err := s.SweepBills(ctx, later, later, 0); n != batch || !errors.Is(err, context.Canceled) {
			t.Errorf("SweepBills = %d, %v", n, err)
		}
		equal(t, time.Since(began), store.Pause/2, "the part of the pause")
		began = time.Now()
		gives(t, batch*(batches-1)+1, "SweepBills")(s.SweepBills(t.Context(), later, later, 0))
		equal(t, time.Since(began), (batches-1)*store.Pause, "the pauses")
		must(t, s.Close())
	})
}
