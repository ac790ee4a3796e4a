package proxy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/operate"
)

// namesOfOurs are words that texts for partners must not have.
var namesOfOurs = regexp.MustCompile(`(?i)ledger|store|operator|billbridge|rollout|backend|command|restored`)

// A bill that both backends have is a permanent state: each write gets a final code, which clients do not repeat,
// and the bill is listed until an operator assigns it. The log has one line.
func TestBillAtBothBackendsIsListedUntilItIsAssigned(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	listed := func() (list operate.BillList) {
		t.Helper()
		must(t, json.Unmarshal([]byte(m.admin("GET", "/rollout/bills?doubled=true").body), &list))
		return list
	}
	prepareBill(t, m.old, "W", demoBill)
	prepareBill(t, m.fresh, "W", demoBill)
	if list := listed(); len(list.Bills) != 0 {
		t.Errorf("%+v", list)
	}
	for range 2 {
		for _, client := range forms {
			for _, op := range []string{"destroy", "cancel", "resend"} {
				got := m.expect(newCall(client, op), wantAnswer{409, "VALIDATION_001"})
				if namesOfOurs.MatchString(got.body) {
					t.Errorf("%s", got.body)
				}
			}
			m.expect(newCall(client, "read"), success)
		}
	}
	list := listed()
	if len(list.Bills) != 1 || list.Bills[0].Bill != demoBill || list.Bills[0].Write == nil || list.Bills[0].Write.Request == "" || list.Bills[0].Write.Result != "at both backends" {
		t.Errorf("%+v", list)
	}
	equal(t, strings.Count(m.logs.String(), `"msg":"a bill is at both backends"`), 1)
	checkText(t, m.logs.String(), `"reason":"rollout: both: `)
	m.mustPost("/rollout/assign?partner=" + list.Bills[0].Partner + "&bill=" + demoBill + "&to=old&by=anna")
	if list := listed(); len(list.Bills) != 0 {
		t.Errorf("%+v", list)
	}
	audit := m.admin("GET", "/audit").body
	checkText(t, audit, `"action":"assign","by":"anna"`, demoBill)
	m.expect(v2("destroy"), success)
	if o, n := m.old.Bills()[0].State, m.fresh.Bills()[0].State; string(o) != "D" || string(n) != "W" {
		t.Errorf("%s, %s", o, n)
	}
	m.ask(400, "GET /rollout/bills?doubled=true&outcome=unknown")
}
