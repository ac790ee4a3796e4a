package relay_test

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// All that Prometheus reads after some callbacks.
func TestMetricsOfCallbacks(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{callbacks: ", schedule: [0s, 1m]"})
	legacy, same := s.path("legacy"), s.path("v2")
	fails(t, "", "it is bound")(s.Bind(t.Context(), asked("v2", "https://127.0.0.1/")))
	s.accept(legacy, inV2)
	s.accept(legacy, inV2)                           // again
	s.accept(same, inV2)                             // in form
	s.accept(legacy, `"?"`)                          // unrecognised
	s.post(legacy, notice("v2", "stolen", bill))     // another partner
	s.post(legacy, notice("v2", key, "another"))     // another bill
	s.post(legacy, `{"x":1,"x":1}`)                  // ambiguous
	s.post("/callback/"+strings.Repeat("0", 32), "") // unknown
	s.post("/callback/1", "")                        // no address
	for i, a := range []carrier{always(200, documented["legacy"]), always(404, ""), always(500, ""), always(410, "")} {
		s.Carry(a)
		if n := s.round(); n != 1 {
			t.Fatalf("round %d: %d attempts", i, n)
		}
		clock.add(time.Minute)
	}
	s.accept(legacy, `"!"`)
	clock.add(90*time.Second + 250*time.Millisecond)
	var got strings.Builder
	for line := range strings.Lines(s.everything()) { // but for what has not happened
		if many := strings.Contains(line, "_fields_total") || strings.Contains(line, "_refused_total"); !many || !strings.HasSuffix(line, " 0\n") {
			got.WriteString(line)
		}
	}
	equal(t, got.String(), string(proxytest.ReadFile(t, "testdata/metrics.txt")))
}

// Fields that a translation drops from a payment's callback, or cannot convert, are counted by their names in the table.
func TestMetricsOfFields(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "legacy"})
	path := s.path("v2")
	for range 2 { // again is not twice
		s.accept(path, strings.TrimSuffix(inLegacy, "}")+`,"canary":"1","another":{"canary":2}}`)
	}
	s.accept(path, strings.Replace(inLegacy, `"30001234"`, "true", 1))
	got := s.scrape("billbridge_callbacks_fields_total")
	for _, line := range []string{`{field="unknown",upstream="up",what="dropped"} 2`, `{field="appr_num",upstream="up",what="mismatched"} 1`} {
		has(t, got, "billbridge_callbacks_fields_total"+line+"\n", line)
	}
	if strings.Contains(got, "canary") || strings.Contains(got, "another") {
		t.Error(got)
	}
}

// While the store is unreachable the gauges are absent, for an alert; the counters stay.
func TestMetricsWithoutStore(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	before := s.everything()
	_ = s.store.Close()
	after := s.everything()
	for _, gauge := range []string{"waiting", "dead", "oldest_waiting_seconds"} {
		line := "billbridge_callbacks_" + gauge + `{upstream="up"} 0` + "\n"
		if !strings.Contains(before, line) || strings.Contains(after, line) {
			t.Errorf("%s before:\n%safter:\n%s", gauge, before, after)
		}
	}
	has(t, after, `billbridge_callbacks_accepted_total{upstream="up"} 0`)
}

// An upstream of a new config has counters from then on, and those of other upstreams continue.
func TestMetricsOfANewUpstream(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	s.deliverable("https://partner.example.com/", "A")
	c := setup{}.config(t)
	c.Upstreams[0].Name = "new"
	s.Use(c)
	s.counts("billbridge_callbacks_accepted_total", `{upstream="up"} 1`)
	for _, line := range []string{
		`billbridge_callbacks_accepted_total{upstream="new"} 0`, `billbridge_callbacks_refused_total{reason="ambiguous",upstream="new"} 0`,
		`billbridge_callbacks_waiting{upstream="new"} 0`, `billbridge_callbacks_waiting{upstream="up"} 1`,
	} {
		has(t, s.everything(), line+"\n", line)
	}
}
