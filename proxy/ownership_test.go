package proxy_test

import (
	"errors"
	"fmt"
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
	for change, says := range map[string]string{
		"new: new => new: new, bills: shared":                          "rollout.bills has changed: restart to change it",
		"old: old, new: new => old: new, new: old":                     "the other way round",
		"rollout: {old: old, new: new" + patient + "}\nstore => store": "rollout has changed: restart to change it",
	} {
		m.text.Store(&was)
		m.reload(400, m.changed(change), says)
	}
	m.reload(200, was)
}

// Bills that were created while bills were shared have no owner. When each bill has an owner again, unknown bills are
// looked up from the first call on.
func TestBillsCreatedWithoutOwnersAreLookedUp(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "drained", noFront, ", bills: shared")
	play(m, `
restart , bills: shared} => }
# During the settling period a create of that time may still be in progress at the old backend, which was probed.
refused v2 create
calls 1 0`)
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
	url := proxytest.SQLite(t)
	s := proxytest.Open(t, url)
	lastWeek := time.Now().Add(-7 * 24 * time.Hour)
	must(t, errors.Join(s.SetBackends(t.Context(), store.Backends{Old: "old", New: "new", Staying: []string{"old", "shadow"}}, lastWeek),
		s.Begin(t.Context(), "anna", lastWeek), s.Seen(t.Context(), partner.Of(demoKey), lastWeek)))
	if forced {
		must(t, s.SetStage(t.Context(), store.Stage{Partner: partner.Of(demoKey), Stage: "new", By: "anna", At: lastWeek.Add(time.Hour), Forced: true}))
	}
	g, old := newHeldBackend(t, "/send", 1)
	fresh := newService()
	text := anyPort + fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q, timeout: 1s}
  new: {form: v2, url: %q}
route: {default: old}
store: {url: %q}
`, old.url, newBackend(t, fresh).url, url)
	p := newProcess(t, text)
	p.expect(v2("create"), unknownLate)
	p.stopAndWait()
	p = newProcess(t, text+"rollout: {old: old, new: new, default: new}")
	p.expect(v2("create"), refused)
	g.open()
	equal(t, len(fresh.Bills()), 0)
}
