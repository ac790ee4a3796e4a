package sandbox_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// checkRows are calls: a state of the bill before, an operation, a changed field; and then the code, the checks that were made, and the
// wrong field. What comes before ... are the checks of every call on a bill.
const checkRows = `
     | create  |                    | 0000           | ... fields hash amount type unique message |
     | create  | sendType=URL       | 0000           | ... fields hash amount type unique         |
     | create  | apiKey=unknown     | PARTNER_003    | key                                        |
     | create  | apiKey=demo-expired-key | PARTNER_006 | key contract                             |
     | create  | member=            | VALIDATION_001 | ...                                        | member
     | create  | phone=1            | VALIDATION_004 | ... fields                                 |
     | create  | expireDt=x         | VALIDATION_001 | ... fields                                 | bill.expireDt
     | create  | hash=00            | VALIDATION_002 | ... fields hash                            |
     | create  | price=200          | PAYMENT_005    | ... fields hash amount                     |
     | create  | apiKey=demo-notalk-key  | BILL_009  | ... fields hash amount type                |
  W  | create  |                    | BILL_001       | ... fields hash amount type unique         |
     | create  | apiKey=demo-nopoint-key | POINT_001 | ... fields hash amount type unique message |
     | read    |                    | BILL_003       | ... fields bill                            |
  W  | read    |                    | 0000           | ... fields bill                            |
  W  | resend  |                    | 0000           | ... fields bill state message              |
  F  | resend  |                    | BILL_006       | ... fields bill state                      |
  W  | destroy |                    | 0000           | ... fields hash bill state whole           |
  W  | destroy | price=20000        | VALIDATION_001 | ... fields hash bill state whole           | bill.price
  W  | cancel  |                    | BILL_002       | ... fields hash bill state                 |
  F  | cancel  |                    | 0000           | ... fields hash bill state whole           |
  F  | cancel  | hash=00            | VALIDATION_002 | ... fields hash                            |
`

// The log says which checks were made, in order. The last one is the one that refused the call.
func TestLogHasTheChecks(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOf(checkRows) {
		t.Run(strings.Join(row[:3], " "), func(t *testing.T) {
			t.Parallel()
			r := start(t)
			if row[0] != "" {
				r.createInState(row[0])
			}
			call := newCall("v2", row[1])
			if name, value, ok := strings.Cut(row[2], "="); ok {
				call = call.with(name, value)
			}
			code, _ := r.do(call)
			eventually(t, func() bool { list := r.Exchanges(); return list[len(list)-1].Operation == "bill."+row[1] })
			list := r.Exchanges()
			x := list[len(list)-1]
			want := strings.Replace(row[4], "...", "key contract types merchant", 1)
			if got := strings.Join(x.Checked, " "); code != row[3] || got != want || x.Field != row[5] || x.Number != len(list) {
				t.Errorf("%s %q %q %d, want %s", code, got, x.Field, x.Number, row[3:])
			}
		})
	}
	r := start(t)
	r.Fault(sandbox.Fault{Code: "MAINTAINED_METHOD"})
	r.do(newCall("v2", "read"))
	if x := r.Exchanges()[0]; len(x.Checked) != 0 {
		t.Errorf("with a fault: %v", x.Checked)
	}
	r.post("/read/mapping", `{"apiKey":"demo-partner-key"}`)
	equal(t, fmt.Sprint(r.Exchanges()[1].Checked), "[key contract types merchants]", "an operation on merchants")
}
