package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"billbridge/proxy/ledger"
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
		play(m, `
success CLIENT create billId=DESTROYED
success CLIENT create billId=CANCELLED
success CLIENT create billId=CANCELLEDOUTSIDE
success CLIENT create billId=PAID
listed 4 open=true
pay old CANCELLED CANCELLEDOUTSIDE PAID
200:BILL_002 CLIENT destroy billId=PAID
success CLIENT destroy billId=DESTROYED
success CLIENT cancel billId=CANCELLED
`, "CLIENT", client)
		newGatewayTo(t, "legacy", m.oldCalls).expect(legacy("cancel").with("billId", "CANCELLEDOUTSIDE"), success) // does not use the ledger
		play(m, `
success CLIENT read billId=PAID
open CANCELLEDOUTSIDE PAID
# a read shows the new state to the ledger
success CLIENT read billId=CANCELLEDOUTSIDE
open PAID
listed 1 bill=DESTROYED | "ended": | "state":"owned"
`, "CLIENT", client)
	})
}

// A bill from before the gateway, which the ledger gets to know by the call that ends it or shows its end, is not open either.
func TestEndedBillsFromBeforeAreNotCountedAsOpen(t *testing.T) { playFile(t) }

// The log has the bill of a write with an unknown outcome, `bills list` lists it, and a read resolves it.
func TestUnknownOutcomeIsLoggedListedAndResolved(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	play(m, `
success v2 create
# the line of each call names its bill
logged bill=1234567890ABCDEFGHIJ
pay old
fault old {"operation":"bill.cancel","drop":true}
unknown v2 cancel
`)
	line := m.nextRequestLog()
	equal[any](t, line["bill"], demoBill, line)
	equal[any](t, line["outcome"], "unknown", line)
	play(m, section(t), "ID", fmt.Sprint(line["id"]))
}

// After a code that does not say that nothing was done, the outcome of a create is unknown, as without an answer.
func TestCreateWithAnUnclearCodeHasAnUnknownOutcome(t *testing.T) { playFile(t) }

// A caller can write a phone, or its key, in place of a bill id: lists for operators and programs hide it, as the console does.
func TestR35_ListsHideWhatIsNoBillID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"01012345678", "hong@example.com", demoKey + " "} {
		m := newRollout(t, "legacy", "v2", "old", everywhere(aborts), "")
		m.expect(v2("create").with("billId", id), unknown)
		play(m, `
listed 1
listed 1 outcome=unknown
200 GET /rollout/bills | !ID | "bill":"•••"
200 GET /rollout/bills?outcome=unknown | !ID
200 GET /bills | !ID
200 GET /callbacks | !ID
`, "ID", id)
		checkText(t, m.admin("GET", "/bills", "Accept-Language", "en").body, "!bill=•••", "!bill=%e2%80%a2")
	}
}

// /rollout/read shows the owner, the state, and what both backends have. /rollout/assign refuses a bill that only one
// has. The operator gives the key of a partner that has not called since the start.
func TestReadShowsLedgerAndBackends(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	play(m, `
# before the first call of the partner
200 POST /rollout/read?{bill} | "result":"not asked" | !"read_as" | !"ledger" | !demo-partner-key`)
	m.adminPost(200, "/rollout/read?member=demo-member&merchant=demo-store&bill="+demoBill, `{"key":"`+demoKey+`"}`,
		`"upstream":"old","result":"no such bill"`, "!"+demoKey)
	m.expect(v2("create"), success)
	m.waitForOwner(func(o proxytest.Owner) bool { return o.State == ledger.Owned })
	play(m, `
200 POST /rollout/read?{bill} | "partner":"{short}" | "merchant":"demo-store" | "owner":"old" | "state":"owned" | "result":"has it","state":"W" | "result":"no such bill","code":"BILL_003" | !demo-partner-key
pay old
200 POST /rollout/read?{bill} | "state":"F" | "amount":"30000" | !demo-partner-key
409 POST /rollout/assign?to=new&by=anna&{bill} | the read of the bill at new: no such bill
`)
	for body, want := range map[string]string{`{"key":"another-key"}`: "not both", "another-key": "the body must be empty, or a JSON object"} {
		m.adminPost(400, "/rollout/assign?to=new&by=anna&"+forced+"&"+theBill, body, want, "!another-key")
	}
}

// A bill that both backends have is a permanent state: each write gets a final code, which clients do not repeat,
// and the bill is listed until an operator assigns it. The log has one line.
func TestBillAtBothBackendsIsListedUntilItIsAssigned(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	const twice = `
409:VALIDATION_001 v2,legacy destroy,cancel,resend | !edger | !store | !perator | !illbridge | !ollout | !ackend | !ommand | !estored
success v2,legacy read
`
	play(m, `
has old W
has new W
listed 0 doubled=true
`+twice+twice+`
listed 1 doubled=true | "bill":"1234567890ABCDEFGHIJ" | "write":{ | "request":" | "result":"at both backends"
logs "reason":"rollout: both: `)
	equal(t, strings.Count(m.logs.String(), `"msg":"a bill is at both backends"`), 1)
	play(m, `
200 POST /rollout/assign?{bill}&to=old&by=anna
listed 0 doubled=true
200 GET /audit | "action":"assign","by":"anna" | 1234567890ABCDEFGHIJ
success v2 destroy
`)
	equal(t, m.old.Bills()[0].State+m.fresh.Bills()[0].State, "DW")
}

// A create without an answer may still be in the queue of its backend. Two minutes later the reply "no such bill"
// counts again, and resolves it.
func TestLateReadResolvesAnUnknownCreate(t *testing.T) { playFile(t) }
