package proxy_test

import "testing"

// nextRequestLog returns the next line of the access log.
func (m *rolloutGateway) nextRequestLog() map[string]any {
	m.t.Helper()
	for {
		if line := fields(m.t, m.logs.Next(m.t)); line["msg"] == "request" {
			return line
		}
	}
}

// During a rollout the line of a call has the reason for its backend. The lines of other calls have no reason.
func TestLogShowsTheReasonForTheBackend(t *testing.T) {
	t.Parallel()
	play(newRolloutGateway(t, "old"), `
success v2 create billId=A
logged upstream=old | route=stage
success v2 read billId=A
logged upstream=old | route=owner
# the ledger does not know it
has old W
success v2 read
logged upstream=old | route=probe
200 POST /rollout/stage?by=anna&{forced}&partner=default&stage=canary&percent=100
success v2 create billId=B
logged upstream=new | route=canary
200 POST /rollout/stop?by=anna&{forced}
success v2 create billId=C
logged upstream=old | route=stop
# an operation that the rollout does not decide on
post 200 /read/mapping {"apiKey":"demo-partner-key"}
logged upstream=new | route=
`)
}

// The line and the metric of a call that is not sent have the partner and no upstream. Earlier versions had the
// upstream and not the partner.
func TestLogOfCallsThatAreNotSent(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		play(newRolloutGateway(t, "new"), `
noSuchBill CLIENT read
logged upstream=none | partner={short} | route= | reason=
has old W
has new W
409:VALIDATION_001 CLIENT destroy
logged upstream=none | partner={short} | route= | reason=rollout: both: an operator must assign it: billbridge rollout bill --assign
logs "msg":"a bill is at both backends","id":" | "partner":"{short}","bill":"1234567890ABCDEFGHIJ","operation":"bill.destroy"
post 400 PATH {
logged upstream=none | reason=refused
success CLIENT read
logged upstream=new | partner={short} | route=probe
metric billbridge_requests_total{client="CLIENT",code="BILL_003",operation="bill.read",status="200",upstream="none"} 1
metric billbridge_requests_total{client="CLIENT",code="VALIDATION_001",operation="bill.destroy",status="409",upstream="none"} 1
metric billbridge_requests_total{client="CLIENT",code="0000",operation="bill.read",status="200",upstream="new"} 1
`, "CLIENT", client, "PATH", newCall(client, "read").path())
	})
}
