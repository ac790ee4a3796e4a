package proxy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
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
	m.waitForLog(`"level":"WARN"`, "the store is new: both backends are probed", "billbridge rollout begin")
	m.checkMetric("billbridge_rollout_begun 0")
	m.ask(200, "GET /rollout", `"started":`, `!"begun":`)
	m.expect(v2("create"), idInUse) // a probe finds the bill at the new backend
	m.mustPost("/rollout/stop?by=anna")
	m.expect(legacy("read"), success)
	m.expect(v2("create"), idInUse)
	// Both backends reply "no such bill" for another one. That counts after the settling period, since a
	// create may be in progress.
	q := v2("create").with("billId", "ANOTHER0000000000001")
	m.expect(q, refused)
	asked := m.newCalls.count()
	m.afterSettling(q)
	equal(t, m.newCalls.count() > asked, true, "probed during the stop")
	if o, n := m.old.Bills(), m.fresh.Bills(); len(o) != 1 || len(n) != 1 || o[0].ID == n[0].ID {
		t.Errorf("the old backend has %v, the new one %v", o, n)
	}
}

// With a new store bills are refused until the operator confirms that this is the first start. After it a create in
// stage old needs no probe.
func TestNewStoreRefusesBillsUntilItIsBegun(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	m.restart(strings.ReplaceAll(*m.text.Load(), m.file, m.file+".first"))
	m.expect(v2("create"), refused, "Nothing was sent")
	m.expect(v2("destroy"), refused)
	m.expect(v2("read"), refused)
	m.mustPost("/rollout/begin?by=anna")
	m.checkMetric("billbridge_rollout_begun 1")
	old, fresh := m.oldCalls.count(), m.newCalls.count()
	m.expect(v2("create"), success)
	m.checkCalls(t, old+1, fresh)
	m.ask(409, "POST /rollout/begin?by=ben", "by anna")
}

// Bills that were found at the new backend contradict a first start.
func TestBeginWithBillsAtTheNewBackendNeedsForce(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	prepareBill(t, m.fresh, "W", demoBill)
	m.restart(strings.ReplaceAll(*m.text.Load(), m.file, m.file+".first"))
	m.expect(v2("create"), idInUse)
	m.ask(409, "POST /rollout/begin?by=anna", "the ledger is new and already has bills at new (1)")
	m.mustPost("/rollout/begin?by=anna&"+forced, `"forced":true`)
}

// The address of a backend with bills can change only after the operator has confirmed that it is the same backend.
func TestChangedAddressMustBeConfirmed(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	m.expect(v2("create"), success)
	moved := strings.Replace(*m.text.Load(), m.oldCalls.url, strings.Replace(m.oldCalls.url, "127.0.0.1", "localhost", 1), 1)
	m.reload(400, moved, "billbridge rollout moved old --by NAME")
	m.mustPost("/rollout/moved?upstream=old&by=anna")
	m.ask(200, "GET /rollout", `"may_move":{"by":"anna"`)
	m.reload(200, moved)
	m.ask(200, "GET /rollout", `!"may_move":`, "localhost")
	m.expect(v2("create"), idInUse)
}

// rollout.default in the config has the preconditions of `rollout set --default`, at a reload and at a start.
func TestDefaultInTheConfigMustMeetThePreconditions(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	m.mustPost("/rollout/unset?partner=default&by=test")
	m.expect(v2("create"), success)
	was := *m.text.Load()
	next := strings.Replace(was, "new: new", "new: new, default: new", 1)
	_, reasons, _ := strings.Cut(m.ask(409, "POST /rollout/stage?partner=default&stage=new&by=anna", "Reasons:\n"), "Reasons:\n")
	const notChanged = "rollout.default is new, was old: not changed"
	stays := func(bill string) {
		t.Helper()
		m.ask(200, "GET /rollout", `"default":{"stage":"old"}`, "rollout.default is new, was old")
		m.expect(v2("create").with("billId", bill), success)
		equal(t, len(m.fresh.Bills()), 0)
	}
	m.reload(400, next, notChanged, strings.TrimSpace(reasons))
	m.checkMetric("billbridge_config_last_reload_successful 0")
	stays("ANOTHER0000000000001")
	m.restart(next) // at a start, too, the previous default stays
	m.waitForLog(`"level":"ERROR"`, notChanged)
	stays("AFTERTHESTART0000001")
	m.mustPost("/rollout/stage?partner=default&stage=new&by=anna&" + forced)
	m.reload(200, next)
	m.reload(200, strings.Replace(was, "new: new", "new: new, default: shadow", 1)) // the way back is not refused
}

// At the start the clock of the machine is four years from the clock of the store. The status and the metrics show it,
// until the operator confirms the clock.
func TestWrongClockIsShownUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	const off = 4 * 365 * 24 * time.Hour
	m := newRolloutGateway(t, "old")
	m.expect(v2("create"), success)
	m.stopAndWait()
	must(t, m.store.ConfirmClock(t.Context(), "test", time.Now().Add(-off)))
	m.process = newProcess(t, *m.text.Load())
	m.waitForLog(`"level":"WARN"`, "the clock and the store's clock differ by more than a day: expired rows are not removed", "billbridge store clock --confirm")
	m.ask(200, "GET /rollout", `"stepped":true`)
	m.ask(200, "GET /store/clock", `"stepped":true`, fmt.Sprintf(`"store":"%d-`, time.Now().Add(-off).UTC().Year()))
	m.checkMetric("billbridge_store_clock_offset_seconds 1.26")
	m.expect(v2("read"), success)
	m.mustPost("/store/clock?by=anna", `"stepped":false`)
	m.waitForLog("the clock was confirmed", `"by":"anna"`)
	m.waitForLog("the clock and the store's clock agree again")
	m.ask(200, "GET /rollout", `"stepped":false`)
}

// afterSettling makes the settling period of the ledger an hour old, and creates a bill that was refused within it.
func (m *rolloutGateway) afterSettling(q call) {
	m.t.Helper()
	m.exec("UPDATE billbridge_rollout SET restored = restored - 3600000, started = started - 3600000, revision = revision + 1")
	var got answer
	proxytest.Eventually(m.t, func() bool { got = m.send(q); return got.status == 200 }, func() string { return got.body })
	got.check(m.t, q.form, success)
}
