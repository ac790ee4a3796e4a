package proxy_test

import (
	"encoding/json"
	"fmt"
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

// checkListed waits until a query lists so many bills.
func (m *rolloutGateway) checkListed(query string, n int) (list operate.BillList) {
	m.t.Helper()
	proxytest.Eventually(m.t, func() bool { list = m.listBills(query); return len(list.Bills) == n },
		func() string { return m.admin("GET", "/rollout/bills?"+query).body })
	return list
}

// theBill is the query of the demo bill.
var theBill = url.Values{"partner": {partner.Of(demoKey).Short()}, "bill": {demoBill}}.Encode()

// checkOpen waits until exactly these bills are listed as open at the old backend. Their number is a reason against
// draining the partner.
func (m *rolloutGateway) checkOpen(want ...string) {
	m.t.Helper()
	var ids []string
	for _, b := range m.checkListed("owner=old&open=true&partner="+partner.Of(demoKey).Short(), len(want)).Bills {
		ids = append(ids, b.Bill)
	}
	equal(m.t, strings.Join(ids, " "), strings.Join(want, " "), ids, want)
	m.ask(409, "POST /rollout/stage?stage=drained&by=anna&partner="+string(partner.Of(demoKey)),
		fmt.Sprintf("may still be open at old: %d,", len(ids)))
}

// Bills that were destroyed or cancelled through the gateway are not open. Earlier versions counted them as open until
// their last day.
func TestEndedBillsAreNotCountedAsOpen(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		m := newRolloutGateway(t, "old")
		const destroyed, cancelled, outside, paid = "DESTROYED", "CANCELLED", "CANCELLEDOUTSIDE", "PAID"
		for _, bill := range []string{destroyed, cancelled, outside, paid} {
			m.expect(newCall(client, "create").with("billId", bill), success)
		}
		m.checkListed("open=true", 4)
		for _, bill := range []string{cancelled, outside, paid} {
			must(t, m.old.Pay(demoKey, bill))
		}
		m.send(newCall(client, "destroy").with("billId", paid)) // refused: it is paid
		m.expect(newCall(client, "destroy").with("billId", destroyed), success)
		m.expect(newCall(client, "cancel").with("billId", cancelled), success)
		withoutRollout := newGatewayTo(t, "legacy", m.oldCalls) // a gateway that does not use the ledger
		withoutRollout.expect(legacy("cancel").with("billId", outside), success)
		m.send(newCall(client, "read").with("billId", paid))
		m.checkOpen(outside, paid)
		m.send(newCall(client, "read").with("billId", outside)) // a read shows the new state to the ledger
		m.checkOpen(paid)
		if list := m.listBills("bill=" + destroyed); len(list.Bills) != 1 || list.Bills[0].Ended == nil || list.Bills[0].State != "owned" {
			t.Errorf("%+v", list)
		}
	})
}

// The log has the bill of a write with an unknown outcome, `bills list` lists it, and a read resolves it.
func TestUnknownOutcomeIsLoggedListedAndResolved(t *testing.T) {
	t.Parallel()
	var m *rolloutGateway
	m = newRolloutWith(t, "old", paths(map[string]http.Handler{"/cancel": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m.old.ServeHTTP(discardWriter{}, r)
		panic(http.ErrAbortHandler)
	})}), "}\nfailures: {explain: 20s")
	m.expect(v2("create"), success)
	if line := m.nextRequestLog(); line["bill"] != nil {
		t.Errorf("the line of a call with a known outcome names its bill: %v", line)
	}
	must(t, m.old.Pay(demoKey, demoBill))
	m.expect(v2("cancel"), unknown)
	line := m.nextRequestLog()
	if line["bill"] != demoBill || line["outcome"] != "unknown" {
		t.Errorf("%v", line)
	}
	b := m.checkListed("outcome=unknown", 1).Bills[0]
	if w := b.Write; b.Bill != demoBill || b.Owner != "old" || b.State != "owned" || b.Ended == nil || w.Operation != "bill.cancel" ||
		w.Request != line["id"] || w.Result != "has it" || w.State != "C" || w.Amount != "30000" || w.ReadAt == nil {
		t.Errorf("%+v %+v", b, w)
	}
	calls := m.oldCalls.count()
	got := m.mustPost("/rollout/read?" + theBill)
	var read operate.Bill
	if err := json.Unmarshal([]byte(got), &read); err != nil || strings.Contains(got, demoKey) {
		t.Fatalf("%s, %v", got, err)
	}
	if len(read.Backends) != 1 || read.Backends[0].Upstream != "old" || read.Backends[0].State != "C" || read.Ledger == nil || read.Ledger.Ended == nil {
		t.Errorf("%s", got)
	}
	m.checkCalls(t, calls+1, 0) // only the owning backend was probed
	m.checkListed("outcome=unknown", 0)
	m.checkListed("open=true", 0)
}

// A discardWriter is a ResponseWriter that discards the answer.
type discardWriter struct{}

func (discardWriter) Header() http.Header         { return http.Header{} }
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (discardWriter) WriteHeader(int)             {}

// Right after a write without an answer, the write may still take effect. A read, of the partner or of an operator,
// resolves its outcome only after two minutes. So does one of an operator with bills: shared, where no bill has an
// owner, and one of a bill of which the ledger has no row.
func TestReadResolvesAnUnknownOutcomeAfterTwoMinutes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ stage, more, owner, state, readers string }{
		"owned":  {"old", "", "old", "owned", "partner operator"},
		"shared": {"old", ", bills: shared", "old", "", "operator"},
		"no row": {"drained", "", "new", "", "partner operator"},
	} {
		for reader := range strings.FieldsSeq(row.readers) {
			parallel(t, name+"/"+reader, func(t *testing.T) {
				m := newRolloutWith(t, row.stage, paths(map[string]http.Handler{"/destroy": nil}), row.more)
				read := func() {
					t.Helper()
					if reader == "partner" {
						m.expect(v2("read"), success)
						m.nextRequestLog() // the line is written after the ledger has what the read showed
					} else {
						m.mustPost("/rollout/read?"+theBill, `"upstream":"`+row.owner+`","result":"has it","state":"W"`)
					}
				}
				m.expect(v2("create"), success)
				m.nextRequestLog()
				if name == "no row" {
					m.exec("DELETE FROM billbridge_owners")
				}
				m.expect(v2("destroy"), unknown)
				m.nextRequestLog()
				read()
				b := m.checkListed("outcome=unknown", 1).Bills[0]
				if b.State != row.state && name != "no row" || b.Owner != row.owner || b.Write.Operation != "bill.destroy" || b.Write.State != "W" {
					t.Errorf("%+v %+v", b, b.Write)
				}
				m.exec("UPDATE billbridge_unknown SET at = at - 120000") // the write cannot take effect any more
				if name == "no row" {
					m.exec("DELETE FROM billbridge_owners")
				}
				read()
				m.checkListed("outcome=unknown", 0)
			})
		}
	}
}

// A create without an answer may still be in the queue of its backend. Two minutes later the reply "no such bill"
// counts again, and resolves it.
func TestLateReadResolvesAnUnknownCreate(t *testing.T) {
	t.Parallel()
	var done atomic.Bool
	var m *rolloutGateway
	m = newRolloutWith(t, "old", paths(map[string]http.Handler{"/send": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !done.Swap(true) {
			panic(http.ErrAbortHandler) // before the bill is created
		}
		m.old.ServeHTTP(w, r)
	})}), "")
	m.expect(v2("create"), unknown)
	m.nextRequestLog() // the line is written after the ledger has the outcome
	m.expect(v2("destroy"), wantAnswer{502, "MAINTAINED_METHOD"}, "!Nothing was sent")
	m.expect(v2("read"), refused)
	m.nextRequestLog()
	m.nextRequestLog()
	if b := m.checkListed("outcome=unknown", 1).Bills[0]; b.Write.Result != "no such bill" || b.State != "pending" {
		t.Errorf("the create may still take effect, so it must be listed: %+v", b)
	}
	m.exec("UPDATE billbridge_unknown SET at = at - 120000")
	m.exec("UPDATE billbridge_owners SET tried = tried - 120000, changed = changed - 120000")
	m.expect(v2("read"), noSuchBill)
	m.checkListed("outcome=unknown", 0)
	m.expect(v2("destroy"), noSuchBill)
	m.expect(v2("create"), success)
}

// An invalid query is refused, and not answered as if it asked for all bills. Package operate has the others.
func TestBillListRefusesInvalidQueries(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	for _, row := range rows(`
GET /rollout/bills?owner=legacy | owner must be old or new
GET /rollout/bills?open=yes | open cannot be "yes"
GET /rollout/bills?outcome=known | outcome must be unknown
GET /rollout/bills?doubled=true&outcome=unknown |
GET /rollout/bills?bill= | bill must not be empty
GET /rollout/bills?partner=KEY | 12 to 64 lower-case hex digits
GET /rollout/bills?bill=%00 | bill must be UTF-8 without a zero byte
GET /rollout/bills?partner=KEY%00 | partner must be UTF-8 without a zero byte
GET /rollout/bills?bill=%ff | bill must be UTF-8 without a zero byte
GET /rollout/bill?partner=default&bill= |
POST /rollout/bill?bill=B1 | partner is missing
POST /rollout/read?bill=B1 | partner is missing: name one
POST /rollout/read?partner=ID | partner and bill are required
POST /rollout/read?owner=old&partner=ID&bill=B1 | there is no key
POST /rollout/assign?to=legacy&by=anna&partner=ID&bill=B1 | to must be old or new
POST /rollout/assign?partner=ID&to=old&by=anna | partner and bill are required
`) {
		m.ask(400, strings.NewReplacer("KEY", demoKey, "ID", string(partner.Of(demoKey))).Replace(row[0]), row[1], "!"+demoKey)
	}
}

// After a code that does not say that nothing was done, the outcome of a create is unknown, as without an answer.
func TestCreateWithAnUnclearCodeHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "old", at("old", replyWith(http.StatusInternalServerError, `{"code":"9999","msg":"failed"}`)), "")
	m.expect(v2("create"), wantAnswer{500, "9999"})
	if b := m.checkListed("outcome=unknown", 1).Bills[0]; b.Write.Operation != "bill.create" || b.Write.Result != "not asked" {
		t.Errorf("%+v", b)
	}
}

// A caller can write a phone, or its key, in place of a bill id: lists for operators and programs hide it, as the console does.
func TestR35_ListsHideWhatIsNoBillID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"01012345678", "hong@example.com", demoKey + " "} {
		m := newRollout(t, "legacy", "v2", "old", everywhere(aborts), "")
		m.expect(v2("create").with("billId", id), unknown)
		m.checkListed("", 1)
		m.checkListed("outcome=unknown", 1)
		for _, path := range []string{"/rollout/bills", "/rollout/bills?outcome=unknown", "/bills", "/callbacks"} {
			m.ask(200, "GET "+path, "!"+id)
		}
		m.ask(200, "GET /rollout/bills", `"bill":"•••"`)
		checkText(t, m.admin("GET", "/bills", "Accept-Language", "en").body, "!bill=•••", "!bill=%e2%80%a2")
	}
}
