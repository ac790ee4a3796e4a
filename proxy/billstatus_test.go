package proxy_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
)

// /rollout/bill shows the owner, the state, and what both backends have. /rollout/assign refuses a bill that only one
// has.
func TestRolloutBillShowsLedgerAndBackends(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	partner := string(partner.Of(demoKey))
	see := func() (b operate.Bill) {
		t.Helper()
		got := m.admin("GET", "/rollout/bill?partner="+partner[:12]+"&bill="+demoBill)
		if err := json.Unmarshal([]byte(got.body), &b); got.status != 200 || err != nil || strings.Contains(got.body, demoKey) {
			t.Fatalf("%d %s, %v", got.status, got.body, err)
		}
		return b
	}
	if b := see(); b.ReadAs != nil || b.Ledger != nil || b.Backends[0].Result != "not asked" {
		t.Errorf("before the first call of the partner: %+v", b)
	}
	m.expect(v2("create"), success)
	var b operate.Bill
	eventually(t, "the ledger does not have the create", func() bool { b = see(); return b.ReadAs != nil && b.Ledger.State == "owned" }) // it is recorded after the answer
	if b.Partner != partner[:12] || b.Ledger == nil || b.Ledger.Owner != "old" || b.Ledger.State != "owned" || b.ReadAs == nil || b.ReadAs.Merchant != "demo-store" {
		t.Errorf("%+v", b)
	}
	if b.Backends[0].Result != "has it" || b.Backends[0].State != "W" || b.Backends[1].Result != "no such bill" || b.Backends[1].Code != "BILL_003" {
		t.Errorf("%+v", b.Backends)
	}
	must(t, m.old.Pay(demoKey, demoBill))
	if b := see().Backends[0]; b.State != "F" || b.Amount != "30000" {
		t.Errorf("%+v", b)
	}
	m.ask(409, "POST /rollout/assign?partner="+partner+"&bill="+demoBill+"&to=new&by=anna", "the read of the bill at new: no such bill")

	for body, want := range map[string]string{`{"key":"another-key"}`: "not both", "another-key": "the body must be empty, or a JSON object"} {
		got, err := doRequest(m.client, "POST", "http://"+m.AdminAddress()+"/rollout/assign?partner="+partner+"&bill="+demoBill+"&to=new&by=anna&"+forced, body)
		if err != nil || got.status != 400 || !strings.Contains(got.body, want) || strings.Contains(got.body, "another-key") {
			t.Errorf("%s: %d %s, %v", body, got.status, got.body, err)
		}
	}
}

// The operator gives the key of a partner that has not called since the start.
func TestRolloutBillTakesTheKeyAndDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	prepareBill(t, m.old, "W", demoBill)
	got, err := doRequest(m.client, "POST", "http://"+m.AdminAddress()+"/rollout/bill?bill="+demoBill+"&member=demo-member&merchant=demo-store", `{"key":"`+demoKey+`"}`)
	if err != nil || got.status != 200 || !strings.Contains(got.body, `"result":"has it","state":"W"`) || strings.Contains(got.body, demoKey) {
		t.Errorf("%d %s, %v", got.status, got.body, err)
	}
}

// The text of an unknown create has the amount that the read showed.
func TestUnknownCreateNamesTheAmount(t *testing.T) {
	t.Parallel()
	const link = " Outcome of this create unknown: read before sending again. Need its link? Destroy it, read it destroyed, use a new id."
	for amount, want := range map[string]string{
		"30000": "Bill: state F, amount 30000.", "": "Bill is in state F.", "<b>": "Bill is in state F.",
	} {
		back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/read") {
				panic(http.ErrAbortHandler)
			}
			replyWith(200, `{"code":"0000","message":"ok","data":{"billId":"`+demoBill+`","apprState":"F","apprPrice":"`+amount+`"}}`).ServeHTTP(w, r)
		})
		b := newGatewayTo(t, "v2", back, "failures: {explain: 20s}")
		b.expect(legacy("create"), unknown, `"`+want+link+`"`)
	}
}
