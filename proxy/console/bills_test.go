package console

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
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

// What callbacks report about a bill counts like what reads show, with its time and its source. A state that does not look like one is not shown.
func TestStateOfABillIsKnownFromReadsAndCallbacks(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	s.unknown("one", "B1", "r1") // its read showed no state
	body := s.page("/bills?bill=B1")
	s.has("the bill", body, "No callback and no read of an operator has reported a state")
	for i, state := range []string{"F", "C", "01012345678"} {
		at := s.now.Add(time.Duration(i-5) * time.Minute)
		fresh, _, err := s.store.Accept(t.Context(), store.Callback{
			ID: "cb_" + strings.Repeat(strconv.Itoa(i), 32), Address: "a", Upstream: "old", Partner: partner.Of("one"), Bill: "B1", Form: "v2", URL: "http://127.0.0.1:1/paid",
			Order: "o", Digest: [32]byte{byte(i)}, Body: []byte(`{"apiKey":"one","billId":"B1","apprState":"` + state + `"}`), Received: at,
		}, time.Minute)
		if err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	}
	s.operator.ReadBill = func(_ context.Context, upstream string, as rollout.Credentials, _ string) (rollout.BackendBill, rollout.Credentials) {
		as.Key = "one"
		if upstream == "new" {
			return rollout.BackendBill{Upstream: upstream, Result: "no such bill", Code: "BILL_003"}, as
		}
		return rollout.BackendBill{Upstream: upstream, Result: "has it", State: "W", Code: "0000"}, as
	}
	_, body = post(t, s, "/bills/read", url.Values{"bill": {"B1"}, "partner": {partner.Of("one").Short()}}.Encode())
	_, table, _ := strings.Cut(body, `id="states"`)
	table, _, _ = strings.Cut(table, "</section>")
	var rows []string
	for _, row := range regexp.MustCompile(`(?s)<time datetime="([^"]+)".*?<code>(\w+)</code> (\S+)</span>.*?<td[^>]+>(?:<a id="[^"]+" href="([^"]+)">)?(callback|read)`).FindAllStringSubmatch(table, -1) {
		rows = append(rows, strings.Join(row[1:], " "))
	}
	when := func(d time.Duration) string { return s.now.Add(d).Local().Format(time.RFC3339) }
	want := []string{
		when(0) + " W (unpaid)  read",
		when(-4*time.Minute) + " C (cancelled) /deliveries/cb_" + strings.Repeat("1", 32) + " callback",
		when(-5*time.Minute) + " F (paid) /deliveries/cb_" + strings.Repeat("0", 32) + " callback",
	}
	equal(t, rows, want, table)
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
