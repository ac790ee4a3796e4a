package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
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

// A read of a bill shows the answers of both backends. If the key of the partner is not known, the page says so.
func TestBillIsReadNow(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	s.unknown("one", "B1", "r1")
	form := url.Values{"bill": {"B1"}, "partner": {partner.Of("one").Short()}}.Encode()
	read := func() string {
		status, body := post(t, s, "/bills/read", form)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		s.escaped("the page", body)
		return body
	}
	s.has("a read without a key", read(), "its key is not known", "no clear answer")
	var asked string
	s.operator.ReadBill = func(_ context.Context, upstream string, as rollout.Credentials, bill string) (rollout.BackendBill, rollout.Credentials) {
		asked += upstream + " " + bill + " "
		as.Key = "one"
		return rollout.BackendBill{Upstream: upstream, Result: "has it", State: "F", Amount: "20000" + hostile, Code: "0000"}, as
	}
	body := read()
	s.has("a read", body, "has it", "<code>F</code> (paid)", "20000&#34;&gt;", "There is none.") // the outcome is resolved
	equal(t, asked, "old B1 new B1 ", "asked")
	if status, body := post(t, s, "/bills/read", "bill=B1"); status != http.StatusOK || !strings.Contains(body, `class="problem"`) {
		t.Errorf("without a partner: %d %s", status, body)
	}
}
