package relay_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/store"
)

// A caller cannot choose how long its row stays. A clock that is behind the store's does not shorten it either.
func TestLastDayOfARequestIsCapped(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := newTestRelay(t, setup{now: c.now, callbacks: tuned(func(c *config.Callbacks) { c.Retention = 240 * time.Hour })})
	until := func(expiry string) time.Time {
		t.Helper()
		a := asked("v2", "https://partner.example.com/paid")
		a.Expiry = expiry
		row, err := s.store.Address(t.Context(), strings.TrimPrefix(s.bind(a), "/callback/"))
		must(t, err)
		return row.Until
	}
	day := func(after time.Duration) string { return c.now().Add(after).Format(time.DateOnly) }
	if got := until("9999-12-31"); !got.Equal(c.now().Add(240 * time.Hour)) {
		t.Errorf("until %s", got)
	}
	if got := until(day(120 * time.Hour)); !got.Equal(relay.Until(day(120 * time.Hour))) {
		t.Errorf("a day before that became %s", got)
	}
	works(t)(s.store.Tick(t.Context(), c.now().Add(100*time.Hour)))
	if got := until("9999-12-31"); !got.Equal(c.now().Add(340 * time.Hour)) {
		t.Errorf("with a clock that is behind, until %s", got)
	}
}

// merchantOf is the stored hash of the names of a member and a merchant.
func merchantOf(names string) string {
	return "merchant " + string(partner.Of(string(partner.Of(key))+" "+names))
}

// The stored row of an address, for each kind of call.
func TestBindStoresTheAddressOfThePartner(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := newTestRelay(t, setup{now: c.now})
	const theirs = "https://partner.example.com/paid?token=1#top"
	for name, want := range map[string]struct {
		asked relay.Binding
		row   store.Address
	}{
		"bill": {
			relay.Binding{Operation: "bill.create", Form: "legacy", OfBill: true, Bill: bill, Member: "m", Merchant: "s", Expiry: "2026-11-30"},
			// Midnight in Korea at the end of that day.
			store.Address{Operation: "bill.create", Bill: bill, Form: "legacy", Until: time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC), Member: "m", Merchant: "s", Look: c.now()},
		},
		"bill whose id is not known": {
			relay.Binding{Operation: "bill.send", Form: "v2", OfBill: true, Member: "m", Merchant: "s"},
			store.Address{Operation: "bill.send", Form: "v2", Merchant: "s"},
		},
		"bill whose expiry is no date": {
			relay.Binding{Operation: "bill.send", Form: "v2", OfBill: true, Expiry: "20261130"},
			store.Address{Operation: "bill.send", Form: "v2"},
		},
		"registration": {
			relay.Binding{Operation: "mapping.register", Form: "v2", Member: "m", Merchant: `s" "`},
			store.Address{Operation: "mapping.register", Form: "v2", Store: merchantOf(`"m" "s\" \""`), Merchant: `s" "`},
		},
		"registration without a store": {
			relay.Binding{Operation: "mapping.register", Form: "v2"},
			store.Address{Operation: "mapping.register", Form: "v2", Store: merchantOf(`"" ""`)}, // so it is not the address of a bill
		},
	} {
		want.asked.Upstream, want.asked.Partner, want.asked.URL = "up", partner.Of(key), theirs
		id := strings.TrimPrefix(s.bind(want.asked), "/callback/")
		got, err := s.store.Address(t.Context(), id)
		must(t, err)
		want.row.ID, want.row.Upstream, want.row.URL, want.row.Created = id, "up", theirs, c.now()
		want.row.Partner = partner.Of(key)
		equal(t, got, want.row, name)
	}
}

func TestBoundAddressIsBelowPublicURL(t *testing.T) {
	t.Parallel()
	for public, want := range map[string]string{
		"https://bridge.example.com":                "https://bridge.example.com/callback/",
		"https://bridge.example.com/":               "https://bridge.example.com/callback/",
		"https://bridge.example.com:8443/from/ups":  "https://bridge.example.com:8443/from/ups/callback/",
		"https://bridge.example.com:8443/from/ups/": "https://bridge.example.com:8443/from/ups/callback/",
	} {
		s := newTestRelay(t, setup{public: public})
		seen := map[string]bool{}
		for range 50 {
			got, err := s.Bind(t.Context(), asked("v2", "https://partner.example.com/"))
			must(t, err)
			id, ok := strings.CutPrefix(got, want)
			if u, err := url.Parse(got); err != nil || !relay.Owns(u.Path) || !ok || len(id) != 32 || seen[id] {
				t.Errorf("%s: %s", public, got)
			}
			seen[id] = true
		}
	}
}

// The partner gets the reason why an address is refused, without the address: of a bill and of a registration. The store is not called.
func TestR32_WrongAddressesAreNotBound(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	ours, err := s.Bind(t.Context(), asked("v2", "https://한글.example/paid?token=1"))
	must(t, err)
	has(t, ours, "https://bridge.example.com/callback/")
	must(t, s.store.Close())
	noBill := asked("v2", "https://partner.example.com/canary")
	noBill.Bill = "a\x00b"
	addresses := []string{
		"", "nonsense-canary", "/canary", "undefined/api/webhook?token=canary", "ftp://canary.example.com/canary", "https://user:canary@partner.example.com/",
		"https://partner.example.com:8444/canary", "http://10.0.0.7:8080/paid?token=canary", "https://127.0.0.1/canary?canary=1",
		"https://partner.example.com/canary\r\nX: 1", "https://partner.example.com/" + strings.Repeat("canary", 400),
	}
	for _, row := range proxytest.Rows(t, "testdata/ssrf-safeurl/blocked_hosts.txt") {
		addresses = append(addresses, "http://"+row[0]+"/canary")
	}
	wrong := []relay.Binding{noBill}
	for _, address := range addresses {
		wrong = append(wrong, asked("v2", address), registration("v2", "s", address))
	}
	for _, a := range wrong {
		ours, err := s.Bind(t.Context(), a)
		var invalid *relay.Wrong
		if ours != "" || !errors.As(err, &invalid) || invalid.Text == "" || invalid.Error() != invalid.Text {
			t.Errorf("%q: %q, %v", a.URL, ours, err)
			continue
		}
		for _, part := range []string{"canary", "127.", "169.", "8444", "10.0"} {
			lacks(t, invalid.Text, part, a.URL)
		}
	}
	s.counts(refused, `{reason="address",upstream="up"} 61`)
}

// A call that began before a reload removed its upstream must not get an address without an upstream.
func TestBindToARemovedUpstreamIsRefused(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	a := asked("v2", "https://partner.example.com/")
	a.Upstream = "old"
	var wrong *relay.Wrong
	if ours, err := s.Bind(t.Context(), a); ours != "" || err == nil || errors.As(err, &wrong) {
		t.Errorf("%q, %v", ours, err)
	}
}

// The length of stored names is limited: the row of a call that the upstream refuses stays, too.
func TestLongNamesAreNotBound(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	for _, change := range []func(a *relay.Binding, name string){
		func(a *relay.Binding, name string) { a.Bill = name },
		func(a *relay.Binding, name string) { a.OfBill, a.Bill, a.Member = false, "", name },
		func(a *relay.Binding, name string) { a.OfBill, a.Bill, a.Merchant = false, "", name },
	} {
		a := asked("v2", "https://partner.example.com/")
		change(&a, strings.Repeat("n", 1000))
		s.bind(a)
		change(&a, strings.Repeat("n", 1001))
		var wrong *relay.Wrong
		if ours, err := s.Bind(t.Context(), a); ours != "" || !errors.As(err, &wrong) || !strings.Contains(wrong.Text, "at most 1000 bytes") {
			t.Errorf("%q, %v", ours, err)
		}
	}
}

// If the store fails, the address is not reported as wrong.
func TestBindWithoutStore(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	must(t, s.store.Close())
	ours, err := s.Bind(t.Context(), asked("v2", "https://partner.example.com/"))
	var wrong *relay.Wrong
	if ours != "" || err == nil || !strings.Contains(err.Error(), "store: closed") || errors.As(err, &wrong) {
		t.Errorf("%q, %v", ours, err)
	}
	equal(t, s.scrape(refused), "")
}
