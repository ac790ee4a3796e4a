package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
	"billbridge/proxy/store"
)

// A config that would lose bill ownership is refused at a reload and at a start.
func TestOwnershipCannotBeSwitchedOff(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	m.send(newCall("v2", "create")).check(t, "v2", 200, "0000")
	was := *m.text.Load()
	for name, row := range map[string]struct{ old, now, says string }{
		"shared":   {"rollout: {old: old, new: new}", "rollout: {old: old, new: new, bills: shared}", "rollout.bills has changed: restart to change it"},
		"swapped":  {"rollout: {old: old, new: new}", "rollout: {old: new, new: old}", "the other way round"},
		"switched": {"rollout: {old: old, new: new}\n", "", "rollout has changed: restart to change it"},
	} {
		text := strings.Replace(was, row.old, row.now, 1)
		m.text.Store(&text)
		if got := m.admin("POST", "/-/reload"); got.status != 400 || !strings.Contains(got.body, row.says) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	m.text.Store(&was)
	if got := m.admin("POST", "/-/reload"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	m.stop()
	if err := receive(t, m.ended, "end of the server"); err != nil {
		t.Fatal(err)
	}
	start := func(text string) error { return startOf(t, text) }
	if err := start(strings.Replace(was, "new: new}", "new: new, bills: shared}", 1)); err == nil || !strings.Contains(err.Error(), "rollout.bills is shared") {
		t.Errorf("shared: %v", err)
	}
	without := strings.Replace(was, "rollout: {old: old, new: new}\n", "", 1)
	if err := start(without); err == nil || !strings.Contains(err.Error(), `"new"`) {
		t.Errorf("without a rollout: %v", err)
	}
	// All calls may go to the backend that has all bills. When the rollout is back, bills of the meantime are looked up.
	if err := start(strings.Replace(without, "route: {default: old}", "route: {default: new}", 1)); err != nil {
		t.Errorf("without a rollout, to where the bills are: %v", err)
	}
	if err := start(was); err != nil {
		t.Error(err)
	}
	if r, err := m.store.Rollout(t.Context()); err != nil || r.Restored.At.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
}

// startOf starts a server, stops it at once, and returns the error of the start.
func startOf(t *testing.T, text string) error {
	t.Helper()
	s, err := server.Listen(t.Context(), parse(t, text), nil, nil, server.Build{}, slog.New(slog.DiscardHandler))
	if err == nil {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		return s.Run(ctx)
	}
	return err
}

// Bills that were created while bills were shared have no owner. When each bill has an owner again, unknown bills are
// looked up from the first call on.
func TestBillsCreatedWithoutOwnersAreLookedUp(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "legacy", "v2", "drained", func(_ string, service http.Handler) http.Handler { return service }, ", bills: shared")
	separate := strings.Replace(*m.text.Load(), ", bills: shared", "", 1)
	m.text.Store(&separate)
	if got := m.admin("POST", "/-/reload"); got.status != 400 || !strings.Contains(got.body, "rollout.bills has changed: restart to change it") {
		t.Fatal(got)
	}
	m.stop()
	if err := receive(t, m.ended, "end of the server"); err != nil {
		t.Fatal(err)
	}
	separate = strings.Replace(strings.ReplaceAll(separate, "{form:", "{timeout: 500ms, wait: 400ms, form:"), "new: new}", "new: new, settle: 4s}", 1)
	m.process = newProcess(t, separate)
	// During the settling period a create of that time may still be in progress at the old backend.
	m.send(newCall("v2", "create")).check(t, "v2", 503, "MAINTAINED_METHOD")
	m.checkCalls(t, 1, 0) // the old backend was probed
	var got answer
	proxytest.Eventually(t, func() bool { got = m.send(newCall("v2", "create")); return got.status == 200 }, func() string { return got.body })
	got.check(t, "v2", 200, "0000")
	if n := len(m.fresh.Bills()); n != 1 || len(m.old.Bills()) != 0 {
		t.Errorf("%d bills at the new backend, %d at the old one, want 0 and 1", n, len(m.old.Bills()))
	}
}

// While the section rollout was removed, a create went to the old backend and timed out. When the section is back, the
// bill is not created at the new backend.
func TestCreateFromATimeWithoutTheRolloutIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, forced := range []bool{false, true} {
		t.Run(map[bool]string{false: "by the default", true: "by force"}[forced], func(t *testing.T) {
			t.Parallel()
			billFromATimeWithoutTheRollout(t, forced)
		})
	}
}

func billFromATimeWithoutTheRollout(t *testing.T, forced bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "store.db")
	s := proxytest.Open(t, "sqlite:"+file)
	lastWeek := time.Now().Add(-7 * 24 * time.Hour)
	if err := s.SetBackends(t.Context(), store.Backends{Old: "old", New: "new", Staying: []string{"old", "shadow"}}, lastWeek); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(t.Context(), "anna", lastWeek); err != nil {
		t.Fatal(err)
	}
	if err := s.Seen(t.Context(), partner.Of(demoKey), lastWeek); err != nil {
		t.Fatal(err)
	}
	if forced {
		stage := store.Stage{Partner: partner.Of(demoKey), Stage: "new", By: "anna", At: lastWeek.Add(time.Hour), Forced: true}
		if err := s.SetStage(t.Context(), stage); err != nil {
			t.Fatal(err)
		}
	}
	old, fresh := newService(), newService()
	release, made := make(chan struct{}), make(chan struct{})
	var once sync.Once
	oldCalls := newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/send") { // slow
			defer once.Do(func() { close(made) })
			<-release
		}
		old.ServeHTTP(w, r)
	}))
	newCalls := newBackend(t, fresh)
	text := func(rollout string) string {
		return anyPort + fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q, timeout: 300ms}
  new: {form: v2, url: %q}
route: {default: old}
%s
store: {url: "sqlite:%s"}
`, oldCalls.url, newCalls.url, rollout, file)
	}
	p := newProcess(t, text(""))
	p.send(newCall("v2", "create")).check(t, "v2", 504, "null")
	p.stop()
	if err := receive(t, p.ended, "end of the server"); err != nil {
		t.Fatal(err)
	}
	p = newProcess(t, text("rollout: {old: old, new: new, default: new}"))
	p.send(newCall("v2", "create")).check(t, "v2", 503, "MAINTAINED_METHOD")
	close(release)
	receive(t, made, "the bill")
	if n := len(fresh.Bills()); n != 0 {
		t.Errorf("%d bills at the new backend", n)
	}
}
