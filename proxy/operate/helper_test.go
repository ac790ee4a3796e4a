package operate_test

import (
	"fmt"
	"time"

	"billbridge/proxy/evidence"
)

const someone = "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3a94a8fe5ccb19ba61c4c0873"

var since = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func newCounts() *evidence.Counts {
	return evidence.NewCounts("0123456789ab", func() time.Time { return since })
}

// add counts n comparisons of as many bills.
func add(t *evidence.Counts, n int, class evidence.Class, differences ...evidence.Difference) {
	for i := range n {
		t.Add(someone, "bill.read", evidence.Comparison{
			Class: class, Differences: differences, Bill: fmt.Sprint("bill-", i), Succeeded: [2]bool{true, true}, Request: fmt.Sprint("call-", i), At: since.Add(time.Hour),
		})
	}
}
