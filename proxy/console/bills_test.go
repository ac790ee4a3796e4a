package console

import (
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// unknown records a create of a bill with an unknown outcome.
func (s *stored) unknown(key, bill, request string) {
	s.t.Helper()
	at := s.now.Add(-2 * time.Hour)
	created, err := proxytest.On(s.store).Own(s.t.Context(), partner.Of(key), bill, "old", at, time.Time{}, "")
	if err == nil {
		_, err = proxytest.On(s.store).Complete(s.t.Context(), created, ledger.Succeeded, at)
	}
	if err == nil {
		create := ledger.Call{Operation: "bill.create", Upstream: "old", Request: request, At: at, Merchant: "shop"}
		err = proxytest.On(s.store).NoAnswer(s.t.Context(), partner.Of(key), bill, create,
			ledger.Reading{Finding: "no clear answer", At: at}, at)
	}
	must(s.t, err)
}
