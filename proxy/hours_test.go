package proxy_test

import (
	"fmt"
	"path/filepath"
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
	file := filepath.Join(t.TempDir(), "store.db")
	s := proxytest.BeginRollout(t, "sqlite:"+file, partner.Of(demoKey))
	must(t, s.Change(t.Context(), store.Change{Action: store.Staged, To: "old", By: "test", At: time.Now()}))
	p := newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: v2, url: %q, timeout: 1s}
  new: {form: v2, url: "http://127.0.0.1:1"}
route: {default: old}
rollout: {old: old, new: new%s}
failures: {status: always-200} # a write that was not sent counts as failed although its answer has 200
store: {url: "sqlite:%s"}
`, newBackend(t, service).url, patient, file))
	// sums waits until so many calls count, which is after their answers.
	sums := func(of evidence.Backend, calls int) store.Sums {
		t.Helper()
		var all [2]store.Sums
		var err error
		proxytest.Eventually(t, func() bool {
			p.admin("GET", "/rollout/report") // stores what was counted
			all, err = s.BackendSums(t.Context(), time.Now().Add(-2*time.Hour))
			must(t, err)
			return all[of].Calls >= calls
		}, func() string { return fmt.Sprint(all) })
		return all[of]
	}
	play(p, "success v2 create")
	calls, failed := 1, 0
	for _, row := range rows(`
a success | read | |
no such bill | read | {"code":"BILL_003"} |
already paid | destroy | {"code":"BILL_006"} |
refused with a status | resend | {"code":"BILL_007","status":400} |
maintenance | read | {"code":"MAINTAINED_METHOD","count":2} | fails
a status of the server | read | {"code":"BILL_003","status":500,"count":2} | fails
no JSON | read | {"body":"<html>"} | fails
no reply | read | {"drop":true,"count":2} | fails
no reply to a write | resend | {"drop":true} | fails
a timeout | read | delay 10s | fails
`) {
		addFault(t, service, row[2])
		p.send(v2(row[1])) // a read that is refused is sent once more
		service.ClearFaults()
		if calls++; row[3] != "" {
			failed++
		}
		got := sums(evidence.Old, calls)
		equal(t, [2]int{got.Calls, got.Failed}, [2]int{calls, failed}, row)
	}
	if p99 := sums(evidence.Old, calls).P99(); p99 < time.Second || p99 > 5*time.Second {
		t.Errorf("the p99 is %s, but a call has reached the timeout of 1s", p99)
	}
	play(p, "200 POST /rollout/stage?by=a&partner=default&stage=drained&{forced}") // in force when it is answered
	p.send(v2("create").with("billId", "HOURS000000000000001"))
	equal(t, sums(evidence.New, 1), store.Sums{Calls: 1, Failed: 1}) // no time: it was not sent
}
