package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"billbridge/proxy/proxytest"
)

// A demoProcess is a running demo.
type demoProcess struct {
	*process
	t     *testing.T
	admin string
	urls  [2]string // of the old backend and of the new one
}

func startDemoProcess(t *testing.T) *demoProcess {
	t.Helper()
	p := launchInTempDir(t, "serve", "--demo", "--rate", "100", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	at, err := p.await("stdout", `^  console +(?P<admin>http://\S+)/$`)
	must(t, err)
	works(t)(p.await("stdout", `^billbridge rollout status --admin `+at["admin"]+`$`))
	urls := regexp.MustCompile(`(?s)old in the legacy form \((http://\S+)\) and new in\s+v2 \((http://\S+)\)`).FindStringSubmatch(p.all("stdout"))
	if urls == nil {
		t.Fatalf("the addresses of the backends are missing:\n%s", p.all("stdout"))
	}
	return &demoProcess{p, t, at["admin"], [2]string(urls[1:])}
}

func (d *demoProcess) metrics() string {
	_, text := httpCall(d.t, http.MethodGet, d.admin+"/metrics", "")
	return text
}

// stops ends the demo by a signal. It exits with 0, and has logged no error.
func (d *demoProcess) stops(signal os.Signal) {
	d.t.Helper()
	must(d.t, d.cmd.Process.Signal(signal))
	if code, err := d.end(); err != nil || code != exitOK || d.all("stderr") != "" {
		d.t.Errorf("exit code %d, %v:\n%s", code, err, d.all("stderr"))
	}
}

// The partners of the demo make calls of both forms, with refusals, failures and unknown outcomes, and callbacks that are delivered,
// repeated and dead.
func TestDemoShowsEveryKindOfCall(t *testing.T) {
	t.Parallel()
	d := startDemoProcess(t)
	missing := []string{
		`requests_total{client="legacy",code="0000",operation="bill.create",status="200",upstream="old"}`,
		`requests_total{client="v2",code="0000",operation="bill.create",status="200",upstream="old"}`,
		`requests_total{client="v2",code="0000",operation="bill.create",status="200",upstream="new"}`,
		`requests_total{client="legacy",code="0000",operation="bill.read",status="200",upstream="old"}`,
		`requests_total{client="legacy",code="0000",operation="bill.cancel",status="200",upstream="old"}`,
		`requests_total{client="v2",code="0000",operation="bill.cancel",status="200",upstream="new"}`,
		`requests_total{client="legacy",code="0000",operation="bill.destroy",status="200",upstream="old"}`,
		`requests_total{client="legacy",code="0000",operation="bill.resend",status="200",upstream="old"}`,
		`requests_total{client="v2",code="0000",operation="mapping.list",status="200",upstream="new"}`,
		`requests_total{client="v2",code="BILL_001",operation="bill.create",status="200",upstream="old"}`,
		`requests_total{client="v2",code="VALIDATION_001",operation="bill.create",status="400",upstream="old"}`,
		`requests_total{client="v2",code="none",operation="bill.create",status="504",upstream="old"}`,
		`requests_total{client="v2",code="ERROR",operation="bill.read",status="504",upstream="old"}`,
		`callbacks_attempts_total{outcome="delivered",upstream="old"}`,
		`callbacks_attempts_total{outcome="delivered",upstream="new"}`,
		`callbacks_attempts_total{outcome="status",upstream="new"}`,
		`callbacks_attempts_total{outcome="gone",upstream="old"}`,
		`callbacks_dead{upstream="old"}`,
	}
	proxytest.Eventually(t, func() bool {
		text := d.metrics()
		still := missing[:0:0]
		for _, series := range missing {
			if !regexp.MustCompile(`(?m)^billbridge_` + regexp.QuoteMeta(series) + ` [1-9]`).MatchString(text) {
				still = append(still, series)
			}
		}
		missing = still
		return len(missing) == 0
	}, func() string { return strings.Join(missing, "\n") })
	// A key that no partner has is refused by the backends.
	if !regexp.MustCompile(`code="PARTNER_003",operation="bill.read"`).MatchString(d.metrics()) {
		t.Error("no call has a wrong key")
	}
	if code, out, _ := runCommand(t, false, "bills", "list", "--outcome", "unknown", "--admin", d.admin); code != exitOK || !strings.Contains(out, "bill.create") {
		t.Errorf("unknown outcomes: %d %s", code, out)
	}
	if _, page := httpCall(t, http.MethodGet, d.admin+"/", ""); !strings.Contains(page, `class="demo"`) {
		t.Errorf("the console does not say that it shows a demo:\n%s", page)
	}
	d.stops(syscall.SIGTERM)
}
