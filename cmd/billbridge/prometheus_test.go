package main

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
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

// startPrometheus starts Prometheus with a gateway as its target.
func startPrometheus(t *testing.T, address string) *prometheusServer {
	t.Helper()
	program, dir := lookPath(t, "prometheus"), t.TempDir()
	// A scrape may take as long as its interval: the gateway waits for its store up to 500 ms.
	proxytest.WriteFile(t, filepath.Join(dir, "prometheus.yml"),
		fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: demo, static_configs: [{targets: [%q]}]}]\n", address))
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
