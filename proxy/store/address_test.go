package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

func address(id, bill string) store.Address {
	return store.Address{
		ID: id, Upstream: "new", Operation: "bill.create", Partner: partner.Of("one"), Bill: bill, Form: "legacy",
		URL: "https://one.example.com/paid?a=b", Created: noon, Until: noon.Add(24 * time.Hour),
	}
}

func registration(id, in string, created time.Time) store.Address {
	return store.Address{
		ID: id, Upstream: "old", Operation: "mapping.register", Partner: partner.Of("one"), Store: in, Form: "v2",
		URL: "https://one.example.com/paid", Created: created,
	}
}

func bind(t testing.TB, s *store.Store, addresses ...store.Address) {
	t.Helper()
	for _, a := range addresses {
		if id, err := s.Bind(t.Context(), a); err != nil || id != a.ID {
			t.Fatalf("Bind(%s): %v", a.ID, err)
		}
	}
}

// bound returns which of the addresses the store still has.
func bound(t testing.TB, s *store.Store, ids ...string) (there []string) {
	t.Helper()
	for _, id := range ids {
		_, err := s.Address(t.Context(), id)
		if err == nil {
			there = append(there, id)
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return there
}

// An address is read back unchanged.
func TestAddressIsReadBackUnchanged(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		all := []store.Address{
			address("a", "bill-1"), address("b", "bill-1"),
			registration("c", "매장 1", noon), registration("d", "매장 2", noon.Add(time.Hour)),
			address("e", ""), address("f", ""), // a create without a bill id is no registration
		}
		bind(t, s, all...)
		for _, want := range all {
			got, err := s.Address(t.Context(), want.ID)
			must(t, err)
			equal(t, want.ID, got, want)
		}
		for _, id := range []string{"", "x", "A", "a ", "a\x00", "\xff"} {
			if _, err := s.Address(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Address(%q): %v", id, err)
			}
		}
	})
}

func TestBindRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		bind(t, s, address("known", "b"))
		for name, a := range map[string]store.Address{
			"no id":       address("", "b"),
			"no time":     registration("a", "s", time.Time{}),
			"a zero byte": address("a", "b\x00"),
			"a known id":  address("known", "c"),
			"a known one": registration("known", "s", noon),
			"both":        {ID: "a", Bill: "b", Store: "s", Created: noon},
		} {
			if id, err := s.Bind(t.Context(), a); err == nil || id != "" {
				t.Errorf("%s: %q, %v", name, id, err)
			}
		}
		kept, err := s.Address(t.Context(), "known")
		must(t, err)
		equal(t, "the bill of the first", kept.Bill, "b")
	})
}

// A registration equal to an earlier one adds no row; any other one does.
func TestRegistrations(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		bind(t, s, registration("first", "s", noon))
		ids := []string{"first"}
		for name, change := range map[string]func(*store.Address){
			"upstream":          func(a *store.Address) { a.Upstream = "new" },
			"operation":         func(a *store.Address) { a.Operation = "other" },
			"partner":           func(a *store.Address) { a.Partner = partner.Of("two") },
			"store":             func(a *store.Address) { a.Store = "s2" },
			"form":              func(a *store.Address) { a.Form = "legacy" },
			"url":               func(a *store.Address) { a.URL += "?" },
			"two and one word":  func(a *store.Address) { a.Upstream, a.Operation = "a b", "c" },
			"one and two words": func(a *store.Address) { a.Upstream, a.Operation = "a", "b c" },
		} {
			a := registration(name, "s", noon)
			change(&a)
			bind(t, s, a)
			ids = append(ids, name)
			a.ID, a.Created = "again", noon.Add(time.Hour)
			if id, err := s.Bind(t.Context(), a); id != name || err != nil {
				t.Errorf("another %s, again: %q, %v", name, id, err)
			}
		}
		again := registration("again", "s", noon.Add(time.Hour))
		again.Until = noon.Add(2 * time.Hour)
		if id, err := s.Bind(t.Context(), again); id != "first" || err != nil {
			t.Errorf("the first again: %q, %v", id, err)
		}
		if id, err := s.Bind(t.Context(), registration("first", "s", noon)); id != "first" || err != nil {
			t.Errorf("the first under its id: %q, %v", id, err)
		}
		equal(t, "there", bound(t, s, append(ids, "again")...), ids)

		if n, err := s.Sweep(t.Context(), noon.Add(100*365*24*time.Hour), time.Hour); n != 0 || err != nil {
			t.Errorf("Sweep = %d, %v", n, err)
		}
		equal(t, "there in a hundred years", bound(t, s, ids...), ids)
	})
}

// An address that is too long for an index is stored like any other.
func TestLongRegistration(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		a := registration("a", strings.Repeat("s", 5000), noon)
		for i := range 500 { // a database cannot compress it
			a.URL += string(partner.Of(fmt.Sprint(i)))
		}
		bind(t, s, a)
		a.ID = "b"
		if id, err := s.Bind(t.Context(), a); id != "a" || err != nil {
			t.Errorf("again: %q, %v", id, err)
		}
	})
}

// Rows that have been over for longer than the retention are removed, and no others.
func TestOldRowsAreRemoved(t *testing.T) {
	const retention = 30 * 24 * time.Hour
	each(t, func(t *testing.T, s *store.Store) {
		sweep := func(now time.Time, want int) {
			t.Helper()
			n, err := s.Sweep(t.Context(), now, retention)
			if err != nil || n != want {
				t.Errorf("Sweep at %s = %d, %v, want %d", now, n, err, want)
			}
		}
		there := func(want ...string) {
			t.Helper()
			all, err := onePage(t, s, store.Filter{})
			must(t, err)
			equal(t, "callbacks", ids(all), want)
		}
		open := address("without-end", "b6")
		open.Until = time.Time{}
		bind(t, s, address("address-of-b1", "b1"), address("address-of-b2", "b2"), address("address-of-b3", "b3"), open,
			address("without-bill", ""), registration("registration", "s", noon))
		addresses := func(want ...string) {
			t.Helper()
			all := []string{"address-of-b1", "address-of-b2", "address-of-b3", "without-end", "without-bill", "registration"}
			equal(t, "addresses", bound(t, s, all...), want)
		}
		become(t, s, callback("delivered", "b1"), store.Delivered)
		become(t, s, callback("dead", "b2"), store.Dead)
		become(t, s, callback("dropped", "b4"), store.Dropped)
		accept(t, s, callback("waiting", "b3"))

		end := noon.Add(retention)
		sweep(end, 0)
		sweep(end.Add(time.Millisecond), 3) // delivered, dropped, without-end
		there("waiting", "dead")
		addresses("address-of-b1", "address-of-b2", "address-of-b3", "without-bill", "registration")
		sweep(end.Add(24*time.Hour), 0)
		sweep(end.Add(24*time.Hour+time.Millisecond), 2) // the bills of address-of-b1 and without-bill have been over for the retention
		addresses("address-of-b2", "address-of-b3", "registration")
		years := noon.Add(10 * 365 * 24 * time.Hour)
		sweep(years, 0)
		there("waiting", "dead")
		addresses("address-of-b2", "address-of-b3", "registration")

		// A dead callback stays until an operator decides, and then for the retention.
		for _, c := range claim(t, s, years) {
			finish(t, s, c, years, store.Delivered)
		}
		must(t, s.DecideOne(t.Context(), store.Drop, "dead", "tester", years))
		sweep(years.Add(retention), 0)
		sweep(years.Add(retention+time.Millisecond), 4)
		there()
		addresses("registration")
	})
}

// If a new bill has an end in the past, its address stays as long as the bill can be paid.
func TestAddressOfABillWithAPastEndIsKept(t *testing.T) {
	const retention = 30 * 24 * time.Hour
	each(t, func(t *testing.T, s *store.Store) {
		for i, until := range []time.Time{noon.Add(-time.Hour), time.Unix(0, 0), time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)} {
			a := address(fmt.Sprint("a", i), "b")
			a.Until = until
			bind(t, s, a)
		}
		for _, after := range []time.Duration{0, retention} {
			if n, err := s.Sweep(t.Context(), noon.Add(after), retention); n != 0 || err != nil {
				t.Errorf("Sweep after %s = %d, %v", after, n, err)
			}
		}
		if n, err := s.Sweep(t.Context(), noon.Add(retention+time.Millisecond), retention); n != 3 || err != nil {
			t.Errorf("Sweep of all = %d, %v", n, err)
		}
	})
}

// One sweep, replay or drop changes more than one batch.
func TestChangesOfManyRowsWorkInBatches(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s := openSmall(t, url, 0)
		const many = 10 + 10 + 1
		for i := range many {
			accept(t, s, callback(fmt.Sprint("c", i), fmt.Sprint("b", i)))
		}
		for _, c := range claim(t, s, noon) {
			finish(t, s, c, noon, store.Dead)
		}
		// First a limit that ends within a batch, then all. The progress function may use the store.
		var reported []int
		progress := func(done int) {
			reported = append(reported, done)
			if err := s.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n, err := s.Decide(t.Context(), store.Replay, store.Filter{Limit: 15}, "tester", noon, progress); n != 15 || err != nil {
			t.Errorf("Replay of 15 = %d, %v", n, err)
		}
		if n, err := s.Decide(t.Context(), store.Replay, store.Filter{}, "tester", noon, nil); n != many-15 || err != nil {
			t.Errorf("Replay = %d, %v", n, err)
		}
		equal(t, "reported", reported, []int{10, 15})
		for _, c := range claim(t, s, noon) {
			finish(t, s, c, noon, store.Dead)
		}
		reported = nil
		if n, err := s.Decide(t.Context(), store.Drop, store.Filter{}, "tester", noon, progress); n != many || err != nil {
			t.Errorf("Drop = %d, %v", n, err)
		}
		equal(t, "reported", reported, []int{10, 20, 21})
		if n, err := s.Sweep(t.Context(), noon.Add(time.Hour), time.Minute); n != many || err != nil {
			t.Errorf("Sweep = %d, %v", n, err)
		}
	})
}
