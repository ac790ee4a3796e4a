package main

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// A ruleFile is the asset alerts.
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alertRules returns the rules that the program prints, by the name of the alert.
func alertRules(t *testing.T) (file ruleFile, byName map[string]rule) {
	t.Helper()
	must(t, yaml.Load([]byte(printedAsset(t, "alerts")), &file, yaml.WithKnownFields()))
	byName = map[string]rule{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			byName[r.Alert] = r
		}
	}
	if len(byName) < 20 || len(byName) > 26 {
		t.Fatalf("%d alerts: want 20 to 26", len(byName))
	}
	return file, byName
}

func printedAsset(t *testing.T, name string) string {
	t.Helper()
	code, out, errs := runCommand(t, false, "assets", name)
	if code != exitOK || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	return out
}

// lookPath returns a program, or skips the test with the reason.
func lookPath(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (package prometheus): the assets are not checked with it", program)
	}
	return path
}

// Types of the file that promtool test rules reads.
type (
	promtoolFile struct {
		RuleFiles []string        `yaml:"rule_files"`
		Interval  string          `yaml:"evaluation_interval,omitempty"`
		Tests     []promtoolGroup `yaml:"tests"`
	}
	promtoolGroup struct {
		Name     string           `yaml:"name"`
		Interval string           `yaml:"interval"`
		Input    []promtoolSeries `yaml:"input_series"`
		Rules    []promtoolAlert  `yaml:"alert_rule_test,omitempty"`
		Queries  []promtoolQuery  `yaml:"promql_expr_test,omitempty"`
	}
	promtoolQuery struct {
		Expr string           `yaml:"expr"`
		Time string           `yaml:"eval_time"`
		Want []promtoolSample `yaml:"exp_samples"`
	}
	promtoolSample struct {
		Labels string `yaml:"labels"`
		Value  int    `yaml:"value"`
	}
	promtoolSeries struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	promtoolAlert struct {
		Alert string          `yaml:"alertname"`
		Time  string          `yaml:"eval_time"`
		Want  []promtoolFired `yaml:"exp_alerts"`
	}
	promtoolFired struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	}
)

// An alertCase is an entry of testdata/alertcases.yaml, which describes them.
type alertCase struct {
	Alert, Labels, Silent, Fires, Summary string
	Series                                []string
}

// Each alert is silent before its case, fires on it with all its labels in the summary, and is silent for the series beside it.
func TestAlertsFireOnTheirCaseAndAreSilentBesideIt(t *testing.T) {
	t.Parallel()
	promtool := lookPath(t, "promtool")
	dir := t.TempDir()
	rules := filepath.Join(dir, "alerts.yaml")
	proxytest.WriteFile(t, rules, printedAsset(t, "alerts"))
	if out, err := exec.Command(promtool, "check", "rules", "--lint-fatal", rules).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	_, byName := alertRules(t)
	missing := maps.Clone(byName)
	file := promtoolFile{RuleFiles: []string{"alerts.yaml"}}
	var alertCases []alertCase
	must(t, yaml.Load(proxytest.ReadFile(t, "testdata/alertcases.yaml"), &alertCases, yaml.WithKnownFields()))
	for _, c := range alertCases {
		r := byName[c.Alert]
		delete(missing, c.Alert)
		labels := map[string]string{"severity": r.Labels["severity"]}
		for pair := range strings.FieldsSeq(c.Labels) {
			name, value, _ := strings.Cut(pair, "=")
			labels[name] = value
			has(t, c.Summary, value, c.Alert, pair)
		}
		group := promtoolGroup{Name: c.Alert, Interval: "1m"}
		for _, s := range c.Series {
			at := strings.LastIndex(s, "} ") + 1
			group.Input = append(group.Input, promtoolSeries{s[:at], s[at+1:]})
		}
		fired := promtoolFired{labels, map[string]string{"summary": c.Summary, "runbook_url": r.Annotations["runbook_url"]}}
		group.Rules = []promtoolAlert{{c.Alert, c.Silent, nil}, {c.Alert, c.Fires, []promtoolFired{fired}}}
		file.Tests = append(file.Tests, group)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s has no case", name)
	}
	text, err := yaml.Dump(file)
	must(t, err)
	tests := filepath.Join(dir, "tests.yaml")
	proxytest.WriteFile(t, tests, text)
	if out, err := exec.Command(promtool, "test", "rules", tests).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var (
	runbookSection = regexp.MustCompile(`(?m)^## (\w+)\n\n(\w+)\. \*\*Partners:\*\*(?:.|\n)+?\n- Look at: (?:.|\n)+?\n- Do: `)
	alertLink      = regexp.MustCompile(`\[(\w+)\]\(\.\./cmd/billbridge/assets/RUNBOOK\.md#(\w+)\)`)
)

// Each alert has its section of the runbook with its severity, and each section its alert.
func TestEachAlertHasASectionOfTheRunbook(t *testing.T) {
	t.Parallel()
	_, byName := alertRules(t)
	runbook := printedAsset(t, "runbook")
	sections := map[string]string{} // the severity, by alert
	for _, m := range runbookSection.FindAllStringSubmatch(runbook, -1) {
		sections[m[1]] = m[2]
	}
	want := map[string]string{}
	for name, r := range byName {
		want[name] = r.Labels["severity"]
		if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) || r.For == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s: for, severity or summary are missing: %+v", name, r)
		}
		equal(t, r.Annotations["runbook_url"], "https://docs.example.com/billbridge/RUNBOOK.md#"+strings.ToLower(name),
			name)
	}
	if diff := cmp.Diff(want, sections); diff != "" || len(sections) != strings.Count(runbook, "\n## ") {
		t.Errorf("-alerts +sections\n%s", diff)
	}
	for _, m := range regexp.MustCompile(`\]\(#(\w*)\)`).FindAllStringSubmatch(runbook, -1) {
		has(t, strings.ToLower(runbook), "\n## "+m[1]+"\n", m[1])
	}
}

// The runbook names panels of the dashboard, in quotes, and metrics of the dashboard or the alerts.
func TestRunbookNamesPanelsAndMetrics(t *testing.T) {
	t.Parallel()
	runbook, dashboard, alerts := printedAsset(t, "runbook"), printedAsset(t, "dashboard"), printedAsset(t, "alerts")
	names := regexp.MustCompile(`"[A-Z][^"]*"|billbridge_\w+`).FindAllString(runbook, -1)
	for _, name := range names {
		if strings.HasPrefix(name, `"`) {
			name = `"title": ` + strings.TrimSuffix(name, `"`)
		}
		has(t, dashboard+alerts, name, "which the runbook names")
	}
	if len(names) < 4 {
		t.Errorf("%d names: too few were found", len(names))
	}
}

// Each row of the table of metrics has an alert that uses a metric of the row, or the reason why there is none. Each alert is in a row.
func TestEachMetricOfTheTableHasAnAlert(t *testing.T) {
	t.Parallel()
	_, byName := alertRules(t)
	missing := maps.Clone(byName)
	lines, _ := readme(t, "proxy/README.md")
	rows, aMetric := 0, regexp.MustCompile(`\b(billbridge_\w+|up)\b`)
	for _, line := range lines[slices.Index(lines, "## Metrics and alerts"):] {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), " | ")
		if len(cells) != 3 || !aMetric.MatchString(cells[0]) || !strings.HasPrefix(line, "| `") {
			continue
		}
		rows++
		if strings.HasPrefix(cells[2], "–: ") {
			t.Logf("no alert for %s", strings.Trim(cells[0]+" "+cells[2], "| "))
			continue
		}
		links := alertLink.FindAllStringSubmatch(cells[2], -1)
		if len(links) == 0 {
			t.Errorf("a row has neither an alert nor a reason: %s", line)
		}
		for _, m := range links {
			r, ok := byName["Billbridge"+m[1]]
			uses := func(metric string) bool { return strings.Contains(r.Expr, metric) }
			if !ok || m[2] != strings.ToLower(r.Alert) || !slices.ContainsFunc(aMetric.FindAllString(cells[0], -1), uses) {
				t.Errorf("the alert %s does not exist, or uses no metric of its row: %s", m[0], line)
			}
			delete(missing, r.Alert)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s is in no row of proxy/README.md", name)
	}
	if rows < 30 {
		t.Errorf("%d rows: too few were found", rows)
	}
}
