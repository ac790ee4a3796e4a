package store_test

import (
	"testing"
	"time"

	"billbridge/proxy/store"
)

// made records an owned bill at an upstream.
func made(t *testing.T, s *store.Store, bill, upstream string, at, until time.Time) {
	t.Helper()
	c, err := s.Own(t.Context(), partnerOne, bill, upstream, at, until, "")
	must(t, err)
	works(t)(s.Complete(t.Context(), c, store.Succeeded, at))
}

// shows records a read at an upstream that shows a bill.
func shows(t *testing.T, s *store.Store, bill, upstream, state string, at, resolves time.Time, ended bool) {
	t.Helper()
	r := store.Reading{Finding: "has it", State: state, Amount: "20000", At: at, By: "operator"}
	must(t, s.RecordRead(t.Context(), partnerOne, bill, upstream, "shop", r, resolves, ended))
}

// noAnswer records a write of a bill without an answer.
func noAnswer(t *testing.T, s *store.Store, bill, operation string, at time.Time) {
	t.Helper()
	w := store.UnknownWrite{
		Partner: partnerOne, Bill: bill, Operation: operation, Upstream: "old", Request: "call of " + bill, At: at,
		Merchant: "shop",
		Read:     store.Reading{Finding: "not asked"},
	}
	must(t, s.RecordUnknown(t.Context(), w))
}

// listed are the bills of a list, in its order, and of a write its operation.
func listed(list []store.ListedBill) (names []string) {
	for _, b := range list {
		name := b.Bill
		if b.Write.Operation != "" {
			name += " " + b.Write.Operation
		}
		names = append(names, name)
	}
	return names
}
