package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"go.yaml.in/yaml/v4"
)

// An outage is what two gateways on one store measured while the store did not answer. outages has them by name, as series of promtool.
type outage struct {
	Recorded string            `yaml:"recorded"`
	Series   map[string]string `yaml:"series"`
}

const (
	outages     = "testdata/outages.yaml"
	scrapeEvery = 5 * time.Second
)

// recordedMetric matches the series that alerts about the store use. Those of calls with a known outcome would only be long.
var recordedMetric = regexp.MustCompile(`^billbridge_(store_(up|failovers_total)|rollout_(refused|doubled)_total|callbacks_(refused_total|oldest_waiting_seconds|dead)|` +
	`requests_limited_total|upstream_(errors_total|breaker_state)|connections_refused_total|log_lines_lost_total|requests_total\{code="none".*status="50[24]")`)

// It records outages anew, with BILLBRIDGE_RECORD=1: two gateways with a rollout on a pair of PostgreSQL servers, 50 creates with a callback
// address, 100 reads and 3 payments of older bills a second at each of them, /metrics of both every 5 s.
func TestRecordOutages(t *testing.T) {
	if os.Getenv("BILLBRIDGE_RECORD") == "" {
		t.Skip("it takes seven minutes and replaces " + outages + ": only with BILLBRIDGE_RECORD=1")
	}
	away := func(p *proxytest.Pair) { p.Away(true) }
	var mu sync.Mutex
	recorded := map[string]outage{}
	t.Cleanup(func() {
		text, err := yaml.Dump(recorded)
		if err == nil {
			err = os.WriteFile(outages, text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	})
	for name, o := range map[string]struct {
		what      string
		down      time.Duration
		begin, to func(*proxytest.Pair)
	}{
		"switchover":  {"no server for 14 s, then the standby is the primary", 14 * time.Second, away, (*proxytest.Pair).FailOver},
		"killed node": {"the primary is frozen for 40 s, then the standby is the primary", 40 * time.Second, (*proxytest.Pair).Freeze, (*proxytest.Pair).FailOver},
		"outage":      {"no server for 5 minutes, then the primary again", 5 * time.Minute, away, func(p *proxytest.Pair) { p.Away(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newOutageRecorder(t)
			r.begin(t)
			r.scrape(t, 20*time.Second)
			o.begin(r.pair)
			r.scrape(t, o.down)
			o.to(r.pair)
			r.scrape(t, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			recorded[name] = outage{o.what, r.series()}
		})
	}
}

// An outageRecorder is a fail-over trial whose backends send callbacks, to both gateways by turns.
type outageRecorder struct {
	*failOverTrial
	values map[string][]string // by series
	n      int                 // how often was scraped
}

func newOutageRecorder(t *testing.T) *outageRecorder {
	r := &outageRecorder{failOverTrial: newFailOverTrial(t, "legacy", ""), values: map[string][]string{}}
	var turn atomic.Int64
	bridge := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: r.gateways[turn.Add(1)%2].partners})
	}})
	t.Cleanup(bridge.Close)
	r.config += fmt.Sprintf("callbacks: {public_url: %q, allow: [127.0.0.0/8], ports: []}\n", bridge.URL)
	return r
}

// begin starts the gateways and the calls, which end with the test.
func (r *outageRecorder) begin(t *testing.T) {
	partners := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"code":"0000","message":"ok"}`)
	}))
	t.Cleanup(partners.Close)
	r.startBoth(t)
	ended, all := make(chan struct{}), new(sync.WaitGroup)
	t.Cleanup(all.Wait)
	t.Cleanup(func() { close(ended) })
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	for i, g := range r.gateways {
		send := func(operation, bill string) {
			all.Go(func() {
				text, err := json.Marshal((&demoBill{id: bill, price: 20_000}).request(operation, trialKey, partners.URL))
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := client.Post("http://"+g.partners+billPath(operation), "application/json", bytes.NewReader(text))
				if err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
			})
		}
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				case <-time.After(20 * time.Millisecond):
				}
				send("create", fmt.Sprint("bill-", i, "-", n))
				for before := range 2 {
					send("read", fmt.Sprint("bill-", i, "-", n-50-before))
				}
				if n%16 == 0 {
					for _, s := range r.services {
						_ = s.Pay(trialKey, fmt.Sprint("bill-", i, "-", n/16)) // one of them has it, unless it was refused
					}
				}
			}
		})
	}
}

// scrape records the metrics of both gateways for some time.
func (r *outageRecorder) scrape(t *testing.T, during time.Duration) {
	every := time.NewTicker(scrapeEvery)
	defer every.Stop()
	for end := time.After(during); ; {
		select {
		case <-end:
			return
		case <-every.C:
		}
		for i, g := range r.gateways {
			_, text := httpCall(t, http.MethodGet, "http://"+g.operator+"/metrics", "")
			for line := range strings.Lines(text) {
				at := strings.LastIndex(line, " ")
				name, value := line[:max(at, 0)], strings.TrimSpace(line[at+1:])
				if !recordedMetric.MatchString(name) {
					continue
				}
				labels := fmt.Sprintf(`{job="a",instance="%d"`, i+1)
				if metric, rest, ok := strings.Cut(name, "{"); ok {
					name = metric + labels + "," + rest
				} else {
					name += labels + "}"
				}
				for len(r.values[name]) < r.n {
					r.values[name] = append(r.values[name], "_")
				}
				if number, err := strconv.ParseFloat(value, 64); err == nil {
					value = strconv.FormatFloat(math.Round(number), 'f', -1, 64)
				}
				r.values[name] = append(r.values[name], value)
			}
		}
		r.n++
	}
}

// series returns the series that are not always 0.
func (r *outageRecorder) series() map[string]string {
	found := map[string]string{}
	for name, values := range r.values {
		if slices.ContainsFunc(values, func(v string) bool { return v != "0" && v != "_" }) {
			found[name] = strings.Join(values, " ")
		}
	}
	return found
}
