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

func addKey(t testing.TB, s *store.Store) (bills int) {
	t.Helper()
	bills, err := s.AddKey(t.Context(), twoKeys, "anna", noon, joined)
	must(t, err)
	return bills
}

// All rows of a key become those of its partner: nothing is under the key any more, in no table.
func TestRowsOfAKeyMoveToItsPartner(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s := open(t, url)
		for _, id := range []partner.ID{firstKey, secondKey} {
			name := id.Short()
			ownBill(t, s, id, "bill of "+name, "old", ledger.Succeeded)
			must(t, s.Seen(ctx, id, noon))
			must(t, s.Prove(ctx, id))
			must(t, s.Change(ctx, store.Change{Action: store.Staged, Partner: id, To: "stage of " + name, By: "kim", At: noon}))
			lostCancel(t, s, id, "lost by "+name, noon)
			must(t, proxytest.On(s).AtBoth(ctx, id, "doubled of "+name, ledger.Call{Operation: "bill.read", At: noon}))
			works(t)(s.Bind(ctx, keyAddress(id, name)))
			c := callback("callback of "+name, "b")
			c.Partner, c.Order = id, string(id)+" b"
			accept(t, s, c)
			works(t)(s.AddCounts(ctx, "v1", []store.Counts{{Partner: id, Operation: "bill.read", Data: []byte(name)}}, noon, joined))
			must(t, s.Change(ctx, store.Change{Action: store.Staged, Partner: id, By: "kim", At: noon}))
			must(t, s.Change(ctx, store.Change{Action: store.Staged, Partner: id, To: "stage of " + name, By: "kim", At: noon}))
		}
		must(t, s.CreateWave(ctx, store.Wave{Name: "autumn", Plan: "{}", By: "kim", Since: noon, Created: noon},
			[]store.WavePartner{{Partner: firstKey}, {Partner: secondKey}}))
		// That there was no such bill is known of both: what is later counts.
		for i, id := range []partner.ID{firstKey, secondKey} {
			works(t)(proxytest.On(s).Deny(ctx, id, "denied", noon.Add(time.Duration(i)*time.Minute), noon, ""))
			works(t)(proxytest.On(s).Deny(ctx, id, "bill of "+[]partner.ID{secondKey, firstKey}[i].Short(), noon, noon, ""))
		}
		bills, err := s.CheckKey(ctx, twoKeys)
		must(t, err)
		if added := addKey(t, s); bills != 3 || added != 3 {
			t.Errorf("%d bills before, %d when added, want 3", bills, added)
		}
		db := raw(t, url)
		moved := tablesOfPartners(t, url)
		for _, table := range moved {
			under, all := rowsOf(t, db, table, secondKey), rowsOf(t, db, table, firstKey)
			if table != "billbridge_audit" && under != 0 || all == 0 {
				t.Errorf("%s has %d rows under the key and %d of the partner: move them in AddKey", table, under, all)
			}
		}
		for _, id := range []partner.ID{firstKey, secondKey} {
			o, err := proxytest.On(s).Owner(ctx, firstKey, "bill of "+id.Short())
			if err != nil || o.Upstream != "old" || o.State != ledger.Owned {
				t.Errorf("%+v, %v", o, err)
			}
		}
		var ordering, denied string
		must(t, db.QueryRow("SELECT max(ordering) FROM billbridge_callbacks WHERE id = 'callback of "+secondKey.Short()+"'").Scan(&ordering))
		equal(t, ordering, string(firstKey)+" b", "the order of a callback")
		must(t, db.QueryRow("SELECT denied FROM billbridge_bills WHERE bill = 'denied'").Scan(&denied))
		equal(t, denied, fmt.Sprint(noon.Add(time.Minute).UnixMilli()), "when the bill was denied")
		counts, err := s.Counts(ctx, store.CountsFilter{})
		if err != nil || len(counts) != 1 || string(counts[0].Data) != firstKey.Short()+secondKey.Short() {
			t.Errorf("%v, %v", counts, err)
		}
		r := rolloutOf(t, s)
		if len(r.Stages) != 1 || r.Stages[0].Stage != "stage of "+firstKey.Short() || s.Identity(secondKey) != firstKey {
			t.Errorf("%+v, %s", r.Stages, s.Identity(secondKey))
		}
		gives(t, firstKey, "the digits of the key name")(s.Partner(ctx, secondKey[:12]))
		last := audit(t, s, 1)[0]
		last.At = time.Time{}
		equal(t, last, store.Change{Action: store.KeyAdded, By: "anna", Partner: firstKey, Subject: secondKey.Short(), From: "stage of " + secondKey.Short()}, "audit")
	})
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

// A gateway that has not read yet that a key is a further one records no bill under it. What else it records is the partner's.
func TestFurtherKeyHasNoRows(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		both := replicasOn(t, url, 2)
		s, late := both[0], both[1]
		ownBill(t, s, firstKey, "b1", "old", ledger.Succeeded)
		addKey(t, s)
		if both[0] != both[1] && late.Identity(secondKey) != secondKey {
			t.Fatal("the second gateway knows the key")
		}
		ctx := t.Context()
		_, owned := proxytest.On(late).Own(ctx, secondKey, "b1", "new", noon, noon.Add(time.Hour), "")
		_, found := proxytest.On(late).Found(ctx, secondKey, "b1", "new", noon, "")
		_, denied := proxytest.On(late).Deny(ctx, secondKey, "b2", noon, noon, "")
		for _, err := range []error{owned, found, denied, late.Change(ctx, store.Change{Action: store.Assigned, Partner: secondKey, Subject: "b1", To: "new", By: "kim", At: noon})} {
			fails(t, store.ErrFurtherKey)(err)
		}
		ownBill(t, late, firstKey, "b3", "old", ledger.Succeeded) // others are not held up
		must(t, late.Seen(ctx, secondKey, noon))
		must(t, late.Prove(ctx, secondKey))
		lostCancel(t, late, secondKey, "b1", noon)
		must(t, proxytest.On(late).AtBoth(ctx, secondKey, "b1", ledger.Call{Operation: "bill.read", At: noon}))
		works(t)(late.Bind(ctx, keyAddress(secondKey, "a1")))
		works(t)(late.AddCounts(ctx, "v1", []store.Counts{{Partner: secondKey, Operation: "bill.read", Data: []byte("x")}}, noon, joined))
		for _, table := range tablesOfPartners(t, url) {
			equal(t, rowsOf(t, raw(t, url), table, secondKey), 0, table)
		}
		_ = rolloutOf(t, late)
		equal(t, late.Identity(secondKey), firstKey, "the identity at the second gateway")
		equal(t, open2(t, url, s).Identity(secondKey), firstKey, "after a restart")
	})
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
			_, err := s.AddKey(t.Context(), twoKeys, "anna", noon, joined)
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
		_, err := s.AddKey(t.Context(), twoKeys, "anna", noon, joined)
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

// open2 opens a store again; with SQLite the first one is the only one.
func open2(t *testing.T, url string, s *store.Store) *store.Store {
	t.Helper()
	if strings.HasPrefix(url, "sqlite") {
		must(t, s.Close())
	}
	return open(t, url)
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
			_, err := s.Dismiss(t.Context(), firstKey, fmt.Sprint("other ", n), "", "kim", at)
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
				_, err := s.AddKey(ctx, store.PartnerKey{Key: id, Partner: firstKey}, "anna", noon, joined)
				close(ended)
				writing.Wait()
				if err != nil {
					t.Fatalf("%d: %v", i, err)
				}
			}
		})
	}
}
