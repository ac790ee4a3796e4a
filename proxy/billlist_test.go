package proxy_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// listBills returns the bills that the ledger lists.
func (m *rolloutGateway) listBills(query string) (list operate.BillList) {
	m.t.Helper()
	got := m.admin("GET", "/rollout/bills?"+query)
	if err := json.Unmarshal([]byte(got.body), &list); got.status != 200 || err != nil || strings.Contains(got.body, demoKey) {
		m.t.Fatalf("%s: %d %s, %v", query, got.status, got.body, err)
	}
	return list
}

// openBills returns the ids of the bills that may be open at the old backend. It checks that their number is a reason
// against draining the partner.
func (m *rolloutGateway) openBills() (ids []string) {
	m.t.Helper()
	list := m.listBills("owner=old&open=true&partner=" + partner.Of(demoKey).Short())
	for _, b := range list.Bills {
		ids = append(ids, b.Bill)
	}
	got := m.admin("POST", "/rollout/stage?partner="+string(partner.Of(demoKey))+"&stage=drained&by=anna")
	want := ""
	if len(ids) > 0 {
		want = "may still be open at old: " + string(rune('0'+len(ids))) + ","
	}
	if got.status != 409 || !strings.Contains(got.body, want) || want == "" && strings.Contains(got.body, "may still be open") {
		m.t.Errorf("stage drained with open bills %v: %d %s", ids, got.status, got.body)
	}
	return ids
}

// Bills that were destroyed or cancelled through the gateway are not open. Earlier versions counted them as open until
// their last day.
func TestEndedBillsAreNotCountedAsOpen(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"v2", "legacy"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			m := newRolloutGateway(t, "old")
			const destroyed, cancelled, outside, paid = "DESTROYED", "CANCELLED", "CANCELLEDOUTSIDE", "PAID"
			for _, bill := range []string{destroyed, cancelled, outside, paid} {
				m.send(newCall(client, "create").with("billId", bill)).check(t, client, 200, "0000")
			}
			proxytest.Eventually(t, func() bool { return len(m.listBills("open=true").Bills) == 4 }, func() string { return "4 bills" })
			for _, bill := range []string{cancelled, outside, paid} {
				if err := m.old.Pay(demoKey, bill); err != nil {
					t.Fatal(err)
				}
			}
			m.send(newCall(client, "destroy").with("billId", paid)) // refused: it is paid
			m.send(newCall(client, "destroy").with("billId", destroyed)).check(t, client, 200, "0000")
			m.send(newCall(client, "cancel").with("billId", cancelled)).check(t, client, 200, "0000")
			withoutRollout := newGateway(t, oneUpstream("legacy", m.oldCalls.url)) // a gateway that does not use the ledger
			withoutRollout.send(newCall("legacy", "cancel").with("billId", outside)).check(t, "legacy", 200, "0000")
			m.send(newCall(client, "read").with("billId", paid))
			proxytest.Eventually(t, func() bool { return len(m.listBills("open=true").Bills) == 2 }, func() string { return m.admin("GET", "/rollout/bills?open=true").body })
			if got := m.openBills(); strings.Join(got, " ") != outside+" "+paid {
				t.Errorf("open: %s", got)
			}
			// A read shows the new state to the ledger.
			m.send(newCall(client, "read").with("billId", outside))
			proxytest.Eventually(t, func() bool { return len(m.listBills("open=true").Bills) == 1 }, func() string { return m.admin("GET", "/rollout/bills?open=true").body })
			if got := m.openBills(); strings.Join(got, " ") != paid {
				t.Errorf("open: %s", got)
			}
			if list := m.listBills("bill=" + destroyed); len(list.Bills) != 1 || list.Bills[0].Ended == nil || list.Bills[0].State != "owned" {
				t.Errorf("%+v", list)
			}
		})
	}
}

// The log has the bill of a write with an unknown outcome, `bills list` lists it, and a read resolves it.
func TestUnknownOutcomeIsLoggedListedAndResolved(t *testing.T) {
	t.Parallel()
	var breaks atomic.Value // the path whose reply is lost
	breaks.Store("")
	m := newRolloutWith(t, "legacy", "v2", "old", func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, breaks.Load().(string)) && breaks.Load() != "" {
				service.ServeHTTP(discardWriter{}, r)
				panic(http.ErrAbortHandler)
			}
			service.ServeHTTP(w, r)
		})
	}, "}\nfailures: {explain: 20s")
	m.send(newCall("v2", "create")).check(t, "v2", 200, "0000")
	if line := m.nextRequestLog(); line["bill"] != nil {
		t.Errorf("the line of a call with a known outcome names its bill: %v", line)
	}
	if err := m.old.Pay(demoKey, demoBill); err != nil {
		t.Fatal(err)
	}
	breaks.Store("/cancel")
	m.send(newCall("v2", "cancel")).check(t, "v2", 502, "null")
	line := m.nextRequestLog()
	if line["bill"] != demoBill || line["outcome"] != "unknown" {
		t.Errorf("%v", line)
	}
	list := m.listBills("outcome=unknown")
	if len(list.Bills) != 1 || list.LeftOut != 0 {
		t.Fatalf("%+v", list)
	}
	b := list.Bills[0]
	if w := b.Write; b.Bill != demoBill || b.Owner != "old" || b.State != "owned" || b.Ended == nil || w.Operation != "bill.cancel" || w.Request != line["id"] ||
		w.Result != "has it" || w.State != "C" || w.Amount != "30000" || w.ReadAt == nil {
		t.Errorf("%+v %+v", b, w)
	}
	calls := len(m.oldCalls.received())
	query := url.Values{"partner": {partner.Of(demoKey).Short()}, "bill": {demoBill}}.Encode()
	got := m.admin("POST", "/rollout/read?"+query)
	var read operate.Bill
	if err := json.Unmarshal([]byte(got.body), &read); got.status != 200 || err != nil || strings.Contains(got.body, demoKey) {
		t.Fatalf("%d %s, %v", got.status, got.body, err)
	}
	if len(read.Backends) != 1 || read.Backends[0].Upstream != "old" || read.Backends[0].State != "C" || read.Ledger == nil || read.Ledger.Ended == nil {
		t.Errorf("%s", got.body)
	}
	m.checkCalls(t, calls+1, 0) // only the owning backend was probed
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 0 {
		t.Errorf("still listed after a read has resolved it: %+v", list)
	}
	if list := m.listBills("open=true"); len(list.Bills) != 0 {
		t.Errorf("open: %+v", list)
	}
}

// A discardWriter is a ResponseWriter that discards the answer.
type discardWriter struct{}

func (discardWriter) Header() http.Header         { return http.Header{} }
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (discardWriter) WriteHeader(int)             {}

// Right after a write without an answer, the write may still take effect. A read resolves its outcome only after a
// while.
func TestEarlyReadDoesNotResolveAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "legacy", "v2", "old", func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/destroy") {
				panic(http.ErrAbortHandler) // as if the call waits in a queue
			}
			service.ServeHTTP(w, r)
		})
	}, "")
	m.send(newCall("v2", "create")).check(t, "v2", 200, "0000")
	m.send(newCall("v2", "destroy")).check(t, "v2", 502, "null")
	m.nextRequestLog()
	m.nextRequestLog() // the line is written after the ledger has the outcome
	m.send(newCall("v2", "read")).check(t, "v2", 200, "0000")
	query := url.Values{"partner": {partner.Of(demoKey).Short()}, "bill": {demoBill}}.Encode()
	if got := m.admin("POST", "/rollout/read?"+query); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 1 || list.Bills[0].Write.State != "W" {
		t.Errorf("%+v", list)
	}
	// After two minutes the write cannot take effect any more.
	if _, err := m.storeDB(t).Exec("UPDATE billbridge_unknown SET at = at - 120000"); err != nil {
		t.Fatal(err)
	}
	m.send(newCall("v2", "read")).check(t, "v2", 200, "0000")
	proxytest.Eventually(t, func() bool { return len(m.listBills("outcome=unknown").Bills) == 0 }, func() string { return m.admin("GET", "/rollout/bills?outcome=unknown").body })
}

// Two minutes after a create without an answer, the reply "no such bill" resolves it.
func TestLateReadResolvesAnUnknownCreate(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "legacy", "v2", "old", func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/send") {
				panic(http.ErrAbortHandler) // before the bill is created
			}
			service.ServeHTTP(w, r)
		})
	}, "")
	m.send(newCall("v2", "create")).check(t, "v2", 502, "null")
	m.nextRequestLog() // the line is written after the ledger has the outcome
	m.send(newCall("v2", "read")).check(t, "v2", 503, "MAINTAINED_METHOD")
	m.nextRequestLog()
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 1 || list.Bills[0].Write.Result != "no such bill" || list.Bills[0].State != "pending" {
		t.Errorf("the create may still take effect, so it must be listed: %+v", list)
	}
	for _, older := range []string{"billbridge_unknown SET at = at - 120000", "billbridge_owners SET tried = tried - 120000, changed = changed - 120000"} {
		if _, err := m.storeDB(t).Exec("UPDATE " + older); err != nil {
			t.Fatal(err)
		}
	}
	m.send(newCall("v2", "read")).check(t, "v2", 200, "BILL_003")
	m.nextRequestLog()
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 0 {
		t.Errorf("%+v", list)
	}
}

// With bills: shared no bill has an owner. An unknown outcome is still listed and resolved.
func TestUnknownOutcomeOfASharedBill(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "legacy", "v2", "old", func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/destroy") {
				panic(http.ErrAbortHandler)
			}
			service.ServeHTTP(w, r)
		})
	}, ", bills: shared")
	m.send(newCall("v2", "create")).check(t, "v2", 200, "0000")
	m.send(newCall("v2", "destroy")).check(t, "v2", 502, "null")
	m.nextRequestLog()
	m.nextRequestLog() // the line is written after the ledger has the outcome
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 1 || list.Bills[0].State != "" || list.Bills[0].Owner != "old" || list.Bills[0].Write.Operation != "bill.destroy" {
		t.Fatalf("%+v", list)
	}
	if _, err := m.storeDB(t).Exec("UPDATE billbridge_unknown SET at = at - 120000"); err != nil {
		t.Fatal(err)
	}
	got := m.admin("POST", "/rollout/read?"+url.Values{"partner": {partner.Of(demoKey).Short()}, "bill": {demoBill}}.Encode())
	if got.status != 200 || !strings.Contains(got.body, `"upstream":"old","result":"has it","state":"W"`) || strings.Contains(got.body, `"ledger"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 0 {
		t.Errorf("%+v", list)
	}
}

// An invalid query is refused, and not answered as if it asked for all bills.
func TestBillListRefusesInvalidQueries(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	for target, want := range map[string]string{
		"GET /rollout/bills?owner=legacy":                                               "owner must be old or new",
		"GET /rollout/bills?open=yes":                                                   `open cannot be "yes"`,
		"GET /rollout/bills?outcome=known":                                              "outcome must be unknown",
		"GET /rollout/bills?limit=0":                                                    "limit must be 1 to 10000",
		"GET /rollout/bills?partner=default":                                            "leave partner out",
		"GET /rollout/bills?bill=":                                                      "bill must not be empty",
		"GET /rollout/bills?partner=" + demoKey:                                         "12 to 64 lower-case hex digits",
		"GET /rollout/bills?bill=%00":                                                   "bill must be UTF-8 without a zero byte",
		"GET /rollout/bills?partner=" + demoKey + "%00":                                 "partner must be UTF-8 without a zero byte",
		"GET /rollout/bills?bill=%ff":                                                   "bill must be UTF-8 without a zero byte",
		"POST /rollout/read?bill=B1":                                                    "partner is missing: name one",
		"POST /rollout/read?partner=" + string(partner.Of(demoKey)):                     "partner and bill are required",
		"POST /rollout/read?partner=" + string(partner.Of(demoKey)) + "&owner=" + "old": "there is no key",
	} {
		method, path, _ := strings.Cut(target, " ")
		if got := m.admin(method, path); got.status != 400 || !strings.Contains(got.body, want) || strings.Contains(got.body, demoKey) {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
}

// After a code that does not say that nothing was done, the outcome of a create is unknown, as without an answer.
func TestCreateWithAnUnclearCodeHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "legacy", "v2", "old", func(backendName string, service http.Handler) http.Handler {
		if backendName == "old" {
			return replyWith(http.StatusInternalServerError, `{"code":"9999","msg":"failed"}`)
		}
		return service
	}, "")
	m.send(newCall("v2", "create")).check(t, "v2", 500, "9999")
	m.nextRequestLog()
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 1 || list.Bills[0].Write.Operation != "bill.create" || list.Bills[0].Write.Result != "not asked" {
		t.Errorf("%+v", list)
	}
}

// The ledger has no row for a bill of a drained partner. The partner's own read resolves the unknown outcome of its
// write.
func TestPartnerReadResolvesABillWithoutALedgerRow(t *testing.T) {
	t.Parallel()
	broken := true
	m := newRolloutWith(t, "legacy", "v2", "drained", func(backendName string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/destroy") && broken {
				panic(http.ErrAbortHandler)
			}
			service.ServeHTTP(w, r)
		})
	}, "")
	// A bill that was not created through the gateway.
	q := newCall("v2", "create")
	if got, err := doRequest(m.client, http.MethodPost, m.newCalls.url+q.path(), q.body()); err != nil || !strings.Contains(got.body, `"0000"`) {
		t.Fatalf("%+v %v", got, err)
	}
	m.send(newCall("v2", "destroy")).check(t, "v2", 502, "null")
	m.nextRequestLog()
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 1 {
		t.Fatalf("%+v", list)
	}
	if _, err := m.storeDB(t).Exec("UPDATE billbridge_unknown SET at = at - 120000"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.storeDB(t).Exec("DELETE FROM billbridge_owners"); err != nil {
		t.Fatal(err)
	}
	m.send(newCall("v2", "read")).check(t, "v2", 200, "0000")
	m.nextRequestLog()
	if list := m.listBills("outcome=unknown"); len(list.Bills) != 0 {
		t.Errorf("%+v", list)
	}
}
