package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A result is what a caller of Own got.
type result struct {
	proxytest.Create
	err error
}

// ownTogether records creates in one transaction, each of its own caller. The i-th bill is for the i-th upstream.
func ownTogether(t *testing.T, s *store.Store, url string, bills, upstreams []string) []result {
	t.Helper()
	release := func() {}
	postgres := strings.HasPrefix(url, "postgres")
	if postgres {
		s.Together(len(bills))
	} else {
		release = s.Hold()
	}
	results := make([]result, len(bills))
	var calling sync.WaitGroup
	for i := range bills {
		calling.Go(func() {
			results[i].Create, results[i].err = proxytest.On(s).Own(t.Context(), partnerOne, bills[i], upstreams[i], noon, time.Time{}, "")
		})
		if !postgres { // in this order
			proxytest.Eventually(t, func() bool { return s.Waiting() == i+1 }, nil)
		}
	}
	release()
	calling.Wait()
	return results
}

// Of two creates of a bill in one transaction, the second goes where the first goes. Every caller gets the result of its own bill.
func TestCreatesOfOneBillInOneTransaction(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		bills := []string{"b9", "twice", "b1", "twice", "b5"}
		results := ownTogether(t, s, url, bills, []string{"u9", "old", "u1", "new", "u5"})
		for i, r := range results {
			if r.err != nil || r.Bill != bills[i] {
				t.Errorf("the create of %s: %q, %v", bills[i], r.Bill, r.err)
			}
		}
		equal(t, []string{results[0].Upstream, results[2].Upstream, results[4].Upstream}, []string{"u9", "u1", "u5"}, "upstreams of other bills")
		equal(t, results[3].Upstream, results[1].Upstream, "upstream of the second create")
		equal(t, results[1].Open+results[3].Open, 3, "open creates that the two saw")
		equal(t, ownerOf(t, s, "twice").Open, 2, "open creates")
	})
}

// If the server refuses one create of a batch, its caller alone gets the error.
func TestRefusedCreateDoesNotFailItsBatch(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	s := open(t, url)
	run(t, raw(t, url),
		"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refused here''; END'",
		"CREATE TRIGGER refuse BEFORE INSERT ON billbridge_bills FOR EACH ROW WHEN (NEW.bill = 'bad') EXECUTE FUNCTION refuse()")
	bills := []string{"b1", "bad", "b2", "b3"}
	for i, r := range ownTogether(t, s, url, bills, []string{"u1", "u2", "u3", "u4"}) {
		if bad := bills[i] == "bad"; bad != (r.err != nil) || bad && !strings.Contains(r.err.Error(), "refused here") {
			t.Errorf("%s: %v", bills[i], r.err)
		}
		if bills[i] == "bad" {
			continue
		}
		equal(t, ownerOf(t, s, bills[i]).Upstream, fmt.Sprint("u", i+1), "the owner of "+bills[i])
	}
}

// A callback that cannot be stored does not fail those that come with it.
func TestUnstorableCallbackDoesNotFailItsBatch(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.Postgres(t))
	s.Together(2)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var calling sync.WaitGroup
	for _, bill := range []string{"b1", "b2", "bad"} {
		calling.Go(func() {
			c := callback("c-"+bill, bill)
			if bill == "bad" {
				c.ContentType = "text/\xff"
			}
			fresh, err := isFresh(s.Accept(ctx, c, time.Minute))
			if refused := err != nil && strings.Contains(err.Error(), "not a text that can be stored"); fresh == refused || refused != (bill == "bad") {
				t.Error(bill, fresh, err)
			}
		})
	}
	calling.Wait()
}

// Another replica locks the row of one bill. Its caller waits, or leaves; the callers of the other bills in the batch do not wait for
// it.
func TestLockedBillDoesNotHoldUpItsBatch(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	s := open(t, url)
	s.Together(2)
	other, err := raw(t, url).Begin()
	must(t, err)
	defer func() { _ = other.Rollback() }()
	works(t)(other.Exec(`INSERT INTO billbridge_bills (partner, bill, version, upstream, state, also_at, ends, estimated, data) VALUES ($1, 'locked', 1, 'old', 'owned', '', 0, 0, '{}')`,
		partnerOne))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := proxytest.On(s).Own(ctx, partnerOne, "locked", "new", noon, time.Time{}, "")
		left <- err
	}()
	equal(t, own(t, s, "free", "new").Upstream, "new", "the owner of the other bill")
	select {
	case err := <-left:
		t.Error("the caller of the locked bill did not wait:", err)
	default:
	}
	leave()
	fails(t, context.Canceled)(<-left)
}

// If the server ends the connection in the middle of a batch, its callers get an error and nothing is recorded. Later calls work.
func TestKilledConnectionInABatch(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	const victim = "victim-of-TestKilledConnectionInABatch"
	s, watch, db := open(t, url+"&application_name="+victim), raw(t, url), raw(t, url)
	s.Together(3)
	const held = "20261122"
	run(t, db,
		"CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock("+held+"); RETURN NEW; END'",
		"CREATE TRIGGER hold BEFORE INSERT ON billbridge_bills FOR EACH ROW WHEN (NEW.bill = 'b3') EXECUTE FUNCTION hold()",
		"SELECT pg_advisory_lock("+held+")")
	var calling sync.WaitGroup
	for n := range 3 {
		calling.Go(func() {
			fails(t, "", n+1)(proxytest.On(s).Own(t.Context(), partnerOne, fmt.Sprint("b", n+1), "new", noon, time.Time{}, ""))
		})
	}
	proxytest.Eventually(t, func() bool { return waits(t, watch, victim) }, nil)
	run(t, watch, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = '"+victim+"'")
	calling.Wait()
	run(t, db, "SELECT pg_advisory_unlock("+held+")")
	for n := range 3 {
		if o, err := proxytest.On(s).Owner(t.Context(), partnerOne, fmt.Sprint("b", n+1)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("b%d: %v, %v", n+1, o, err)
		}
	}
	s.Together(1)
	own(t, s, "b3", "new")
}
