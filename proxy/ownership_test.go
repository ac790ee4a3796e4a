package proxy_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A config that would lose bill ownership is refused at a reload.
func TestOwnershipCannotBeSwitchedOff(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	m.expect(v2("create"), success)
	was := *m.text.Load()
	for _, row := range map[string]struct{ old, now, says string }{
		"shared":   {"new: new", "new: new, bills: shared", "rollout.bills has changed: restart to change it"},
		"swapped":  {"old: old, new: new", "old: new, new: old", "the other way round"},
		"switched": {"rollout: {old: old, new: new" + patient + "}\n", "", "rollout has changed: restart to change it"},
	} {
		m.reload(400, strings.Replace(was, row.old, row.now, 1), row.says)
	}
	m.reload(200, was)
}

// Bills that were created while bills were shared have no owner. When each bill has an owner again, unknown bills are
// looked up from the first call on.
func TestBillsCreatedWithoutOwnersAreLookedUp(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "drained", noFront, ", bills: shared")
	separate := strings.Replace(*m.text.Load(), ", bills: shared", "", 1)
	m.restart(separate)
	// During the settling period a create of that time may still be in progress at the old backend.
	m.expect(v2("create"), refused)
	m.checkCalls(1, 0) // the old backend was probed
	m.afterSettling(v2("create"))
	m.checkBills(0, 1)
}

// While the section rollout was removed, a create went to the old backend and timed out. When the section is back, the
// bill is not created at the new backend.
func TestCreateFromATimeWithoutTheRolloutIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, forced := range []bool{false, true} {
		parallel(t, map[bool]string{false: "by the default", true: "by force"}[forced], func(t *testing.T) {
			billFromATimeWithoutTheRollout(t, forced)
		})
	}
}

func billFromATimeWithoutTheRollout(t *testing.T, forced bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "store.db")
	s := proxytest.Open(t, "sqlite:"+file)
	lastWeek := time.Now().Add(-7 * 24 * time.Hour)
	must(t, s.SetBackends(t.Context(), store.Backends{Old: "old", New: "new", Staying: []string{"old", "shadow"}}, lastWeek))
	must(t, s.Begin(t.Context(), "anna", lastWeek))
	must(t, s.Seen(t.Context(), partner.Of(demoKey), lastWeek))
	if forced {
		stage := store.Stage{Partner: partner.Of(demoKey), Stage: "new", By: "anna", At: lastWeek.Add(time.Hour), Forced: true}
		must(t, s.SetStage(t.Context(), stage))
	}
	old, fresh := newService(), newService()
	release, made := make(chan struct{}), make(chan struct{})
	var once sync.Once
	oldCalls := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/send") { // slow
			defer once.Do(func() { close(made) })
			<-release
		}
		old.ServeHTTP(w, r)
	})
	newCalls := newBackend(t, fresh)
	text := func(rollout string) string {
		return anyPort + fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q, timeout: 1s}
  new: {form: v2, url: %q}
route: {default: old}
%s
store: {url: "sqlite:%s"}
`, oldCalls.url, newCalls.url, rollout, file)
	}
	p := newProcess(t, text(""))
	p.expect(v2("create"), unknownLate)
	p.stopAndWait()
	p = newProcess(t, text("rollout: {old: old, new: new, default: new}"))
	p.expect(v2("create"), refused)
	close(release)
	receive(t, made, "the bill")
	equal(t, len(fresh.Bills()), 0)
}
