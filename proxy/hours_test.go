package proxy_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// The hours count as failed what is the fault of a backend, and not what it refuses.
func TestHoursCountFailuresOfBackends(t *testing.T) {
	t.Parallel()
	service := newService()
	var reply atomic.Pointer[http.Handler]
	old := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if h := reply.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		service.ServeHTTP(w, r)
	})
	file := filepath.Join(t.TempDir(), "store.db")
	s := proxytest.BeginRollout(t, "sqlite:"+file, partner.Of(demoKey))
	must(t, s.Change(t.Context(), store.Change{Action: store.Staged, To: "old", By: "test", At: time.Now()}))
	p := newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: v2, url: %q, timeout: 1s}
  new: {form: v2, url: "http://127.0.0.1:1", wait: 1s}
route: {default: old}
rollout: {old: old, new: new%s}
failures: {status: always-200} # a write that was not sent counts as failed although its answer has 200
store: {url: "sqlite:%s"}
`, old.url, patient, file))
	sums := func() [2]store.Sums {
		t.Helper()
		p.admin("GET", "/rollout/report") // stores what was counted
		all, err := s.BackendSums(t.Context(), nil, time.Now().Add(-2*time.Hour))
		must(t, err)
		return all
	}
	p.expect(newCall("v2", "create"), success)
	calls, failed := 1, 0
	for _, row := range []struct {
		name      string
		operation string
		reply     http.Handler
		fails     bool
	}{
		{"a success", "read", nil, false},
		{"no such bill", "read", replyWith(200, `{"code":"BILL_003","message":"none","data":null}`), false},
		{"already paid", "destroy", replyWith(200, `{"code":"BILL_006","message":"paid","data":null}`), false},
		{"refused with a status", "resend", replyWith(400, `{"code":"BILL_007","message":"no","data":null}`), false},
		{"maintenance", "read", replyWith(200, `{"code":"MAINTAINED_METHOD","message":"later","data":null}`), true},
		{"a status of the server", "read", replyWith(500, `{"code":"BILL_003","message":"none","data":null}`), true},
		{"no JSON", "read", replyWith(200, "<html>"), true},
		{"no reply", "read", aborts, true},
		{"no reply to a write", "resend", aborts, true},
		{"a timeout", "read", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), true},
	} {
		if reply.Store(nil); row.reply != nil {
			reply.Store(&row.reply)
		}
		p.send(newCall("v2", row.operation))
		if calls++; row.fails {
			failed++
		}
		var got store.Sums
		proxytest.Eventually(t, func() bool { // a call counts after its answer
			got = sums()[evidence.Old]
			return got.Calls >= calls
		}, func() string { return row.name + " does not count" })
		if got.Calls != calls || got.Failed != failed {
			t.Errorf("%s: %d calls, %d failed, want %d and %d", row.name, got.Calls, got.Failed, calls, failed)
		}
	}
	if p99 := sums()[evidence.Old].P99(); p99 < time.Second || p99 > 5*time.Second {
		t.Errorf("the p99 is %s, but a call has reached the timeout of 1s", p99)
	}
	p.admin("POST", "/rollout/stage?by=a&partner=default&stage=drained&"+forced) // in force when it is answered
	p.send(newCall("v2", "create").with("billId", "HOURS000000000000001"))
	var unsent store.Sums
	proxytest.Eventually(t, func() bool { unsent = sums()[evidence.New]; return unsent.Calls > 0 }, func() string { return p.logs.String() })
	equal(t, unsent, store.Sums{Calls: 1, Failed: 1}) // no time: it was not sent
}
