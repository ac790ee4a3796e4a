package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

var (
	firstKey, secondKey = partner.Of("first key"), partner.Of("second key")
	twoKeys             = store.PartnerKey{Key: secondKey, Partner: firstKey}
)

func joined(have, more []byte) ([]byte, error) { return slices.Concat(have, more), nil }

// ownBill records a bill, with the outcome of its create; with "" the create stays open.
func ownBill(t testing.TB, s *store.Store, id partner.ID, bill, upstream string, outcome ledger.Outcome) {
	t.Helper()
	c, err := proxytest.On(s).Own(t.Context(), id, bill, upstream, noon, noon.Add(time.Hour), "")
	must(t, err)
	if outcome != "" {
		works(t)(proxytest.On(s).Complete(t.Context(), c, outcome, noon))
	}
}

// keyAddress is the address of a bill of the same name.
func keyAddress(id partner.ID, bill string) store.Address {
	return store.Address{ID: bill, Upstream: "old", Operation: "bill.create", Partner: id, Bill: bill, Form: "v2", URL: "https://one.example.com", Created: noon}
}

// lostCancel records a cancel of a bill whose outcome is unknown.
func lostCancel(t testing.TB, s *store.Store, id partner.ID, bill string, next time.Time) {
	t.Helper()
	call := ledger.Call{Operation: "bill.cancel", Upstream: "old", At: noon}
	must(t, proxytest.On(s).NoAnswer(t.Context(), id, bill, call, ledger.Reading{Finding: "not read"}, next))
}

// moved are the tables with rows that are still under the second key, and those without rows of its partner.
func moved(t *testing.T, url string) (under, lacking []string) {
	t.Helper()
	for _, table := range tablesOfPartners(t, url) {
		if rowsOf(t, raw(t, url), table, secondKey) > 0 {
			under = append(under, table)
		}
		if rowsOf(t, raw(t, url), table, firstKey) == 0 {
			lacking = append(lacking, table)
		}
	}
	return under, lacking
}

// rowsOf is the number of rows of a table that a partner has.
func rowsOf(t *testing.T, db *sql.DB, table string, id partner.ID) (n int) {
	t.Helper()
	must(t, db.QueryRow("SELECT count(*) FROM "+table+" WHERE partner = '"+string(id)+"'").Scan(&n))
	return n
}

// tablesOfPartners are the tables with a column partner, but for that of keys.
func tablesOfPartners(t *testing.T, url string) (tables []string) {
	t.Helper()
	query := "SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'partner'"
	if strings.HasPrefix(url, "postgres") {
		query = "SELECT table_name FROM information_schema.columns WHERE column_name = 'partner' AND table_schema = current_schema()"
	}
	rows, err := raw(t, url).Query(query)
	must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		if name != "billbridge_partner_keys" {
			tables = append(tables, name)
		}
	}
	must(t, rows.Err())
	if len(tables) < 9 {
		t.Fatal(tables)
	}
	return tables
}

// While creates are recorded under a key by another gateway, the key becomes one of its partner: no row is left under the key.
func TestKeyIsAddedWhileBillsAreRecorded(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		both := replicasOn(t, url, 2)
		s, late := both[0], both[1]
		var recording sync.WaitGroup
		var recorded atomic.Int64
		for worker := range 4 {
			recording.Go(func() {
				for i := 0; ; i++ {
					bill := fmt.Sprintf("b%d-%d", worker, i%1000) // at most 5,000 bills can become those of another partner
					c, err := proxytest.On(late).Own(t.Context(), secondKey, bill, "old", noon, noon.Add(time.Hour), "")
					if errors.Is(err, store.ErrFurtherKey) {
						return
					}
					if err == nil {
						_, err = proxytest.On(late).Complete(t.Context(), c, ledger.Succeeded, noon)
					}
					if i >= 1000 && errors.Is(err, store.ErrFurtherKey) { // the create of an existing bill holds up no key
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if i < 1000 {
						recorded.Add(1)
					}
				}
			})
		}
		for {
			_, err := s.AddKey(t.Context(), twoKeys, store.Author{Name: "anna"}, noon, joined)
			if conflict := (*store.KeyConflict)(nil); errors.As(err, &conflict) && strings.Contains(conflict.Text, "under way") {
				continue
			}
			must(t, err)
			break
		}
		recording.Wait()
		db := raw(t, url)
		under, all := rowsOf(t, db, "billbridge_bills", secondKey), rowsOf(t, db, "billbridge_bills", firstKey)
		if under != 0 || int64(all) != recorded.Load() {
			t.Errorf("%d rows are under the key, %d are the partner's, %d were recorded", under, all, recorded.Load())
		}
	})
}

// What another gateway is recording under the key at this moment is waited for, and becomes the partner's.
func TestKeyWaitsForBillsThatAreBeingRecorded(t *testing.T) {
	t.Parallel()
	s := addedAfter(t, "INSERT INTO billbridge_bills (partner, bill, version, upstream, state, also_at, ends, estimated, data) VALUES ($1, 'b1', 1, 'old', 'owned', '', 1, 0, '{}')", string(secondKey))
	o, err := proxytest.On(s).Owner(t.Context(), firstKey, "b1")
	must(t, err)
	equal(t, o.State, ledger.Owned)
}

// A callback that is being stored at this moment is waited for.
func TestKeyWaitsForCallbacks(t *testing.T) {
	t.Parallel()
	addedAfter(t, "LOCK TABLE billbridge_callbacks IN ROW EXCLUSIVE MODE") // as each INSERT does
}

// addedAfter adds a key to a store in PostgreSQL, which must wait until another gateway has committed a statement.
func addedAfter(t *testing.T, statement string, arguments ...any) *store.Store {
	t.Helper()
	url := proxytest.Postgres(t)
	s, db := open(t, url), raw(t, url)
	other, err := raw(t, url).BeginTx(t.Context(), nil)
	must(t, err)
	works(t)(other.Exec(statement, arguments...))
	added := make(chan error, 1)
	go func() {
		_, err := s.AddKey(t.Context(), twoKeys, store.Author{Name: "anna"}, noon, joined)
		added <- err
	}()
	proxytest.Eventually(t, func() bool {
		waits := 0
		must(t, db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%'").Scan(&waits))
		if len(added) > 0 {
			t.Fatal("the key was added without a wait")
		}
		return waits > 0
	}, func() string { return "nothing waits" })
	must(t, other.Commit())
	must(t, <-added)
	return s
}

// What other gateways write meanwhile does not deadlock with a key that is added: each row is written before or after.
func TestKeyIsAddedWithoutDeadlock(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(t *testing.T, s *store.Store, id partner.ID, at time.Time, n int) error{
		"ClaimRead": func(t *testing.T, s *store.Store, id partner.ID, at time.Time, _ int) error {
			_, err := s.ClaimRead(t.Context(), id, store.Due{Bills: at, Looks: at}, at)
			return err
		},
		"Dismiss": func(t *testing.T, s *store.Store, id partner.ID, at time.Time, n int) error {
			lostCancel(t, s, firstKey, fmt.Sprint("other ", n), noon)
			_, err := s.Dismiss(t.Context(), firstKey, fmt.Sprint("other ", n), "", store.Author{Name: "kim"}, at)
			return err
		},
		"Rebind": func(t *testing.T, s *store.Store, id partner.ID, at time.Time, n int) error {
			_, err := s.Bind(t.Context(), keyAddress(id, fmt.Sprint("other ", n)), store.Change{Action: store.AddressAssigned, By: "kim", At: at, Partner: id})
			return err
		},
		"Bind and Own": func(t *testing.T, s *store.Store, id partner.ID, at time.Time, n int) error {
			var calling sync.WaitGroup
			for i := range 4 {
				calling.Go(func() {
					bill := fmt.Sprint("batch ", n, " ", i)
					works(t)(s.Bind(t.Context(), keyAddress(id, bill)))
				})
				calling.Go(func() {
					if _, err := proxytest.On(s).Own(t.Context(), partner.Of("another"), fmt.Sprint("batch ", n, " ", i), "old", noon, time.Time{}, ""); err != nil {
						t.Error(err)
					}
				})
			}
			calling.Wait()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			url := proxytest.Postgres(t)
			s := open(t, url)
			other, err := store.Open(ctx, url)
			_ = closed(t, other, err)
			for i := range 15 {
				id := partner.Of(fmt.Sprint("key ", i))
				for n := range 20 {
					bill := fmt.Sprint("b", i, " ", n)
					a := keyAddress(id, bill)
					a.Look = noon.Add(time.Minute)
					works(t)(s.Bind(ctx, a))
					lostCancel(t, s, id, bill, noon.Add(time.Minute))
				}
				var writing sync.WaitGroup
				ended := make(chan struct{})
				for worker := range 3 {
					writing.Go(func() {
						for n := 0; ; n++ {
							at := noon.Add(time.Duration(n+1) * 10 * time.Minute)
							if err := write(t, other, id, at, i*1000000+n*3+worker); err != nil && !errors.Is(err, store.ErrNotFound) {
								t.Errorf("%d: %v", i, err)
								return
							}
							select {
							case <-ended:
								return
							default:
							}
						}
					})
				}
				_, err := s.AddKey(ctx, store.PartnerKey{Key: id, Partner: firstKey}, store.Author{Name: "anna"}, noon, joined)
				close(ended)
				writing.Wait()
				if err != nil {
					t.Fatalf("%d: %v", i, err)
				}
			}
		})
	}
}
