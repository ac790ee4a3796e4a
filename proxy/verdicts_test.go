package proxy_test

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"billbridge/proxy/operate"
	"billbridge/proxy/rollout/evidence"
)

// checkNoFail fails for every verdict that is FAIL.
func (m *rolloutGateway) checkNoFail(t *testing.T) {
	t.Helper()
	all := m.verdicts()
	equal(t, len(all) > 0, true, "the report has verdicts")
	for _, v := range all {
		equal(t, v.Ruling == evidence.Fail, false, v.Operation, v.Evidence, v.Reason)
	}
}

// While the store is down, the owner of a bill is unknown. A backend's reply "no such bill" must not count as its
// failure then.
func TestStoreOutageIsNotCountedAgainstABackend(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	times := func(n int, step string) string { return strings.Repeat(step+"\n", n) }
	play(m, `
has old W
success v2 create billId=ATTHENEWBACKEND00001
`+times(110, "success v2 read"))
	must(t, os.Rename(m.file, m.file+".away"))
	play(m, times(12, "refused v2 read")+"success v2 read billId=ATTHENEWBACKEND00001")
	must(t, os.Rename(m.file+".away", m.file))
	m.checkNoFail(t)
	equal(t, verdictOn(operate.Report{Verdicts: m.verdicts()}, "bill.read", evidence.ByCalls).Calls, [2]int{110, 1})
}

// A caller that disconnects does not count as a failure of the backend.
func TestDisconnectsAreNotCountedAgainstABackend(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	m := newRolloutWith(t, "new", func(backendName string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if backendName == "new" && slow.Load() {
				<-r.Context().Done()
				return
			}
			service.ServeHTTP(w, r)
		})
	}, "")
	prepareBill(t, m.old, "W", "ATTHEOLDBACKEND00001")
	m.expect(v2("create"), success)
	m.expect(v2("read"), success)
	for range 110 {
		m.expect(v2("read").with("billId", "ATTHEOLDBACKEND00001"), success)
	}
	slow.Store(true)
	for range 12 {
		before := m.newCalls.count()
		leave, ended := m.sendAndLeave(v2("read"))
		eventually(t, "the call did not arrive", func() bool { return m.newCalls.count() > before })
		leave()
		equal(t, receive(t, ended, "the caller") != nil, true)
		m.waitForLog(`"status":499`)
	}
	m.checkNoFail(t)
}
