package relay_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/store"
)

var storeKey = bytes.Repeat([]byte{7}, store.KeyLength)

// sealing is a testRelay whose store has a key, or none for nil.
func sealing(t *testing.T, at string, key []byte) *testRelay {
	t.Helper()
	opened, err := store.Open(t.Context(), at, store.Options{Key: key})
	must(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	return onStore(t, setup{form: "legacy"}, opened)
}

// lose removes the row of an address, as a fail-over does that loses the last writes.
func (s *testRelay) lose(paths ...string) {
	s.t.Helper()
	for _, path := range paths {
		must(s.t, s.Unbind(s.t.Context(), path))
	}
	must(s.t, s.store.Change(s.t.Context(), store.Change{Action: store.Restored, By: store.ByFailOver, At: time.Now()}))
}

// ofBill is asked for another bill of a partner.
func ofBill(key, id, address string) relay.Binding {
	a := asked("v2", address)
	a.Partner, a.Bill = partner.Of(key), id
	return a
}

// The row of an address was lost, and that of another bill of the partner was not: the callback is delivered to the same address of the
// partner as that of the other bill. No callback goes to another partner than that whose key it has.
func TestLostAddressIsFoundByAnotherBillOfThePartner(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, at string) {
		s := sealing(t, at, nil) // the store has a secret of its own
		const shared, own = "https://partner.example.com/paid?token=1", "https://partner.example.com/paid?order=1"
		for range 8 {
			s.bind(ofBill("another-key", "another", shared))
		}
		s.bind(ofBill(key, "kept", shared))
		lost, alone := s.bind(ofBill(key, bill, shared)), s.bind(ofBill(key, bill, own))
		s.lose(lost, alone)
		for _, body := range []string{notice("legacy", "another-key", bill), notice("legacy", "stolen", bill), `{"apikey":"demo-key","apiKey":"another-key"}`} {
			if w := s.post(lost, body); w.Code != 404 || len(s.stored()) != 0 {
				t.Errorf("%s: %d, %d stored", body, w.Code, len(s.stored()))
			}
		}
		for range 2 { // the second is a repetition
			sealing(t, at, nil).accept(lost, inLegacy) // another gateway
		}
		if got := s.only(); got.URL != shared || string(got.Partner) != hash(key) || got.Bill != bill || got.Form != "v2" || got.Upstream != "up" || got.Repeats != 1 {
			t.Errorf("%+v", got)
		}
		answers(t, s.post(alone, inLegacy), 503)
		s.counts(refused, `{reason="another_partner",upstream="up"} 3`, `{reason="lost_address",upstream="up"} 1`)
		s.bind(ofBill(key, bill, own)) // the create is repeated, and the backend answers that it has the bill
		s.accept(alone, inLegacy)
		if got := s.stored()[1]; got.URL != own || string(got.Partner) != hash(key) {
			t.Errorf("%+v", got)
		}
	})
}

// The key of a lost address has become a further one of a partner: another bill of the key still shows where callbacks belong.
func TestLostAddressOfAKeyThatWasAdded(t *testing.T) {
	t.Parallel()
	at := proxytest.SQLite(t)
	s := sealing(t, at, storeKey)
	s.bind(ofBill("new-key", "kept", "https://partner.example.com/"))
	lost := s.bind(ofBill("new-key", bill, "https://partner.example.com/"))
	s.lose(lost)
	for _, add := range [][2]string{{"third-key", "another-key"}, {"new-key", key}} {
		added := store.PartnerKey{Key: partner.Of(add[0]), Partner: partner.Of(add[1])}
		works(t)(s.store.AddKey(t.Context(), added, store.Author{Name: "anna"}, time.Now(), nil))
	}
	works(t)(s.store.Rollout(t.Context()))
	answers(t, s.post(lost, notice("legacy", "third-key", bill)), 404)
	s.accept(lost, notice("legacy", "new-key", bill))
	equal(t, s.only().Partner, partner.Of(key))
}

// Only the store's key makes addresses that are taken for lost ones: nobody else who knows an address of a partner can make another one.
func TestOnlyTheStoreKeySealsAddresses(t *testing.T) {
	t.Parallel()
	at := proxytest.SQLite(t)
	s := sealing(t, at, storeKey)
	kept, path := s.bind(ofBill(key, "kept", "https://partner.example.com/")), s.path("v2")
	s.lose(path)
	digits := strings.TrimPrefix(path, "/callback/")
	for _, forged := range map[string]string{
		"the digits of no key": digits[:31] + string("10"[strings.Count(digits[31:], "1")]), "other random digits": digits[:12] + strings.Repeat("0", 12) + digits[24:],
		"the hash of another address": strings.Repeat("0", 12) + digits[12:],
	} {
		answers(t, s.post("/callback/"+forged, inLegacy), 503)
	}
	equal(t, len(s.stored()), 0)
	must(t, s.store.Close())
	next := bytes.Repeat([]byte{8}, store.KeyLength)
	works(t)(store.ChangeKey(t.Context(), at, storeKey, next))
	changed := sealing(t, at, next)
	answers(t, changed.post(path, inLegacy), 503)
	changed.accept(kept, notice("legacy", key, "kept"))
}

// Addresses that a store without a key has sealed are found after its first key, too.
func TestFirstKeyKeepsSealedAddresses(t *testing.T) {
	t.Parallel()
	at := proxytest.SQLite(t)
	s := sealing(t, at, nil)
	s.bind(ofBill(key, "kept", "https://partner.example.com/"))
	path := s.path("v2")
	s.lose(path)
	must(t, s.store.Close())
	gives(t, 1)(store.ChangeKey(t.Context(), at, nil, storeKey))
	sealing(t, at, storeKey).accept(path, inLegacy)
}

// ofAnotherKey is an address that the store has not sealed.
const ofAnotherKey = "/callback/00112233445566778899aabbccddeeff"

// If nothing shows where callbacks to a lost address belong, an operator decides: the callback is delivered when the backend sends it
// again, but only one with the key of the chosen partner.
func TestAnOperatorAssignsALostAddress(t *testing.T) {
	t.Parallel()
	for upstream, name := range map[string]string{"up": "sealed", "none": "sealed by another key"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sealing(t, proxytest.SQLite(t), storeKey)
			s.accept(s.bind(ofBill(key, "kept", "https://partner.example.com/paid?order=1")), notice("legacy", key, "kept"))
			like := s.only().ID
			path := s.bind(asked("v2", "https://partner.example.com/paid?order=2"))
			s.lose(path)
			if upstream == "none" {
				path = ofAnotherKey
			}
			if w := s.post(path, inLegacy); w.Code != 503 {
				t.Fatalf("%d", w.Code)
			}
			s.counts(refused, `{reason="lost_address",upstream="`+upstream+`"} 1`)
			lost := "up/" + strings.TrimPrefix(path, "/callback/")[:store.SharedDigits]
			if upstream == "none" {
				lost = "/5947d7c33d78" // the beginning of a hash of all digits, which are a secret
			}
			if got := s.logs.String(); !strings.Contains(got, `"lost":"`+lost+`","of":"bill [\"`+bill+`\"] of partner `+hash(key)[:12]+`"`) || strings.Contains(got, path[len("/callback/"):]) {
				t.Error(got)
			}
			assign := func(more string) *httptest.ResponseRecorder {
				return s.asks(http.MethodPost, "/callbacks/assign?partner="+hash(key)+"&lost="+lost+more)
			}
			from := "&like=" + like
			for more, status := range map[string]int{
				"": 400, "&by=anna&url=http://127.0.0.1/": 400, "&by=anna&url=ftp://partner.example.com/": 400, "&dry_run=true": 200,
				"&by=anna&upstream=none": 400,
			} {
				answers(t, assign(from+more), status)
			}
			// A callback of another partner, whose address would get the payments of this one.
			s.accept(s.bind(ofBill("another-key", "foreign", "https://another.example.com/paid")), notice("legacy", "another-key", "foreign"))
			foreign := s.stored()[1].ID
			if w := assign("&by=anna&like=" + foreign); w.Code != 400 || !strings.Contains(w.Body.String(), "is one of another partner") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			for _, wrong := range []string{"", "up", "/7d75", "UP/5947d7c33d78", "down/5947d7c33d78"} {
				answers(t, s.asks(http.MethodPost, "/callbacks/assign?by=anna&partner="+hash(key)+from+"&lost="+wrong), 400)
			}
			answers(t,
				assign("&by=anna&like=cb_00112233445566778899aabbccddeeff"), 404)
			answers(t, s.post(path, inLegacy), 503)
			for _, more := range []string{"&by=anna", "&by=ben&url=" + url.QueryEscape("https://partner.example.com/all?token=1")} {
				if w := assign(from + more); w.Code != 200 || strings.Contains(w.Body.String(), "token") {
					t.Fatalf("%s: %d %s", more, w.Code, w.Body)
				}
			}
			answers(t, s.post(path, notice("legacy", "another-key", bill)), 404)
			s.accept(path, inLegacy)
			if got := s.stored()[2]; got.URL != "https://partner.example.com/all?token=1" || string(got.Partner) != hash(key) || got.Bill != bill || got.Upstream != "up" || got.Form != "v2" {
				t.Errorf("%+v", got)
			}
			log, err := s.store.Audit(t.Context(), store.AuditFilter{Actions: []store.Action{store.AddressAssigned}, Limit: 10})
			if err != nil || len(log) != 2 || log[0].By != "ben" || string(log[0].Partner) != hash(key) || log[0].Subject != "lost "+lost+" to https://partner.example.com/all" {
				t.Errorf("%+v %v", log, err)
			}
		})
	}
}

// A partner that was first moved after the backup has no callback in the store: its form and address are given.
func TestALostAddressOfAPartnerWithoutCallbacks(t *testing.T) {
	t.Parallel()
	s := sealing(t, proxytest.SQLite(t), storeKey)
	path := s.bind(asked("v2", "https://partner.example.com/paid?order=2"))
	s.lose(path)
	answers(t, s.post(path, inLegacy), 503)
	given := "/callbacks/assign?by=anna&partner=" + hash(key) + "&url=" + url.QueryEscape("https://partner.example.com/all")
	sealed, other := "&lost=up/"+strings.TrimPrefix(path, "/callback/")[:store.SharedDigits], "&lost=/5947d7c33d78"
	for _, wrong := range []string{sealed, sealed + "&form=v3", other + "&form=v2", other + "&form=v2&upstream=down", sealed + "&form=v2&upstream=down"} {
		answers(t, s.asks(http.MethodPost, given+wrong), 400)
	}
	for lost, path := range map[string]string{sealed: path, other + "&upstream=up": ofAnotherKey} {
		answers(t, s.asks(http.MethodPost, given+lost+"&form=v2"), 200)
		s.accept(path, inLegacy)
	}
	for _, got := range s.stored() {
		if got.URL != "https://partner.example.com/all" || string(got.Partner) != hash(key) || got.Upstream != "up" || got.Form != "v2" {
			t.Errorf("%+v", got)
		}
	}
}

// A bill id can have the partner's key in it, which is never logged.
func TestLogOfALostAddressShowsNoKey(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "legacy"})
	s.lose()
	w := s.post("/callback/"+strings.Repeat("0", 32), notice("legacy", key, strings.Repeat("x", 35)+key))
	if got := s.logs.String(); w.Code != 503 || strings.Contains(got, key[:5]) || !strings.Contains(got, hash(key)[:12]) {
		t.Errorf("%d %s", w.Code, got)
	}
}
