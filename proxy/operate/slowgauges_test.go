package operate_test

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The gauges of alerts that come after an hour or two weeks: the kill switch, and partners that nobody moves.
func TestGaugesForSlowAlerts(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	d := newTestOperator(t, s, separate)
	registry, now := prometheus.NewRegistry(), noon
	r, err := rollout.New(t.Context(), parse(t, separate), rollout.Options{Store: s, Registerer: registry, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for target, stage := range map[string]string{"a": "shadow", "b": "canary&percent=5", "c": "old"} {
		answers[operate.Change](d, "POST", "/rollout/stage?by=a&force="+allReasons+"&partner="+hash(target)+"&stage="+stage)
	}
	check := func(stopped, unmoved string) {
		t.Helper()
		if err := r.SetGauges(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "# HELP billbridge_rollout_partners_unmoved Partners in shadow or canary whose stage nobody has changed for 14 days.\n" +
			"# TYPE billbridge_rollout_partners_unmoved gauge\nbillbridge_rollout_partners_unmoved " + unmoved + "\n" +
			"# HELP billbridge_rollout_stopped 1 while the kill switch is on, otherwise 0.\n" +
			"# TYPE billbridge_rollout_stopped gauge\nbillbridge_rollout_stopped " + stopped + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "billbridge_rollout_stopped", "billbridge_rollout_partners_unmoved"); err != nil {
			t.Error(err)
		}
	}
	check("0", "0")
	now = noon.Add(15 * 24 * time.Hour)
	if err := s.Stop(t.Context(), "anna", now); err != nil {
		t.Fatal(err)
	}
	check("1", "2")
}
