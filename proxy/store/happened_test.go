package store_test

import (
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A storm of one partner hides nothing of another: of each kind the first of each partner and hour is returned. An
// unknown outcome that became known late, and that of a bill which was read since, are not missed or told.
func TestHappenedGroupsByPartnerAndHour(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		must(t, s.Prove(t.Context(), partner.Of("one")))
		for i := range 20 {
			_, err := s.MarkDoubled(t.Context(), partner.Of("one"), fmt.Sprint("bill", i), "bill.read", "", noon.Add(time.Duration(19-i)*6*time.Minute))
			must(t, err)
		}
		_, err := s.MarkDoubled(t.Context(), partner.Of("two"), "bill", "bill.read", "", noon.Add(90*time.Minute))
		must(t, err)
		_, err = s.MarkDoubled(t.Context(), partner.Of("three"), "bill", "bill.read", "", noon.Add(-time.Minute))
		must(t, err)
		noAnswer(t, s, "from yesterday", "bill.create", noon.Add(-24*time.Hour))
		noAnswer(t, s, "beside it", "bill.create", noon.Add(-24*time.Hour+time.Minute))
		noAnswer(t, s, "resolved", "bill.create", noon.Add(-48*time.Hour))
		shows(t, s, "resolved", "old", "W", noon, noon, false)
		noAnswer(t, s, "just now", "bill.create", noon.Add(time.Minute))
		happened, err := s.Happened(t.Context(), noon, noon, "")
		must(t, err)
		var got []string
		for _, h := range happened {
			name := "two"
			if h.Partner == partner.Of("one") {
				name = "one"
			}
			got = append(got, fmt.Sprint(h.Kind, " ", name, " ", h.At.Sub(noon)))
		}
		proxytest.Equal(t, got, []string{"unknown one -24h0m0s", "doubled one 0s", "doubled one 1h0m0s", "doubled two 1h30m0s"})
		happened, err = s.Happened(t.Context(), noon.Add(3*time.Hour), time.Time{}, "")
		must(t, err)
		equal(t, len(happened), 0, "without a rollout")
	})
}
