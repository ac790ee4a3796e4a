package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Writes of two merchants without an answer, about bills with one id, are two: each is listed, read with its merchant and
// resolved by such a read. An operator dismisses those of one merchant.
func TestUnknownOutcomesOfTwoMerchants(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, ctx := open(t, url), t.Context()
		must(t, s.Prove(ctx, partnerOne))
		for i, merchant := range []string{"shop", "other", "other"} {
			must(t, s.RecordUnknown(ctx, store.UnknownWrite{
				Partner: partnerOne, Bill: "b", Operation: "bill.cancel", Upstream: "old", Request: fmt.Sprint("call ", i), At: noon,
				Member: "member of " + merchant, Merchant: merchant, Read: store.Reading{Finding: "not asked"}, Next: noon.Add(-time.Duration(i) * time.Second),
			}))
		}
		requests := func(list store.OutcomeList) (requests []string) {
			t.Helper()
			found, n, err := s.UnknownOutcomes(ctx, store.BillFilter{Limit: 10, Now: noon}, list, noon)
			for _, b := range found {
				requests = append(requests, b.Write.Merchant+" "+b.Write.Request)
			}
			equal(t, n, len(requests), "the number of all", err)
			slices.Sort(requests)
			return requests
		}
		equal(t, requests(store.UnknownList), []string{"other call 2", "shop call 0"})
		ended := noon.Add(time.Hour)
		for _, want := range []string{"other", "shop"} {
			w, due, err := s.ClaimRead(ctx, partnerOne, noon, noon)
			if err != nil || !due {
				t.Fatal(due, err)
			}
			must(t, s.EndRead(ctx, w, "no clear answer", "gateway", noon, func(store.UnknownWrite, time.Time) time.Time { return ended }))
			equal(t, w.Merchant, want)
		}
		for _, merchant := range []string{"shop", "other"} {
			member, of, err := s.ReadAs(ctx, partnerOne, "b", merchant)
			equal(t, member+" "+of, "member of "+merchant+" "+merchant, err)
		}
		shows(t, s, "b", "old", "W", noon.Add(time.Minute), noon.Add(time.Second), false) // the merchant is shop
		equal(t, requests(store.UnknownList), []string{"other call 2"})
		equal(t, requests(store.ResolvedList), []string{"shop call 0"})
		must(t, s.PlanReads(ctx, partnerOne))
		w, due, err := s.ClaimRead(ctx, partnerOne, store.AskedFor, noon)
		equal(t, w.Merchant, "other", due, err)

		noAnswer(t, s, "b", "bill.cancel", noon.Add(2*time.Minute)) // of shop
		fails(t, "several merchants")(s.DismissUnknown(ctx, partnerOne, "b", "", "anna", noon))
		dismisses := func(merchant string) {
			t.Helper()
			n, err := s.DismissUnknown(ctx, partnerOne, "b", merchant, "anna", noon)
			equal(t, n, 1, err)
		}
		dismisses("other")
		equal(t, requests(store.UnknownList), []string{"shop call of b"})
		dismisses("")
		equal(t, len(requests(store.UnknownList)), 0)
	})
}

// A create that its gateway did not complete is recorded also if a write of another merchant has an unknown outcome.
func TestInterruptedCreateOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s, ctx := open(t, url), t.Context()
		works(t)(s.Own(ctx, partnerOne, "b", "old", noon, time.Time{}, "other"))
		noAnswer(t, s, "b", "bill.create", noon.Add(time.Minute)) // of shop
		must(t, s.RecordInterrupted(ctx, noon.Add(time.Hour), "not asked", noon))
		must(t, s.RecordInterrupted(ctx, noon.Add(time.Hour), "not asked", noon))
		list, n, err := s.UnknownOutcomes(ctx, store.BillFilter{Limit: 10, Now: noon}, store.UnknownList, noon)
		equal(t, n, 2, list, err)
	})
}
