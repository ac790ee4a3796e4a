package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
)

// promtool accepts /metrics.
func TestPromtoolChecksMetrics(t *testing.T) {
	t.Parallel()
	p := newProcessTo(t, "v2", newBackend(t, newService()))
	p.expect(legacy("create"), success)
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(p.metrics())
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
}

// The counters that alerts use exist from the start, also for an upstream that a reload adds.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	// UP is each upstream, FORM each form, OP each write, and STATUS that of an unknown outcome.
	got, series := m.metrics(), string(proxytest.ReadFile(t, "testdata/alertseries.txt"))
	for i := range 32 {
		words := strings.NewReplacer("UP", []string{"old", "new"}[i/16], "OP", writes[i/4%4], "FORM", forms[i/2%2],
			"STATUS", []string{"502", "504"}[i%2])
		checkText(t, got, strings.Split(strings.TrimSpace(words.Replace(series)), "\n")...)
	}
	m.reload(200, strings.Replace(*m.text.Load(), "route:", "  third: {form: v2, url: \"http://127.0.0.1:1\"}\nroute:", 1))
	checkText(t, m.metrics(), `billbridge_upstream_errors_total{reason="reset",upstream="third"} 0`)
}

// The scraped text after a few calls, except the durations.
func TestMetricsOfCalls(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2", "limits: {reply: 4KiB, body: 64KiB}")
	create := legacy("create")
	b.send(create)
	b.post(create.path(), strings.Replace(create.body(), "{", `{"a":1,"b":{"c":2},`, 1)) // BILL_001, with two unknown fields
	b.send(legacy("read"))                                                               // the fields that only v2 has are dropped
	b.send(v2("read"))                                                                   // same form: nothing is dropped
	b.send(legacy("create").with("price", "1.5"))                                        // refused by the gateway
	b.post("/nothing", "")
	b.do(http.MethodGet, "/if/bill/read", "")
	b.post("/if/bill/read", strings.Repeat(" ", 70<<10))
	for _, fault := range []string{
		`{"drop":true}`, `{"body":"no"}`, `{"status":502,"body":"no"}`, `{"status":302}`, `{"code":"SOMETHING_NEW"}`,
		`{"body":"` + strings.Repeat("a", 5000) + `"}`, `{"body":"{\"code\":\"0000\",\"message\":\"x\",\"data\":{\"billId\":\"` + demoBill + `\"}}"}`,
	} {
		addFault(t, b.service, fault)
		b.send(legacy("destroy"))
	}
	want := string(proxytest.ReadFile(t, "testdata/metrics.txt"))
	var counted strings.Builder // without the series that are 0
	for line := range strings.Lines(b.scrape("billbridge_fields_dropped_total", "billbridge_reply_mismatches_total", "billbridge_request", "billbridge_upstream_")) {
		if name, _, _ := strings.Cut(line, "{"); strings.Contains(want, name+"{") && (!strings.HasSuffix(line, " 0\n") || name == "billbridge_requests_in_flight") {
			counted.WriteString(line)
		}
	}
	equal(t, cmp.Diff(want, counted.String()), "")
}

// After each kind of outcome has occurred, random paths, methods, codes, fields, ids and partners add no series.
func TestR37_SeriesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("w%x", random.Uint64()) }
	words := func(text string) string { // with a new word for each WORD
		return regexp.MustCompile("WORD").ReplaceAllStringFunc(text, func(string) string { return word() })
	}
	methods := []string{"GET", "PUT", "DELETE", "PATCH"}
	round := func() {
		for _, prefix := range []string{"/", "/if/", "/bill/", "/if/bill/"} {
			b.post(prefix+word(), word())
			b.do(strings.ToUpper(word()), prefix+word(), word())
		}
		for _, form := range forms {
			for _, op := range operations {
				q := newCall(form, op)
				b.do(methods[random.IntN(4)], q.path(), "")
				b.do(strings.ToUpper(word()), q.path(), "")
				b.send(q, "Content-Type", "text/"+word())
				b.post(q.path(), strings.Replace(q.body(), "{", words(`{"WORD":1,"bill":{"WORD":2},`), 1))
				b.post(q.path(), strings.Replace(q.body(), "{", words(`{"WORD":{"WORD":1},`), 1), "X-Request-Id", word())
				b.send(q.with("apiKey", word()).with("member", word()).with("billId", "b"))
				for _, fault := range []string{
					`{"code":"WORD"}`, `{"code":"` + strings.ToUpper(word()) + `","status":` + strconv.Itoa(600+random.IntN(300)) + `}`,
					`{"body":"{\"code\":\"0000\",\"message\":\"x\",\"WORD\":1,\"data\":{\"WORD\":1,\"billId\":{\"WORD\":1}}}"}`,
					`{"body":"{\"code\":\"0000\",\"message\":{\"WORD\":1},\"data\":\"WORD\"}"}`,
				} {
					addFault(t, b.service, words(fault))
					b.send(q)
				}
			}
		}
	}
	series := func() int { return strings.Count(b.scrape("billbridge_"), "\n") }
	most := series() + b.MaxMoreSeries()
	for range 5 { // until the bills exist, and the codes of the upstream have no series of their own any more
		round()
	}
	first := series()
	if first > most {
		t.Errorf("%d series, at most %d are possible", first, most)
	}
	round()
	round()
	equal(t, series(), first, b.scrape("billbridge_requests_total", "billbridge_fields", "billbridge_reply"))
}

// A label value must not point into the buffer of a reply, which other replies reuse.
func TestCodeLabelsDoNotChangeWithReusedBuffers(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	for _, form := range forms {
		for _, code := range sandbox.Catalogue()[1:] {
			b.service.Fault(sandbox.Fault{Body: `{"code":"` + code + `","message":"x","data":null}`, Count: 2})
			b.send(newCall(form, "read")) // is sent once more if its connection has carried another call
			b.service.ClearFaults("")
		}
		for range 20 {
			b.service.Fault(sandbox.Fault{Body: `{"message":"` + strings.Repeat("#", 500) + `","code":"ERROR","data":null}`})
			b.send(newCall(form, "resend"))
		}
	}
	for _, form := range forms {
		for _, code := range sandbox.Catalogue()[1:] {
			b.checkMetrics(fmt.Sprintf(`billbridge_requests_total{client=%q,code=%q,operation="bill.read",status="200",upstream="up"} 1`, form, code))
		}
	}
}
