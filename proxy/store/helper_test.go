package store_test

import (
	"crypto/sha256"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// noon is the first time of the tests' clocks.
var noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

var partnerOne, partnerTwo = partner.Of("one"), partner.Of("two")

func init() { store.NewPostgres = proxytest.Postgres }

// open opens a store that is closed with the test.
func open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	return closed(t, s, err)
}

func openSmall(t testing.TB, url string, pages int) *store.Store {
	t.Helper()
	s, err := store.OpenSmall(t.Context(), url, pages)
	return closed(t, s, err)
}

func closed(t testing.TB, s *store.Store, err error) *store.Store {
	t.Helper()
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// each runs a test on a new store of every engine.
func each(t *testing.T, test func(t *testing.T, s *store.Store)) {
	t.Helper()
	eachURL(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

// eachURL runs a test on a new database of every engine that outlives its process.
func eachURL(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Parallel()
	proxytest.Each(t, test)
}

// replicasOn are the stores of n replicas. With SQLite all are the same store.
func replicasOn(t testing.TB, url string, n int) []*store.Store {
	t.Helper()
	replicas := slices.Repeat([]*store.Store{open(t, url)}, n)
	if strings.HasPrefix(url, "postgres") {
		for i := range replicas[1:] {
			replicas[1+i] = open(t, url)
		}
	}
	return replicas
}

// raw opens the database of a URL without the store.
func raw(t testing.TB, url string) *sql.DB {
	t.Helper()
	driver, source := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source = "sqlite", path
	}
	db, err := sql.Open(driver, source)
	must(t, err)
	db.SetMaxOpenConns(1) // so that a lock and its end are of one connection
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func run(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// callback is a callback received at noon. Its digest is the hash of its id, its order that of its bill.
func callback(id, bill string) store.Callback {
	return store.Callback{Notice: store.Notice{
		ID: id, Address: "address-of-" + bill, Upstream: "new", Partner: partnerOne, Bill: bill, Form: "v2",
		URL: "https://one.example.com/paid", Host: "one.example.com", Order: "new/" + bill, Digest: sha256.Sum256([]byte(id)),
		ContentType: "application/json", Body: []byte(`{"id":"` + id + `"}`), Received: noon,
	}}
}

// accept stores callbacks, each of which must be new.
func accept(t testing.TB, s *store.Store, callbacks ...store.Callback) {
	t.Helper()
	for _, c := range callbacks {
		fresh, err := isFresh(s.Accept(t.Context(), c, time.Minute))
		if err != nil || !fresh {
			t.Fatalf("Accept(%s) = %v, %v", c.ID, fresh, err)
		}
	}
}

// isFresh is what Accept returns, in short.
func isFresh(got store.Accepted, err error) (bool, error) { return got.Fresh, err }

// claim claims the callbacks that are due at a time, with high limits.
func claim(t testing.TB, s *store.Store, now time.Time) []store.Claimed {
	t.Helper()
	claimed, err := s.Claim(t.Context(), now, time.Minute, 1000, 1000, 1000, nil)
	must(t, err)
	return claimed
}

// finish ends an attempt in a state; the next is a minute later.
func finish(t testing.TB, s *store.Store, c store.Claimed, at time.Time, state store.State) {
	t.Helper()
	if _, err := s.Finish(t.Context(), c, store.Result{At: at, Status: 500, Outcome: "made up", State: state, Next: at.Add(time.Minute)}); err != nil {
		t.Fatalf("Finish(%s): %v", c.ID, err)
	}
}

// become accepts a callback and changes it to a state at noon.
func become(t testing.TB, s *store.Store, c store.Callback, state store.State) {
	t.Helper()
	accept(t, s, c)
	for _, claimed := range claim(t, s, noon) {
		if claimed.ID == c.ID {
			finish(t, s, claimed, noon, state)
		}
	}
	if got := get(t, s, c.ID); got.State != state {
		t.Fatalf("%s is %s, not %s", c.ID, got.State, state)
	}
}

func get(t testing.TB, s *store.Store, id string) store.Callback {
	t.Helper()
	c, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get(%s): %v", id, err)
	}
	return c
}

// onePage is the callbacks of one page, which has all if they are few.
func onePage(t testing.TB, s *store.Store, f store.Filter) ([]store.Callback, error) {
	t.Helper()
	p, err := s.Page(t.Context(), f)
	return p.Callbacks, err
}

// own records a create of a bill without an end, at noon.
func own(t testing.TB, s *store.Store, bill, upstream string) proxytest.Create {
	t.Helper()
	return ownUntil(t, s, bill, upstream, noon, time.Time{})
}

func ownUntil(t testing.TB, s *store.Store, bill, upstream string, now, until time.Time) proxytest.Create {
	t.Helper()
	c, err := proxytest.On(s).Own(t.Context(), partnerOne, bill, upstream, now, until, "")
	if err != nil {
		t.Fatalf("Own(%s, %s): %v", bill, upstream, err)
	}
	return c
}

// settle completes a create at noon, which must succeed.
func settle(t testing.TB, s *store.Store, c proxytest.Create, outcome ledger.Outcome) proxytest.Owner {
	t.Helper()
	o, err := proxytest.On(s).Complete(t.Context(), c, outcome, noon)
	if err != nil {
		t.Fatalf("Settle(%s, %s): %v", c.Bill, outcome, err)
	}
	return o
}

func ownerOf(t testing.TB, s *store.Store, bill string) proxytest.Owner {
	t.Helper()
	o, err := proxytest.On(s).Owner(t.Context(), partnerOne, bill)
	if err != nil {
		t.Fatalf("Owner(%s): %v", bill, err)
	}
	return o
}

// ids are the ids of callbacks, in their order.
func ids[C store.Callback | store.Claimed](callbacks []C) []string {
	var all []string
	for _, c := range callbacks {
		switch c := any(c).(type) {
		case store.Callback:
			all = append(all, c.ID)
		case store.Claimed:
			all = append(all, c.ID)
		}
	}
	return all
}

// upper is an ID in upper case, which the store refuses.
func upper(id partner.ID) partner.ID { return partner.ID(strings.ToUpper(string(id))) }

var (
	must, works  = proxytest.Must, proxytest.Works
	lacks        = proxytest.Lacks
	gives, fails = proxytest.Gives, proxytest.Fails
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}
