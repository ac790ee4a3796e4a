package main

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"

	"github.com/tidwall/gjson"
)

// A prometheusServer is a running Prometheus.
type prometheusServer struct {
	*process
	t   *testing.T
	url string
}

// startPrometheus starts Prometheus with gateways as targets, by the name of their job. rules may be empty.
func startPrometheus(t *testing.T, rules string, targets map[string]string) *prometheusServer {
	t.Helper()
	program, dir := lookPath(t, "prometheus"), t.TempDir()
	// A scrape may take as long as its interval: the gateway waits for its store up to 500 ms.
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nscrape_configs:\n"
	for job, address := range targets {
		config += fmt.Sprintf("  - {job_name: %s, authorization: {credentials: %s}, static_configs: [{targets: [%q]}]}\n", job, alertToken, address)
	}
	if rules != "" {
		config += "rule_files: [alerts.yaml]\n"
	}
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yaml": rules} {
		proxytest.WriteFile(t, filepath.Join(dir, name), text)
	}
	p, err := launch(dir, program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { // before its folder is removed
		p.kill()
		_, _ = p.end()
	})
	at, err := p.await("stderr", `msg="Listening on" address=(?P<address>[0-9.:]+)`)
	must(t, err)
	return &prometheusServer{p, t, "http://" + at["address"]}
}

// query returns the result of an instant query: series, each with metric and value.
func (p *prometheusServer) query(expr string) []gjson.Result {
	p.t.Helper()
	status, body := httpCall(p.t, http.MethodGet, p.url+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), "")
	if status != http.StatusOK && status != http.StatusServiceUnavailable { // 503 while it starts
		p.t.Fatalf("%s: %d %s", expr, status, body)
	}
	return gjson.Get(body, "data.result").Array()
}

// hasData reports whether a query returns a series with these labels whose value is a number.
func (p *prometheusServer) hasData(expr string, labels ...string) bool {
	p.t.Helper()
	for _, series := range p.query(expr) {
		has := !math.IsNaN(series.Get("value.1").Float()) && series.Get("value.1").String() != "NaN"
		for _, label := range labels {
			has = has && series.Get("metric."+label).Exists()
		}
		if has {
			return true
		}
	}
	return false
}

// hostOf returns the address of a URL.
func hostOf(address string) string { return strings.TrimPrefix(address, "http://") }
