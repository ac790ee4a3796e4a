package server

import (
	"log/slog"
	"regexp"
	"slices"
	"testing"

	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus"
)

// README.md of the gateway names every metric, and no other. The series in the cases of the alerts have labels of their metrics.
func TestReadmeNamesEveryMetric(t *testing.T) {
	t.Parallel()
	c := proxytest.Config(t, `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {old: {form: legacy, url: "http://127.0.0.1:9"}, new: {form: v2, url: "http://127.0.0.1:9"}}
route: {default: old}
rollout: {old: old, new: new}
callbacks: {public_url: "https://bridge.example.com"}
store: {url: `+proxytest.SQLite(t)+`}
`)
	s, err := Listen(t.Context(), c, nil, nil, Build{}, slog.New(slog.DiscardHandler))
	proxytest.Must(t, err)
	defer s.closeAll()
	described := make(chan *prometheus.Desc)
	go func() {
		s.registry.Describe(described)
		close(described)
	}()
	name := regexp.MustCompile(`\bbillbridge_[a-z_]*[a-z]\b`)
	registered := []string{"billbridge_certificate_not_after_seconds"} // only with certificates
	labels, ofDesc := map[string]string{}, regexp.MustCompile(`constLabels: .*`)
	for d := range described {
		for _, metric := range name.FindAllString(d.String(), 1) {
			registered, labels[metric] = append(registered, metric), ofDesc.FindString(d.String())
		}
	}
	cases := string(proxytest.ReadFile(t, "../../cmd/billbridge/testdata/alertcases.yaml"))
	for _, series := range regexp.MustCompile(`(billbridge_\w+?)(?:_bucket|_sum|_count)?\{(.*?)\}`).FindAllStringSubmatch(cases, -1) {
		for _, label := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(series[2], -1) {
			if has, known := labels[series[1]]; known && !slices.Contains([]string{"job", "instance", "le"}, label[1]) && !regexp.MustCompile(`\b`+label[1]+`\b`).MatchString(has) {
				t.Errorf("%s has no label %s: %s", series[1], label[1], has)
			}
		}
	}
	readme := name.FindAllString(string(proxytest.ReadFile(t, "../README.md")), -1)
	for _, metric := range registered {
		if !slices.Contains(readme, metric) {
			t.Errorf("README.md has no %s", metric)
		}
	}
	for _, metric := range readme {
		if metric = regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(metric, ""); !slices.Contains(registered, metric) {
			t.Errorf("README.md has %s, which is no metric", metric)
		}
	}
}
