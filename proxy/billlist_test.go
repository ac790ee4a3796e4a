package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/ledger"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
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
# the line of a call with a known outcome does not name its bill
logged bill=
pay old
fault old {"operation":"bill.cancel","drop":true}
unknown v2 cancel
`)
	line := m.nextRequestLog()
	equal[any](t, line["bill"], demoBill, line)
	equal[any](t, line["outcome"], "unknown", line)
	play(m, section(t), "ID", fmt.Sprint(line["id"]))
}

// Right after a write without an answer, the write may still take effect. A read, of the partner or of an operator,
// resolves its outcome only after two minutes. So does one of an operator with bills: shared, where no bill has an
// owner, and one of a bill of which the ledger has no row.
func TestReadResolvesAnUnknownOutcomeAfterTwoMinutes(t *testing.T) {
	t.Parallel()
	for _, row := range tableOf(t) {
		parallel(t, row[0], func(t *testing.T) {
			m := newRolloutWith(t, row[1], paths(map[string]http.Handler{"/destroy": nil}), row[2])
			kind, reader, _ := strings.Cut(row[0], "/")
			lose, again := "", "" // the row, and what a read recorded
			if kind == "no row" {
				lose, again = "sql DELETE FROM billbridge_bills", "sql UPDATE billbridge_bills SET state = '', upstream = ''"
			}
			// The line of the log is written after the ledger has what a call showed.
			read := map[string]string{
				"partner": "success v2 read\nlogged operation=bill.read", "operator": `200 POST /rollout/read?{bill} | "upstream":"OWNER","result":"has it","state":"W"`,
			}[reader]
			play(m, strings.NewReplacer("LOSE THE OWNER", again, "LOSE", lose, "READ", read, "OWNER", row[3], "STATE", row[4]).Replace(`
success v2 create
logged operation=bill.create
LOSE
unknown v2 destroy
logged operation=bill.destroy
READ
listed 1 outcome=unknown | "owner":"OWNER" | STATE | "operation":"bill.destroy" | "bill_state":"W"
# the write cannot take effect any more
older 2m
LOSE THE OWNER
READ
listed 0 outcome=unknown
`), "OWNER", row[3])
		})
	}
}

// A create without an answer may still be in the queue of its backend. Two minutes later the reply "no such bill"
// counts again, and resolves it.
func TestLateReadResolvesAnUnknownCreate(t *testing.T) { playFile(t) }

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

// Of 12 creates that time out, a third took effect, a third did not, and the backend gives no clear answer about the
// others. The gateway reads each bill once when the reads are due, from the first success of the partner on, with the
// merchant of the create. It sends nothing but reads. Only the last third is left to an operator.
func TestGatewayReadsUnknownOutcomesByItself(t *testing.T) {
	t.Parallel()
	const writes = 12
	m := newRolloutWith(t, "old", noFront, proxytest.Tuned(func(c *config.Config) { c.Limits.Reads = 100 }))
	for i := range writes {
		group := "YNX"[i%3]
		bill := fmt.Sprintf("TIMEDOUT%c%010d", group, i)
		m.old.Fault(sandbox.Fault{Drop: true, Skip: group != 'Y'})
		m.expect(v2("create").with("billId", bill), unknown)
		if group == 'X' {
			m.old.Fault(sandbox.Fault{Bill: bill, Count: writes, Drop: true})
		}
	}
	play(m, `
listed 12 outcome=unknown
listed 0 outcome=unclear
# the writes cannot take effect any more
older 2m
sql UPDATE billbridge_bills SET due = 0, version = version + 1
# none before the first success of the partner
calls 12 0
success v2 create
`)
	for _, b := range m.checkListed("outcome=resolved", writes/3*2).Bills {
		want := map[byte]string{'Y': "has it", 'N': "no such bill"}[b.Bill[len("TIMEDOUT")]]
		if w := b.Write; w.Result != want || w.ReadBy != "gateway" || w.Reads != 1 || w.Resolved == nil {
			t.Errorf("%s: %+v", b.Bill, w)
		}
	}
	m.waitForAdmin("/rollout/bills?outcome=unknown", "!not asked")
	for _, b := range m.checkListed("outcome=unknown", writes/3).Bills {
		if w := b.Write; b.Bill[len("TIMEDOUT")] != 'X' || w.Result != "no clear answer" || w.Reads != 1 || b.NextRead == nil {
			t.Errorf("%s: %+v", b.Bill, w)
		}
	}
	play(m, `
older 4000s
listed 4 outcome=unclear
200 GET /metrics | billbridge_bill_reads_total{shown="has it"} 4 | {shown="no such bill"} 4 | {shown="no clear answer"} 4
# An operator has them read at once: 12 creates and the success, 12 reads and 4 more.
200 POST /rollout/read-all | {"unknown":4,"due":4}
calls 29 0
`)
	equal(t, m.oldCalls.writes(), writes+1)
}
