package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// Of 48 creates that time out, a third took effect, a third did not, and the backend gives no clear answer about the
// others. The gateway reads each bill once when the reads are due, from the first success of the partner on, with the
// merchant of the create. It sends nothing but reads. Only the last third is left to an operator.
func TestGatewayReadsUnknownOutcomesByItself(t *testing.T) {
	t.Parallel()
	const writes = 48
	m := newRolloutWith(t, "old", noFront, patient+", unknown: {rate: 100}}\nfailures: {explain: 0s")
	for i := range writes {
		group := "YNX"[i%3]
		bill := fmt.Sprintf("TIMEDOUT%c%010d", group, i)
		m.old.Fault(sandbox.Fault{Drop: true, Skip: group != 'Y'})
		m.expect(v2("create").with("billId", bill), unknown)
		if group == 'X' {
			m.old.Fault(sandbox.Fault{Bill: bill, Count: writes, Drop: true})
		}
	}
	play(m, `
listed 48 outcome=unknown
listed 0 outcome=unclear
# the writes cannot take effect any more
sql UPDATE billbridge_unknown SET next_read = 0, at = at - 120000
# none before the first success of the partner
calls 48 0
success v2 create
`)
	for _, b := range m.checkListed("outcome=resolved", writes/3*2).Bills {
		want := map[byte]string{'Y': "has it", 'N': "no such bill"}[b.Bill[len("TIMEDOUT")]]
		if w := b.Write; w.Result != want || w.ReadBy != "gateway" || w.Reads != 1 || w.Resolved == nil {
			t.Errorf("%s: %+v", b.Bill, w)
		}
	}
	eventually(t, "not each read has ended", func() bool {
		return !strings.Contains(m.admin("GET", "/rollout/bills?outcome=unknown").body, "not asked")
	})
	for _, b := range m.checkListed("outcome=unknown", writes/3).Bills {
		if w := b.Write; b.Bill[len("TIMEDOUT")] != 'X' || w.Result != "no clear answer" || w.Reads != 1 || w.NextRead == nil {
			t.Errorf("%s: %+v", b.Bill, w)
		}
	}
	play(m, `
sql UPDATE billbridge_unknown SET at = at - 4000000
listed 16 outcome=unclear
200 GET /metrics | billbridge_rollout_unknown_reads_total{shown="has it"} 16 | {shown="no such bill"} 16 | {shown="no clear answer"} 16
# An operator has them read at once: 48 creates and the success, 48 reads and 16 more.
200 POST /rollout/read-all | {"unknown":16,"due":16}
calls 113 0
`)
	equal(t, m.oldCalls.writes(), writes+1)
}
