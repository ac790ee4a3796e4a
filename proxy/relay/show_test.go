package relay_test

import (
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A callback stays shown after a reload has replaced a table with other names of forms.
func TestCallbackInAFormThatTheTableDoesNotHave(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	got, err := s.store.Accept(t.Context(), store.Callback{Notice: store.Notice{
		ID: "cb_other", Address: "a", Upstream: "up", Partner: partner.Of(key), Bill: bill, Form: "other", URL: "https://partner.example.com/paid",
		Order: "o", Digest: [32]byte{1}, Body: []byte(`{"apprState":"F"}`), Received: at,
	}}, time.Minute)
	must(t, err)
	equal(t, got.Fresh, true)
	w := s.asks("GET", "/callbacks/cb_other")
	answers(t, w, 200)
	lacks(t, w.Body.String(), "bill_state")
}
