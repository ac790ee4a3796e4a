package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Writes of two merchants without an answer, about bills with one id, are two: each is resolved by a read with its
// merchant. An operator dismisses those of one merchant.
func TestUnknownOutcomesOfTwoMerchants(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, ctx := open(t, url), t.Context()
		must(t, s.Prove(ctx, partnerOne))
		for i, merchant := range []string{"shop", "other", "other"} {
			cancel := ledger.Call{
				Operation: "bill.cancel", Upstream: "old", Request: fmt.Sprint("call ", i), At: noon,
				Member: "member of " + merchant, Merchant: merchant,
			}
			must(t, proxytest.On(s).NoAnswer(ctx, partnerOne, "b", cancel, ledger.Reading{Finding: "not asked"}, noon))
		}
		requests := func(resolved bool) (requests []string) {
			t.Helper()
			b, err := s.Bill(ctx, partnerOne, "b")
			must(t, err)
			for _, w := range b.Writes {
				if w.Resolved.IsZero() != resolved {
					requests = append(requests, w.Merchant+" "+w.Request)
				}
			}
			slices.Sort(requests)
			return requests
		}
		equal(t, requests(false), []string{"other call 2", "shop call 0"})
		r, err := s.ClaimRead(ctx, partnerOne, store.Due{Bills: noon}, noon)
		b := r.Bill
		equal(t, b.ID, "b", err)
		r, err = s.ClaimRead(ctx, partnerOne, store.Due{Bills: noon}, noon)
		equal(t, r.Bill.ID, "", "a second claim", err)
		next := noon.Add(time.Hour)
		ended := ledger.ReadEnded{Claimed: b.Due, Next: func(time.Time, time.Time) time.Time { return next }}
		b, _, err = s.Apply(ctx, b, ledger.Event{Call: ledger.Call{At: noon}, What: ended})
		equal(t, b.Due, next, err)
		for _, merchant := range []string{"shop", "other"} {
			equal(t, b.LastWrite(merchant).Member, "member of "+merchant)
		}
		shows(t, s, "b", "old", "W", noon.Add(time.Minute), noon.Add(time.Second), false) // the merchant is shop
		equal(t, requests(false), []string{"other call 2"})
		equal(t, requests(true), []string{"shop call 0"})
		must(t, s.PlanReads(ctx, partnerOne))
		r, err = s.ClaimRead(ctx, partnerOne, store.Due{Bills: store.AskedFor}, noon)
		equal(t, r.Bill.ID, "b", err)

		noAnswer(t, s, "b", "bill.cancel", noon.Add(2*time.Minute)) // of shop
		fails(t, "several merchants")(s.Dismiss(ctx, partnerOne, "b", "", "anna", noon))
		dismisses := func(merchant string) {
			t.Helper()
			n, err := s.Dismiss(ctx, partnerOne, "b", merchant, "anna", noon)
			equal(t, n, 1, err)
		}
		dismisses("other")
		equal(t, requests(false), []string{"shop call of b"})
		dismisses("")
		equal(t, len(requests(false)), 0)
	})
}

// A create that its gateway did not complete is recorded also if a write of another merchant has an unknown outcome.
func TestInterruptedCreateOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, ctx := open(t, url), t.Context()
		works(t)(proxytest.On(s).Own(ctx, partnerOne, "b", "old", noon, time.Time{}, "other"))
		noAnswer(t, s, "b", "bill.create", noon.Add(time.Minute)) // of shop
		for range 2 {
			must(t, s.Interrupted(ctx, noon.Add(time.Hour), ledger.Interrupted{Finding: "not asked", Next: noon}))
		}
		b, err := s.Bill(ctx, partnerOne, "b")
		equal(t, b.Unresolved(), 2, err)
	})
}
