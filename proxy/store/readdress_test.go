package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// at is an upstream at another address.
func at(u store.Upstream, url string) store.Upstream {
	u.URL = url
	return u
}

// Once a partner has called, or rows refer to upstreams, no upstream gets the address that another one had, in any spelling. A
// refusal changes nothing.
func TestExchangedAddressesAreRefused(t *testing.T) {
	for name, use := range map[string]func(*testing.T, *store.Store){
		"a partner was seen": func(t *testing.T, s *store.Store) {
			must(t, s.Seen(t.Context(), partner.Of("one"), noon))
		},
		"a bill":     func(t *testing.T, s *store.Store) { own(t, s, "b", "new") },
		"an address": func(t *testing.T, s *store.Store) { bind(t, s, registration("a2", "s", noon)) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *store.Store) {
				reconcile(t, s, older, newer)
				use(t, s)
				for _, name := range []string{"old", "new"} { // also after AllowMove
					must(t, s.AllowMove(t.Context(), name, "anna", noon))
				}
				for _, now := range [][]store.Upstream{
					{at(older, newer.URL), at(newer, older.URL)},
					{at(older, strings.Replace(newer.URL, "https://new", "HTTPS://NEW", 1)+":443/"), at(newer, "https://elsewhere.example.com")},
					{older, at(newer, older.URL)},
					{older, at(newer, "https://elsewhere.example.com"), {Name: "third", Form: "v2", URL: newer.URL}},
				} {
					for _, routed := range []bool{false, true} {
						_, err := s.Reconcile(t.Context(), now, routed, noon)
						if err == nil || !strings.Contains(err.Error(), "that is the address that upstream") {
							t.Errorf("%v: %v", now, err)
						}
					}
				}
				equal(t, "moved", reconcile(t, s, older, newer), nil)
			})
		})
	}
}

// After AllowMove an upstream with bills gets another address once, within a day.
func TestNewAddressOfAnUpstreamWithBillsNeedsAllowMove(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		reconcile(t, s, older, newer)
		own(t, s, "b", "old")
		elsewhere, again := at(older, "https://elsewhere.example.com"), at(older, "https://again.example.com")
		try := func(u store.Upstream, routed bool, now time.Time) error {
			_, err := s.Reconcile(t.Context(), []store.Upstream{u, newer}, routed, now)
			return err
		}
		refused := func(step string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "billbridge rollout moved old") {
				t.Errorf("%s: %v", step, err)
			}
		}
		refused("nothing was said", try(elsewhere, true, noon))
		if err := s.AllowMove(t.Context(), "older", "anna", noon); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an upstream that is not known: %v", err)
		}
		must(t, s.AllowMove(t.Context(), "old", "anna", noon))
		refused("a day later", try(elsewhere, true, noon.Add(24*time.Hour)))
		if err := try(older, true, noon); err != nil {
			t.Errorf("as it was: %v", err)
		}
		if err := try(at(older, older.URL+":443/"), true, noon); err != nil {
			t.Errorf("spelled otherwise: %v", err)
		}
		must(t, s.AllowMove(t.Context(), "old", "anna", noon))
		if err := try(elsewhere, true, noon.Add(time.Hour)); err != nil {
			t.Errorf("after it was said: %v", err)
		}
		refused("a second time", try(again, true, noon.Add(2*time.Hour)))
		if err := try(again, false, noon); err != nil {
			t.Errorf("where the ledger routes nothing: %v", err)
		}
		if _, err := s.Reconcile(t.Context(), []store.Upstream{again, at(newer, "https://free.example.com")}, true, noon); err != nil {
			t.Errorf("one without bills: %v", err)
		}
		log, err := s.Audit(t.Context(), store.AuditFilter{Limit: 1})
		if err != nil || len(log) != 1 || log[0].Action != store.Moved || log[0].Subject != "old" {
			t.Errorf("%+v, %v", log, err)
		}
	})
}
