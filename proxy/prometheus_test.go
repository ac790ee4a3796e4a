package proxy_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/server"

	"github.com/google/go-cmp/cmp"
)

// openMetrics is what Prometheus accepts by default.
const openMetrics = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

// seriesOf returns the series of /metrics, without values and exemplars, with the buckets of whole seconds as in the
// text format.
func seriesOf(p *process, headers ...string) (list []string) {
	for line := range strings.Lines(filterMetrics(p.admin("GET", "/metrics", headers...).body)) {
		line, _, _ = strings.Cut(line, " # ")
		line = line[:strings.LastIndex(strings.TrimSpace(line), " ")]
		list = append(list, regexp.MustCompile(`le="(\d+)\.0"`).ReplaceAllString(line, `le="$1"`))
	}
	slices.Sort(list)
	return list
}

// Without tracing /metrics is the text format, whatever the scraper asks for: its buckets keep their labels. A reload
// turns tracing on, and one with a mistake changes nothing. Then the series have the same names, and a scraper that asks
// for OpenMetrics gets the trace of a sampled call as the exemplar.
func TestExemplarsOfSampledCalls(t *testing.T) {
	t.Parallel()
	back, spans := newBackend(t, newService()), newOTLPReceiver(t)
	p := newProcessTo(t, "v2", back)
	off := *p.text.Load()
	on := off + fmt.Sprintf("tracing: {otlp: %q, sample: 1}\n", spans.url)
	p.reload(400, on+"x: 1\n")
	p.expect(legacy("create"), success)
	scraped := func(contentType string, says ...string) string {
		t.Helper()
		got := p.admin("GET", "/metrics", "Accept", openMetrics)
		checkText(t, got.header.Get("Content-Type"), contentType)
		checkText(t, got.body, says...)
		return got.body
	}
	scraped("text/plain; version=0.0.4", `,le="1"}`)
	p.reload(200, on)
	p.expect(legacy("read"), success)
	trace := spans.waitFor(t, 1, "POST /if/bill/read")[0].trace
	got := scraped("application/openmetrics-text; version=1.0.0", "\n# EOF\n")
	var exemplars []string
	for _, found := range regexp.MustCompile(`(?m)^(\w+)_bucket\{.* # \{trace_id="`+trace+`"\} `).FindAllStringSubmatch(got, -1) {
		exemplars = append(exemplars, found[1])
	}
	equal(t, strings.Join(exemplars, " "), "billbridge_request_duration_seconds billbridge_upstream_duration_seconds")
	equal(t, cmp.Diff(seriesOf(p), seriesOf(p, "Accept", openMetrics)), "")
	checkText(t, p.metrics(), "!"+trace, `,le="1"}`)
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(p.metrics())
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
	p.reload(200, off)
	p.expect(legacy("destroy"), success)
	p.stopAndWait()
	for _, s := range spans.all() {
		equal(t, s.kind == "SERVER" && s.name != "POST /if/bill/read", false, s)
	}
	equal(t, back.first(t).header.Get("Traceparent"), "")
}

// alertSeries are series that alerts use, as a gateway with a rollout has them at its start. UP is each upstream, FORM each
// form, OP each write, and STATUS that of an unknown outcome.
const alertSeries = `
billbridge_requests_total{client="FORM",code="none",operation="bill.OP",status="STATUS",upstream="UP"} 0
billbridge_upstream_errors_total{reason="refused",upstream="UP"} 0
billbridge_upstream_errors_total{reason="timeout",upstream="UP"} 0
billbridge_upstream_errors_total{reason="reset",upstream="UP"} 0
billbridge_upstream_errors_total{reason="status",upstream="UP"} 0
billbridge_upstream_errors_total{reason="not_json",upstream="UP"} 0
billbridge_upstream_errors_total{reason="too_large",upstream="UP"} 0
billbridge_upstream_errors_total{reason="busy",upstream="UP"} 0
billbridge_upstream_errors_total{reason="open",upstream="UP"} 0
billbridge_callbacks_refused_total{reason="another_partner",upstream="UP"} 0
billbridge_callbacks_refused_total{reason="another_bill",upstream="UP"} 0
billbridge_callbacks_refused_total{reason="ambiguous",upstream="UP"} 0
billbridge_callbacks_refused_total{reason="store",upstream="UP"} 0
billbridge_callbacks_passed_total{as="unrecognised",upstream="UP"} 0
billbridge_rollout_routed_total{reason="probe",upstream="UP"} 0
billbridge_callbacks_fields_total{field="unknown",upstream="UP",what="dropped"} 0
billbridge_unknown_outcomes_total{operation="bill.create",shown="not asked"} 0
billbridge_unknown_outcomes_total{operation="bill.create",shown="unclear"} 0
billbridge_unknown_outcomes_total{operation="bill.create",shown="visible"} 0
billbridge_unknown_outcomes_total{operation="bill.create",shown="not visible yet"} 0
billbridge_rollout_refused_total{reason="store"} 0
billbridge_rollout_refused_total{reason="barred"} 0
billbridge_rollout_refused_total{reason="unclear"} 0
billbridge_reply_mismatches_total{field="bill_id",operation="bill.create",upstream="old"} 0
billbridge_rollout_doubled_total 0
billbridge_fields_dropped_total{client="v2",field="bill.pageRedirectUrl",message="request",operation="bill.create"} 0
billbridge_fields_dropped_total{client="legacy",field="unknown",message="reply",operation="bill.read"} 0
billbridge_rollout_comparisons_dropped_total{bound="in_flight"} 0
`

// The counters that alerts use exist from the start, also for an upstream that a reload adds. The number of series is
// within the bounds that `check` prints.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	got := m.metrics()
	for i := range 32 {
		words := strings.NewReplacer("UP", []string{"old", "new"}[i/16], "OP", writes[i/4%4], "FORM", forms[i/2%2],
			"STATUS", []string{"502", "504"}[i%2])
		checkText(t, got, strings.Split(strings.TrimSpace(words.Replace(alertSeries)), "\n")...)
	}
	start, most, err := server.Series(t.Context(), parse(t, *m.text.Load()), server.Build{})
	if n := strings.Count(filterMetrics(got, "billbridge_"), "\n"); n != start || start > most || err != nil {
		t.Errorf("%d series, but check prints %d, at most %d, %v", n, start, most, err)
	}
	m.reload(200, strings.Replace(*m.text.Load(), "route:", "  third: {form: v2, url: \"http://127.0.0.1:1\"}\nroute:", 1))
	checkText(t, m.metrics(), `billbridge_upstream_errors_total{reason="reset",upstream="third"} 0`)
}
