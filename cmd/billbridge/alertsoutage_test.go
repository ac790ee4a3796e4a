package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"go.yaml.in/yaml/v4"
)

// An outage is what two gateways on one store measured while the store did not answer, as series of promtool: two gateways with a
// rollout on a pair of PostgreSQL servers, 50 creates with a callback address, 100 reads and 3 payments of older bills a second at
// each of them. testdata/outages.yaml has the outages by name.
type outage struct {
	Recorded string            `yaml:"recorded"`
	Series   map[string]string `yaml:"series"`
}

const scrapeEvery = 5 * time.Second

// A fail-over that ends by itself calls nobody: a switchover raises no alert, a killed node at most a warning that ends. An outage of
// minutes is critical. It is so for scrapes every 5 s to 60 s, wherever they fall.
func TestFailOverIsNotCriticalAndOutageIs(t *testing.T) {
	t.Parallel()
	promtool := lookPath(t, "promtool")
	text, err := os.ReadFile("testdata/outages.yaml")
	must(t, err)
	var recorded map[string]outage
	must(t, yaml.Load(text, &recorded, yaml.WithKnownFields()))
	const began, end = 20 * time.Second, 18 * time.Minute // of the fault, in the recordings, and of the test
	firing := func(which string, at time.Duration, alerts ...string) promtoolQuery {
		q := promtoolQuery{Expr: `group by (alertname) (last_over_time(ALERTS{alertstate="firing",` + which + `}[20m]))`, Time: at.String()}
		for _, name := range alerts {
			q.Want = append(q.Want, promtoolSample{fmt.Sprintf("{alertname=%q}", "Billbridge"+name), 1})
		}
		return q
	}
	file := promtoolFile{RuleFiles: []string{"alerts.yaml"}, Interval: "15s"}
	for name, want := range map[string][]promtoolQuery{
		"switchover":  {firing(`severity=~"critical|warning"`, end)},
		"killed node": {firing(`severity="critical"`, end), {Expr: `ALERTS{severity="warning"}`, Time: end.String()}},
		"outage": {
			firing(`alertname="BillbridgeStoreDown"`, began+200*time.Second, "StoreDown"),
			firing(`severity="critical"`, began+5*time.Minute, "StoreDown"),
		},
	} {
		if len(recorded[name].Series) < 5 {
			t.Fatalf("%s: too few series were recorded", name)
		}
		for _, every := range []int{1, 3, 12}[proxytest.Size(2, 0):] { // the more scrapes, the longer it takes to compute
			for first := range proxytest.Places(every) {
				// A value of before the recording begins each series, so that it has one without the fault.
				shift := scrapeEvery * time.Duration(every-first-1)
				g := promtoolGroup{Name: fmt.Sprintf("%s, every %d, from %d", name, every, first), Interval: (scrapeEvery * time.Duration(every)).String()}
				for _, q := range want {
					at, err := time.ParseDuration(q.Time)
					must(t, err)
					q.Time = (at + shift).String()
					g.Queries = append(g.Queries, q)
				}
				for i := 1; i <= 2; i++ { // both gateways answered each scrape
					g.Input = append(g.Input, promtoolSeries{fmt.Sprintf(`up{job="a",instance="%d"}`, i), "1x800"},
						promtoolSeries{fmt.Sprintf(`billbridge_build_info{job="a",instance="%d"}`, i), "1x800"})
				}
				for series, values := range recorded[name].Series {
					all := strings.Fields(values)
					some := all[0]
					for i := first; i < len(all); i += every {
						some += " " + all[i]
					}
					g.Input = append(g.Input, promtoolSeries{series, some + " " + all[len(all)-1] + "x800"})
				}
				file.Tests = append(file.Tests, g)
			}
		}
	}
	dir := t.TempDir()
	dumped, err := yaml.Dump(file)
	must(t, err)
	for name, text := range map[string][]byte{"alerts.yaml": []byte(printedAsset(t, "alerts")), "tests.yaml": dumped} {
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if out, err := exec.Command(promtool, "test", "rules", filepath.Join(dir, "tests.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
