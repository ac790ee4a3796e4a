package proxy

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/upstream"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A write is not sent if nobody reads the log when a connection is there: an unknown outcome would be in no log.
func TestR27_NoWriteWhileNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	c := proxytest.Config(t, "upstreams: {up: {form: v2, url: \"http://127.0.0.1:1\"}}\n")
	synctest.Test(t, func(t *testing.T) {
		out, in := io.Pipe()
		log := slog.New(accesslog.New(in, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) }))
		s := newState(c, nil, newMetrics(nil), "", log)
		sendCtx, leave := context.WithCancel(t.Context())
		defer leave()
		x := exchange{gateway: &Gateway{log: log}, state: s, r: httptest.NewRequest("POST", "/", nil)}
		x.in.sendCtx = sendCtx
		for _, x.route = range s.byPath {
			if x.route.operation.Effect == translate.Write {
				break
			}
		}
		if failed := x.tooLate(); failed != nil {
			t.Error(failed.reason)
		}
		dial := func(context.Context, string, string) (net.Conn, error) {
			log.Warn("nobody reads this") // returns when the gateway no longer waits for a reader
			conn, _ := net.Pipe()
			return conn, nil
		}
		u := upstream.New(&c.Upstreams[0], "", upstream.NewMetrics(nil), log, dial)
		_, failed := u.Do(t.Context(), &upstream.Request{
			Head: u.Head("/bill"), Body: []byte("{}"), Write: true, Reply: new(bytes.Buffer), Limit: 100, SendCtx: sendCtx,
		})
		if failed == nil || failed.Kind != upstream.GivenUp || failed.Sent {
			t.Fatalf("%+v", failed)
		}
		for _, f := range []*failure{x.unanswered(failed), x.tooLate()} {
			if out := x.failure(f); out.status != http.StatusServiceUnavailable || out.reason != "nobody reads the log" {
				t.Errorf("%+v", out)
			}
		}
		_ = out.Close()
		synctest.Wait()
	})
}

// The series of an upstream are those of the next one before the reload is complete.
func TestReplacedUpstreamDoesNotReport(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	state := func(timeout string, before *state) *state {
		return newState(proxytest.Config(t, "upstreams: {up: {form: v2, url: \"http://127.0.0.1:1\", timeout: "+timeout+"}}\n"),
			before, m, "", slog.New(slog.DiscardHandler))
	}
	before := state("10s", nil)
	state("20s", before)
	u := before.upstreams["up"]
	for range 50 {
		_, _ = u.Do(t.Context(), &upstream.Request{Head: u.Head("/bill"), Reply: new(bytes.Buffer)})
	}
	if is := u.Health().Breaker; is != "open" {
		t.Fatalf("the breaker is %s", is)
	}
	const want = `# HELP billbridge_upstream_breaker_state State of the breaker of an upstream: 0 closed, 1 half-open, 2 open.
# TYPE billbridge_upstream_breaker_state gauge
billbridge_upstream_breaker_state{upstream="up"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "billbridge_upstream_breaker_state"); err != nil {
		t.Error(err)
	}
}
