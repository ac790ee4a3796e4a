package store_test

import (
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// made records an owned bill at an upstream.
func made(t *testing.T, s *store.Store, bill, upstream string, at, until time.Time) {
	t.Helper()
	c, err := proxytest.On(s).Own(t.Context(), partnerOne, bill, upstream, at, until, "")
	must(t, err)
	works(t)(proxytest.On(s).Complete(t.Context(), c, ledger.Succeeded, at))
}

// shows records a read at an upstream that shows a bill.
func shows(t *testing.T, s *store.Store, bill, upstream, state string, at, resolves time.Time, ended bool) {
	t.Helper()
	_, _, err := s.Apply(t.Context(), ledger.Bill{Partner: partnerOne, ID: bill}, ledger.Event{
		Call: ledger.Call{At: at, Upstream: upstream, Merchant: "shop"},
		What: ledger.Looked{
			Read:  ledger.Reading{Finding: "has it", State: state, Amount: "20000", By: "operator"},
			Final: ended, Settles: at.Sub(resolves),
		},
	})
	must(t, err)
}

// noAnswer records a write of a bill without an answer.
func noAnswer(t *testing.T, s *store.Store, bill, operation string, at time.Time) {
	t.Helper()
	call := ledger.Call{Operation: operation, Upstream: "old", Request: "call of " + bill, At: at, Merchant: "shop"}
	must(t, proxytest.On(s).NoAnswer(t.Context(), partnerOne, bill, call, ledger.Reading{Finding: "not asked"}, at))
}

// listed are the bills of a list, in its order, with the operations whose outcome is unknown.
func listed(list []ledger.Bill) (names []string) {
	for _, b := range list {
		name := b.ID
		for _, w := range b.Writes {
			if w.Resolved.IsZero() {
				name += " " + w.Operation
			}
		}
		names = append(names, name)
	}
	return names
}
