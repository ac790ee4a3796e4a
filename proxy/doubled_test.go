package proxy_test

import (
	"regexp"
	"strings"
	"testing"
)

// namesOfOurs are words that texts for partners must not have.
var namesOfOurs = regexp.MustCompile(`(?i)ledger|store|operator|billbridge|rollout|backend|command|restored`)

// A bill that both backends have is a permanent state: each write gets a final code, which clients do not repeat,
// and the bill is listed until an operator assigns it. The log has one line.
func TestBillAtBothBackendsIsListedUntilItIsAssigned(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	prepareBill(t, m.old, "W", demoBill)
	prepareBill(t, m.fresh, "W", demoBill)
	m.checkListed("doubled=true", 0)
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
	doubled := m.checkListed("doubled=true", 1).Bills[0]
	if doubled.Bill != demoBill || doubled.Write == nil || doubled.Write.Request == "" || doubled.Write.Result != "at both backends" {
		t.Errorf("%+v", doubled)
	}
	equal(t, strings.Count(m.logs.String(), `"msg":"a bill is at both backends"`), 1)
	checkText(t, m.logs.String(), `"reason":"rollout: both: `)
	m.mustPost("/rollout/assign?partner=" + doubled.Partner + "&bill=" + demoBill + "&to=old&by=anna")
	m.checkListed("doubled=true", 0)
	m.ask(200, "GET /audit", `"action":"assign","by":"anna"`, demoBill)
	m.expect(v2("destroy"), success)
	if o, n := m.old.Bills()[0].State, m.fresh.Bills()[0].State; string(o) != "D" || string(n) != "W" {
		t.Errorf("%s, %s", o, n)
	}
}
