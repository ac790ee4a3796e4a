package proxy_test

import (
	"testing"

	"billbridge/proxy/store"
)

// /rollout/bill shows the owner, the state, and what both backends have. /rollout/assign refuses a bill that only one
// has.
func TestRolloutBillShowsLedgerAndBackends(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	play(m, `
# before the first call of the partner
200 GET /rollout/bill?{bill} | "result":"not asked" | !"read_as" | !"ledger" | !demo-partner-key
success v2 create`)
	m.waitForOwner(func(o store.Owner) bool { return o.State == store.Owned })
	play(m, `
200 GET /rollout/bill?{bill} | "partner":"{short}" | "merchant":"demo-store" | "owner":"old" | "state":"owned" | "result":"has it","state":"W" | "result":"no such bill","code":"BILL_003" | !demo-partner-key
pay old
200 GET /rollout/bill?{bill} | "state":"F" | "amount":"30000" | !demo-partner-key
409 POST /rollout/assign?to=new&by=anna&{bill} | the read of the bill at new: no such bill
`)
	for body, want := range map[string]string{`{"key":"another-key"}`: "not both", "another-key": "the body must be empty, or a JSON object"} {
		m.adminPost(400, "/rollout/assign?to=new&by=anna&"+forced+"&"+theBill, body, want, "!another-key")
	}
}

// The operator gives the key of a partner that has not called since the start.
func TestRolloutBillTakesTheKeyAndDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	prepareBill(t, m.old, "W", demoBill)
	m.adminPost(200, "/rollout/bill?member=demo-member&merchant=demo-store&bill="+demoBill, `{"key":"`+demoKey+`"}`,
		`"result":"has it","state":"W"`, "!"+demoKey)
}

// The text of an unknown create has the amount that the read showed.
func TestUnknownCreateNamesTheAmount(t *testing.T) {
	t.Parallel()
	for amount, want := range map[string]string{
		"30000": "Bill: state F, amount 30000.", "": "Bill is in state F.", "<b>": "Bill is in state F.",
	} {
		b := newBridge(t, "v2", "failures: {explain: 20s}")
		play(b, `
fault {"drop":true}
fault {"body":"{\"code\":\"0000\",\"message\":\"ok\",\"data\":{\"billId\":\"1234567890ABCDEFGHIJ\",\"apprState\":\"F\",\"apprPrice\":\"AMOUNT\"}}"}
unknown legacy create | "WANT Outcome of this create unknown: read before sending again. Need its link? Destroy it, read it destroyed, use a new id."`,
			"AMOUNT", amount, "WANT", want)
	}
}
