package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/server"
)

// A scraper is a real Prometheus that scrapes a gateway.
type scraper struct {
	t      testing.TB
	client *http.Client
	url    string
}

// newPrometheus starts Prometheus for the test. Without Prometheus on the PATH the test is skipped; with CI=true it
// fails.
func newPrometheus(t testing.TB, target string) *scraper {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no prometheus on the PATH")
		}
		t.Skip("no prometheus on the PATH: not tested that increase() includes the first event")
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(file, []byte(`
scrape_configs:
  - job_name: billbridge
    scrape_interval: 200ms
    scrape_timeout: 200ms
    static_configs: [{targets: [`+target+`]}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(folder, "tsdb"), "--web.listen-address=127.0.0.1:0")
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	at, ended := make(chan string, 1), make(chan struct{})
	listening := regexp.MustCompile(`"Listening on".* address=(127\.0\.0\.1:\d+)`)
	var log strings.Builder
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			log.WriteString(lines.Text() + "\n")
			if found := listening.FindStringSubmatch(lines.Text()); found != nil && len(at) == 0 {
				at <- found[1]
			}
		}
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return &scraper{t, newClient(t, nil), "http://" + receive(t, at, "address of Prometheus")}
}

// value returns the result of a query, "" if it is empty.
func (p *scraper) value(query string) string {
	p.t.Helper()
	got, err := doRequest(p.client, http.MethodGet, p.url+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), "")
	if err != nil {
		p.t.Fatal(err)
	}
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
		return "" // still starting
	}
	if len(answer.Data.Result) == 0 {
		return ""
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1])
}

// increase() of a counter includes its first event only if the counter was 0 before.
func TestIncreaseIncludesTheFirstEvent(t *testing.T) {
	t.Parallel()
	back := newBackend(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	gateway := newProcess(t, anyPort+oneUpstream("v2", back.url))
	p := newPrometheus(t, gateway.AdminAddress())
	series := []string{
		`billbridge_requests_total{operation="bill.create",client="legacy",upstream="up",code="none",status="502"}`,
		`billbridge_unknown_outcomes_total{operation="bill.create",shown="not asked"}`,
		`billbridge_upstream_errors_total{upstream="up",reason="reset"}`,
	}
	for _, s := range series {
		eventually(t, func() bool { return p.value(s) == "0" }, func() string { return s + " is " + p.value(s) })
	}
	gateway.send(newCall("legacy", "create")).check(t, "legacy", 502, "null")
	for _, s := range series {
		increase := "increase(" + s + "[5m]) > 0"
		eventually(t, func() bool { return p.value(increase) != "" }, func() string { return s + " is " + p.value(s) + ", and its increase is nothing" })
	}
}

// alertSeries returns the series that alerts use, as a gateway with a rollout has them at its start.
func alertSeries(upstreams ...string) (lines []string) {
	for _, up := range upstreams {
		for _, client := range forms {
			for _, op := range []string{"create", "resend", "destroy", "cancel"} {
				for _, status := range []string{"502", "504"} {
					lines = append(lines, fmt.Sprintf(`billbridge_requests_total{client=%q,code="none",operation="bill.%s",status=%q,upstream=%q} 0`, client, op, status, up))
				}
			}
		}
		for _, reason := range []string{"refused", "timeout", "reset", "status", "not_json", "too_large", "busy", "open"} {
			lines = append(lines, fmt.Sprintf(`billbridge_upstream_errors_total{reason=%q,upstream=%q} 0`, reason, up))
		}
		for _, reason := range []string{"another_partner", "another_bill", "ambiguous", "store"} {
			lines = append(lines, fmt.Sprintf(`billbridge_callbacks_refused_total{reason=%q,upstream=%q} 0`, reason, up))
		}
		lines = append(lines, fmt.Sprintf(`billbridge_callbacks_passed_total{as="unrecognised",upstream=%q} 0`, up),
			fmt.Sprintf(`billbridge_rollout_routed_total{reason="probe",upstream=%q} 0`, up),
			fmt.Sprintf(`billbridge_callbacks_fields_total{field="unknown",upstream=%q,what="dropped"} 0`, up))
	}
	for _, shown := range []string{"not asked", "unclear", "visible", "not visible yet"} {
		lines = append(lines, fmt.Sprintf(`billbridge_unknown_outcomes_total{operation="bill.cancel",shown=%q} 0`, shown))
	}
	for _, reason := range []string{"store", "barred", "unclear"} {
		lines = append(lines, fmt.Sprintf(`billbridge_rollout_refused_total{reason=%q} 0`, reason))
	}
	return append(lines,
		`billbridge_reply_mismatches_total{field="bill_id",operation="bill.create",upstream="old"} 0`, "billbridge_rollout_doubled_total 0",
		`billbridge_fields_dropped_total{client="v2",field="bill.pageRedirectUrl",message="request",operation="bill.create"} 0`,
		`billbridge_fields_dropped_total{client="legacy",field="unknown",message="reply",operation="bill.read"} 0`,
		`billbridge_rollout_comparisons_dropped_total{bound="in_flight"} 0`)
}

// The counters that alerts use exist from the start, also for an upstream that a reload adds. The number of series is
// within the bounds that `check` prints.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	want := func(when string, upstreams ...string) {
		t.Helper()
		got := m.admin("GET", "/metrics").body
		for _, line := range alertSeries(upstreams...) {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%s: no %s", when, line)
			}
		}
		start, most, err := server.Series(t.Context(), parse(t, *m.text.Load()), server.Build{})
		if n := strings.Count(filterMetrics(got, "billbridge_"), "\n"); n != start || start > most || err != nil {
			t.Errorf("%s: %d series, but check prints %d, at most %d, %v", when, n, start, most, err)
		}
	}
	want("at the start", "old", "new")
	text := strings.Replace(*m.text.Load(), "route:", "  third: {form: v2, url: \"http://127.0.0.1:1\"}\nroute:", 1)
	m.text.Store(&text)
	if got := m.admin("POST", "/-/reload"); got.status != 200 {
		t.Fatal(got.body)
	}
	got := m.admin("GET", "/metrics").body
	if line := `billbridge_upstream_errors_total{reason="reset",upstream="third"} 0`; !strings.Contains(got, line) {
		t.Errorf("after the reload: no %s", line)
	}
}
