package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/store"
	"billbridge/proxy/store/storetest"
)

func address(id, bill string) store.Address {
	return store.Address{
		ID: id, Upstream: "new", Operation: "bill.create", Partner: partner("one"), Bill: bill, Form: "legacy",
		URL: "https://one.example.com/paid?a=b", Created: noon, Until: noon.Add(24 * time.Hour),
	}
}

func registration(id, in string, created time.Time) store.Address {
	return store.Address{
		ID: id, Upstream: "old", Operation: "mapping.register", Partner: partner("one"), Store: in, Form: "v2",
		URL: "https://one.example.com/paid", Created: created,
	}
}

func bind(t testing.TB, s *store.Store, addresses ...store.Address) {
	t.Helper()
	for _, a := range addresses {
		if err := s.Bind(t.Context(), a); err != nil {
			t.Fatalf("Bind(%s): %v", a.ID, err)
		}
	}
}

// bound tells which of the addresses the store still has.
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

// What was bound comes back to the letter, a registration that another replaced included.
func TestAddressComesBackAsItWas(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		all := []store.Address{
			address("a", "bill-1"), address("b", "bill-1"),
			registration("c", "매장 1", noon), registration("d", "매장 1", noon.Add(time.Hour)),
		}
		bind(t, s, all...)
		for _, want := range all {
			got, err := s.Address(t.Context(), want.ID)
			if err != nil {
				t.Fatal(err)
			}
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
		} {
			if err := s.Bind(t.Context(), a); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		kept, err := s.Address(t.Context(), "known")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the bill of the first", kept.Bill, "b")
	})
}

func TestUpstreams(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		names := func(want ...string) {
			t.Helper()
			got, err := s.Upstreams(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "Upstreams", got, want)
		}
		names()
		bind(t, s, address("a", "1"), address("b", "2"), registration("c", "s", noon))
		names("new", "old")
		c := callback("c1", "x")
		c.Upstream = "between"
		accept(t, s, c)
		names("between", "new", "old")
	})
}

// TestSweep: what is over for longer than the retention goes, all else stays.
func TestSweep(t *testing.T) {
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
			all, err := s.List(t.Context(), store.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "callbacks", ids(all), want)
		}
		open := address("without-end", "b6")
		open.Until = time.Time{}
		bind(t, s, address("address-of-b1", "b1"), address("address-of-b2", "b2"), address("address-of-b3", "b3"), open,
			registration("first", "s", noon), registration("second", "s", noon.Add(48*time.Hour)),
			registration("elsewhere", "s2", noon))
		addresses := func(want ...string) {
			t.Helper()
			equal(t, "addresses", bound(t, s, "address-of-b1", "address-of-b2", "address-of-b3", "without-end", "first", "second", "elsewhere"), want)
		}
		become(t, s, callback("delivered", "b1"), store.Delivered)
		become(t, s, callback("dead", "b2"), store.Dead)
		become(t, s, callback("dropped", "b4"), store.Dropped)
		accept(t, s, callback("waiting", "b3"))

		end := noon.Add(retention)
		sweep(end, 0)
		sweep(end.Add(time.Millisecond), 3) // delivered, dropped, without-end
		there("waiting", "dead")
		addresses("address-of-b1", "address-of-b2", "address-of-b3", "first", "second", "elsewhere")
		sweep(end.Add(24*time.Hour), 0)
		sweep(end.Add(24*time.Hour+time.Millisecond), 1) // the bill of address-of-b1 is over for long enough
		addresses("address-of-b2", "address-of-b3", "first", "second", "elsewhere")
		sweep(end.Add(48*time.Hour), 0)
		sweep(end.Add(48*time.Hour+time.Millisecond), 1) // first, that second replaced
		years := noon.Add(10 * 365 * 24 * time.Hour)
		sweep(years, 0)
		there("waiting", "dead")
		addresses("address-of-b2", "address-of-b3", "second", "elsewhere")

		// What is dead stays until somebody decides, and then as long as all that is over.
		for _, c := range claim(t, s, years) {
			finish(t, s, c, years, store.Delivered)
		}
		if err := s.DropOne(t.Context(), "dead", years); err != nil {
			t.Fatal(err)
		}
		sweep(years.Add(retention), 0)
		sweep(years.Add(retention+time.Millisecond), 4)
		there()
		addresses("second", "elsewhere")
	})
}

// More than one batch goes in one sweep, replay or drop.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, url string) {
		s := openSmall(t, url, 0)
		const many = 10 + 10 + 1
		for i := range many {
			accept(t, s, callback(fmt.Sprint("c", i), fmt.Sprint("b", i)))
		}
		for _, c := range claim(t, s, noon) {
			finish(t, s, c, noon, store.Dead)
		}
		// Those of a limit first, which ends within a batch; then all.
		if n, err := s.Replay(t.Context(), store.Filter{Limit: 15}, noon); n != 15 || err != nil {
			t.Errorf("Replay of 15 = %d, %v", n, err)
		}
		if n, err := s.Replay(t.Context(), store.Filter{}, noon); n != many-15 || err != nil {
			t.Errorf("Replay = %d, %v", n, err)
		}
		for _, c := range claim(t, s, noon) {
			finish(t, s, c, noon, store.Dead)
		}
		if n, err := s.Drop(t.Context(), store.Filter{}, noon); n != many || err != nil {
			t.Errorf("Drop = %d, %v", n, err)
		}
		if n, err := s.Sweep(t.Context(), noon.Add(time.Hour), time.Minute); n != many || err != nil {
			t.Errorf("Sweep = %d, %v", n, err)
		}
	})
}
