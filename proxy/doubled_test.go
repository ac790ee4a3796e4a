package proxy_test

import (
	"strings"
	"testing"
)

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
