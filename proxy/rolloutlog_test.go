package proxy_test

import (
	"strings"
	"testing"

	"billbridge/proxy/partner"
)

// nextRequestLog returns the next line of the access log.
func (m *rolloutGateway) nextRequestLog() map[string]any {
	m.t.Helper()
	for {
		if line := fields(m.t, m.logs.Next(m.t)); line["msg"] == "request" {
			return line
		}
	}
}

// checkNextLog checks keys of the next line of the access log; "" means that the key must be absent.
func (m *rolloutGateway) checkNextLog(of string, pairs ...string) {
	m.t.Helper()
	line := m.nextRequestLog()
	for i := 0; i < len(pairs); i += 2 {
		if got, _ := line[pairs[i]].(string); got != pairs[i+1] {
			m.t.Errorf("%s: %s is %q, want %q in %v", of, pairs[i], got, pairs[i+1], line)
		}
	}
}

// During a rollout the line of a call has the reason for its backend. The lines of other calls have no reason.
func TestLogShowsTheReasonForTheBackend(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	create := func(bill string) { m.expect(v2("create").with("billId", bill), success) }
	create("A")
	m.checkNextLog("a create", "upstream", "old", "route", "stage")
	m.expect(v2("read").with("billId", "A"), success)
	m.checkNextLog("a read of it", "upstream", "old", "route", "owner")
	prepareBill(t, m.old, "W", demoBill) // not through the gateway
	m.expect(v2("read"), success)
	m.checkNextLog("a read of what the ledger does not know", "upstream", "old", "route", "probe")
	m.mustPost("/rollout/stage?by=anna&" + forced + "&partner=default&stage=canary&percent=100")
	create("B")
	m.checkNextLog("a create in canary", "upstream", "new", "route", "canary")
	m.mustPost("/rollout/stop?by=anna&" + forced)
	create("C")
	m.checkNextLog("a create after the stop", "upstream", "old", "route", "stop")
	m.post("/read/mapping", `{"apiKey":"`+demoKey+`"}`)
	m.checkNextLog("an operation that the rollout does not decide on", "upstream", "new", "route", "")
}

// The line and the metric of a call that is not sent have the partner and no upstream. Earlier versions had the
// upstream and not the partner.
func TestLogOfCallsThatAreNotSent(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		m := newRolloutGateway(t, "new")
		partner := partner.Of(demoKey).Short()
		m.expect(newCall(client, "read"), noSuchBill)
		m.checkNextLog("a read of no bill", "upstream", "none", "partner", partner, "route", "", "reason", "")
		prepareBill(t, m.old, "W", demoBill)
		prepareBill(t, m.fresh, "W", demoBill)
		m.expect(newCall(client, "destroy"), wantAnswer{409, "VALIDATION_001"})
		m.checkNextLog("a write of a bill that is at both", "upstream", "none", "partner", partner, "route", "", "reason", "rollout: both: an operator must assign it: billbridge rollout bill --assign")
		if line := `"msg":"a bill is at both backends","id":"`; !strings.Contains(m.logs.String(), line) || !strings.Contains(m.logs.String(), `"partner":"`+partner+`","bill":"`+demoBill+`","operation":"bill.destroy"`) {
			t.Errorf("no line with the bill in %s", m.logs.String())
		}
		m.post(newCall(client, "read").path(), "{")
		m.checkNextLog("a call that is no call", "upstream", "none", "reason", "refused")
		m.expect(newCall(client, "read"), success)
		m.checkNextLog("a read of a bill that is at both", "upstream", "new", "partner", partner, "route", "probe")
		scraped := m.metrics()
		for _, series := range []string{
			`code="BILL_003",operation="bill.read",status="200",upstream="none"} 1`,
			`code="VALIDATION_001",operation="bill.destroy",status="409",upstream="none"} 1`,
			`code="0000",operation="bill.read",status="200",upstream="new"} 1`,
		} {
			if series = `billbridge_requests_total{client="` + client + `",` + series; !strings.Contains(scraped, series) {
				t.Errorf("no %s in\n%s", series, filterMetrics(scraped, "billbridge_requests_total"))
			}
		}
	})
}
