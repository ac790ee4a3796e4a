package sandbox_test

import (
	"fmt"
	"sync"
	"testing"
)

// atOnce makes n calls at the same time, and counts their results.
func atOnce(n int, call func(i int) string) map[string]int {
	outcomes := make([]string, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			outcomes[i] = call(i)
		})
	}
	done.Wait()
	count := map[string]int{}
	for _, o := range outcomes {
		count[o]++
	}
	return count
}

// Of concurrent calls for one bill, in both forms, one succeeds and the others are refused.
func TestOnlyOneOfConcurrentCallsSucceeds(t *testing.T) {
	t.Parallel()
	const calls = 32
	for _, row := range []struct {
		op, from, late, state string
		approvals             int // before this operation
	}{
		{"cancel", "F", "BILL_002", "C", 2},
		{"destroy", "W", "BILL_002", "D", 0},
		{"create", "", "BILL_001", "W", 0},
	} {
		t.Run(row.op, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			if row.from != "" {
				r.createInState(row.from)
			}
			got := atOnce(calls, func(i int) string {
				code, _ := r.do(newCall(forms[i%2], row.op))
				return code
			})
			if got["0000"] != 1 || got[row.late] != calls-1 {
				t.Errorf("got %v", got)
			}
			if r.state() != row.state || len(r.Bills()) != 1 {
				t.Errorf("state %s, %d bills", r.state(), len(r.Bills()))
			}
			// A refused call uses no approval number.
			r.must(newCall("v2", "create").with("billId", "NEXT"))
			must(t, r.Pay(demoKey, "NEXT"))
			want := fmt.Sprintf("%08d", 30000001+row.approvals)
			if b, _ := r.Bill(demoKey, "NEXT"); b.Approval.Num != want {
				t.Errorf("the next approval is %s, not %s", b.Approval.Num, want)
			}
		})
	}
}
