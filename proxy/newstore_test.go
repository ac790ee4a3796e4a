package proxy_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// checkMetric fails unless the line is among the metrics.
func (p *process) checkMetric(line string) {
	p.t.Helper()
	if got := p.metrics(); !strings.Contains("\n"+got, "\n"+line) {
		name, _, _ := strings.Cut(line, " ")
		p.t.Errorf("no %s in\n%s", line, filterMetrics(got, name))
	}
}

// ask makes a request to the admin listener, such as "GET /rollout", and checks its answer.
func (p *process) ask(status int, target string, says ...string) string {
	p.t.Helper()
	method, path, _ := strings.Cut(target, " ")
	got := p.admin(method, path)
	if got.status != status {
		p.t.Fatalf("%s: %d %s", target, got.status, got.body)
	}
	checkText(p.t, got.body, says...)
	return got.body
}

// mustPost posts to the admin listener and requires 200.
func (p *process) mustPost(target string, says ...string) string {
	p.t.Helper()
	return p.ask(200, "POST "+target, says...)
}

// reload reloads a config.
func (p *process) reload(status int, text string, says ...string) {
	p.t.Helper()
	p.text.Store(&text)
	p.ask(status, "POST /-/reload", says...)
}

// adminPost posts a body to the admin listener and checks the answer.
func (p *process) adminPost(status int, path, body string, says ...string) {
	p.t.Helper()
	(&caller{p.t, "http://" + p.AdminAddress(), p.client}).post(path, body).is(p.t, status, says...)
}

func (p *process) metrics() string { return p.admin("GET", "/metrics").body }

// stopAndWait stops the server and waits until it has ended.
func (p *process) stopAndWait() {
	p.t.Helper()
	p.stop()
	must(p.t, receive(p.t, p.ended, "end of the server"))
}

// The store of a running rollout is lost, and the gateway starts with an empty one. A bill that was created at the new
// backend must not be created again at the old one, which is the default stage's backend, nor during a stop.
func TestLostStoreIsNotAFirstStart(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	m.expect(v2("create"), success)
	m.stopAndWait()
	must(t, m.store.Close())
	must(t, os.Remove(m.file))
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(m.file + end)
	}
	m.process = newProcess(t, *m.text.Load())
	play(m, section(t))
	asked := m.newCalls.count()
	m.afterSettling(v2("create").with("billId", "ANOTHER0000000000001"))
	equal(t, m.newCalls.count() > asked, true, "probed during the stop")
	m.checkBills(1, 1)
	equal(t, m.old.Bills()[0].ID == m.fresh.Bills()[0].ID, false)
}

// With a new store bills are refused until the operator confirms that this is the first start. After it a create in
// stage old needs no probe.
func TestNewStoreRefusesBillsUntilItIsBegun(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	play(m, `
restart FILE => FILE.first
refused v2 create | Nothing was sent
refused v2 destroy,read
200 POST /rollout/begin?by=anna
metric billbridge_rollout_begun 1
`, "FILE", m.file)
	old, fresh := m.oldCalls.count(), m.newCalls.count()
	m.expect(v2("create"), success)
	m.checkCalls(old+1, fresh)
	m.ask(409, "POST /rollout/begin?by=ben", "by anna")
}

// Bills that were found at the new backend contradict a first start.
func TestBeginWithBillsAtTheNewBackendNeedsForce(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	play(m, `
has new W
restart FILE => FILE.first
idInUse v2 create
409 POST /rollout/begin?by=anna | the ledger is new and already has bills at new (1)
200 POST /rollout/begin?by=anna&{forced} | "forced":true
`, "FILE", m.file)
}

// The address of a backend with bills can change only after the operator has confirmed that it is the same backend.
func TestChangedAddressMustBeConfirmed(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	play(m, section(t), "URL", m.oldCalls.url, "MOVED", strings.Replace(m.oldCalls.url, "127.0.0.1", "localhost", 1))
}

// rollout.default in the config has the preconditions of `rollout set --default`, at a reload and at a start.
func TestDefaultInTheConfigMustMeetThePreconditions(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "old", noFront, ", bills: shared")
	play(m, `
200 POST /rollout/stage?stage=default&partner=default&by=test
success v2 create`)
	_, reasons, _ := strings.Cut(m.ask(409, "POST /rollout/stage?partner=default&stage=new&by=anna", "Reasons:\n"), "Reasons:\n")
	play(m, section(t), "REASONS", strings.TrimSpace(reasons))
}

// At the start the clock of the machine is four years from the clock of the store. The status and the metrics show it,
// until the operator confirms the clock.
func TestWrongClockIsShownUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	m.expect(v2("create"), success)
	m.stopAndWait()
	then := time.Now().Add(-4 * 365 * 24 * time.Hour)
	must(t, m.store.ConfirmClock(t.Context(), store.Author{Name: "test"}, then))
	m.process = newProcess(t, *m.text.Load())
	play(m, section(t), "YEAR", fmt.Sprint(then.UTC().Year()))
}

// afterSettling makes the settling period of the ledger an hour old, and creates a bill that was refused within it.
func (m *rolloutGateway) afterSettling(q call) {
	m.t.Helper()
	m.exec("UPDATE billbridge_rollout SET restored = restored - 3600000, started = started - 3600000, revision = revision + 1")
	var got answer
	proxytest.Eventually(m.t, func() bool { got = m.send(q); return got.status == 200 }, func() string { return got.body })
	got.check(m.t, q.form, success)
}

// A config that would lose bill ownership is refused at a reload and at a start. Package store has the other cases.
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
	m.stopAndWait()
	for change, says := range map[string]string{
		"new: new => new: new, bills: shared":                          "rollout.bills is shared in the config, but bills in the ledger are each at one upstream",
		"old: old, new: new => old: new, new: old":                     "the other way round than before",
		"rollout: {old: old, new: new" + patient + "}\nstore => store": `all calls would go to upstream "old", but bills in the ledger are at upstream "new"`,
	} {
		m.text.Store(&was)
		startFails(t, t.Context(), m.changed(change), nil, says)
	}
	newProcess(t, was)
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
		s.Change(t.Context(), store.Change{Action: store.Begun, By: "anna", At: lastWeek}), s.Seen(t.Context(), partner.Of(demoKey), lastWeek)))
	if forced {
		must(t, s.Change(t.Context(), store.Change{Action: store.Staged, Partner: partner.Of(demoKey), To: "new", By: "anna", At: lastWeek.Add(time.Hour), Forced: true}))
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
