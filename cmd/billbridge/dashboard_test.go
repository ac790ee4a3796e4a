package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"billbridge/proxy/proxytest"
)

// A panelQuery is a query of the dashboard.
type panelQuery struct{ row, panel, expr, legend string }

// dashboardQueries returns the queries of all panels, and the rows in their order.
func dashboardQueries(t *testing.T, dashboard string) (queries []panelQuery, rows []string) {
	t.Helper()
	row := ""
	for _, panel := range gjson.Get(dashboard, "panels").Array() {
		if panel.Get("type").String() == "row" {
			row = panel.Get("title").String()
			rows = append(rows, strings.TrimSpace(row+" "+panel.Get("repeat").String()))
			continue
		}
		targets := panel.Get("targets").Array()
		if len(targets) == 0 || panel.Get("fieldConfig.defaults.unit").String() == "" || panel.Get("description").String() == "" {
			t.Errorf("%s, %s: queries, unit or description are missing", row, panel.Get("title"))
		}
		for _, one := range targets {
			queries = append(queries, panelQuery{row, panel.Get("title").String(), one.Get("expr").String(), one.Get("legendFormat").String()})
		}
	}
	return queries, rows
}

var (
	dashboardVariable = regexp.MustCompile(`\$(\w+)`)
	legendLabel       = regexp.MustCompile(`{{(\w+)}}`)
	labelValues       = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// Prometheus answers every query of the dashboard with a number, while a gateway has traffic. The labels of the legends exist.
func TestDashboardQueriesReturnData(t *testing.T) {
	t.Parallel()
	dashboard := printedAsset(t, "dashboard")
	queries, rows := dashboardQueries(t, dashboard)
	if diff := cmp.Diff([]string{"Overview", "Upstream $upstream upstream", "Rollout", "Callbacks", "Runtime"}, rows); diff != "" || len(queries) < 50 {
		t.Errorf("%d queries; -want +got\n%s", len(queries), diff)
	}
	lookPath(t, "prometheus")
	demo := startDemoProcess(t)
	prometheus := startPrometheus(t, strings.TrimPrefix(demo.admin, "http://"))

	values := map[string][]string{"__rate_interval": {"5s"}, "__range": {"5s"}}
	for _, v := range gjson.Get(dashboard, "templating.list").Array() {
		name := v.Get("name").String()
		if m := labelValues.FindStringSubmatch(v.Get("definition").String()); m != nil {
			expr := replaceVariables(m[1], values)[0]
			proxytest.Eventually(t, func() bool { return prometheus.hasData(expr, m[2]) }, func() string { return "variable " + name + ": " + expr })
			found := map[string]bool{}
			for _, series := range prometheus.query(expr) {
				found[series.Get("metric."+m[2]).String()] = true
			}
			values[name] = slices.Sorted(maps.Keys(found))
		}
	}
	equal(t, values["upstream"], []string{"new", "old"}, "variable upstream")
	for _, q := range queries {
		var labels []string
		for _, m := range legendLabel.FindAllStringSubmatch(q.legend, -1) {
			labels = append(labels, m[1])
		}
		for _, expr := range replaceVariables(q.expr, values) {
			proxytest.Eventually(t, func() bool { return prometheus.hasData(expr, labels...) }, func() string { return q.row + ", " + q.panel + ": no data for " + expr })
		}
	}
	t.Logf("%d queries of %d rows return data", len(queries), len(rows))
}

// replaceVariables returns a query for each value of its variables. A variable without values stays, which Prometheus refuses or which
// matches nothing.
func replaceVariables(expr string, values map[string][]string) []string {
	name := dashboardVariable.FindStringSubmatch(expr)
	if name == nil || len(values[name[1]]) == 0 {
		return []string{expr}
	}
	var all []string
	for _, value := range values[name[1]] {
		all = append(all, replaceVariables(strings.ReplaceAll(expr, name[0], value), values)...)
	}
	return all
}
