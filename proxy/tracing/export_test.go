package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func now() time.Time { return time.Now() }

func newLogged(t *testing.T) (*Tracing, *proxytest.Log) {
	t.Helper()
	log := &proxytest.Log{}
	tracing, err := New(Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return tracing, log
}

// end ends n spans.
func (t *Tracing) end(n int) {
	for range n {
		t.Call(nil, "call").End()
	}
}

// A receiver that does not answer delays no call, and not the end of the gateway. Every span is counted as lost. The log has the first loss,
// and no further line within a minute.
func TestReceiverThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer server.Close()
	defer close(release)
	tracing, log := newLogged(t)
	tracing.Use(section(t, server.URL+"/v1/traces", 1))
	const spans = 3 * maxWaiting
	tracing.end(maxWaiting)
	<-asked
	began := time.Now()
	tracing.end(spans - maxWaiting)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d spans took %s", spans-maxWaiting, took)
	}
	beyond := spans - maxWaiting // of which the first batch is being exported
	if lost := int(testutil.ToFloat64(tracing.queue.lost)); lost < beyond-maxBatch || lost >= beyond {
		t.Errorf("%d spans are lost, want those over %d, %d", lost, maxWaiting, beyond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	tracing.Close(ctx)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
	if lost := int(testutil.ToFloat64(tracing.queue.lost)); lost != spans {
		t.Errorf("%d of %d spans are lost", lost, spans)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "the receiver is slower than the gateway") {
		t.Errorf("%d lines:\n%s", lines, log)
	}
	tracing.end(1) // after Close nothing begins
	if tracing.Call(nil, "call") != nil {
		t.Error("a span began after Close")
	}
	tracing.Use(section(t, server.URL+"/v1/traces", 1)) // by a reload that was under way
	if call := tracing.Call(nil, "call"); call != nil {
		t.Errorf("a span began after Close and Use: %s", call.AppendHeaders(nil))
	}
}

// What the receiver answers is logged without the headers of the config, and cut off. A redirect is not followed: its target must not get the
// headers.
func TestReceiverThatRefuses(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"401": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "wrong key "+r.Header.Get("Api-Key")+" or "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+" "+strings.Repeat("x", 1000), http.StatusUnauthorized)
		},
		"307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			tracing, log := newLogged(t)
			c := section(t, server.URL+"/v1/traces", 1)
			c.Headers = map[string]config.Secret{
				"api-key": config.NewSecret("canary-0451"), "authorization": config.NewSecret("Bearer canary-0452"), "x-tenant": config.NewSecret("canary"),
			}
			tracing.Use(c)
			tracing.end(7)
			tracing.Close(t.Context())
			if lost := testutil.ToFloat64(tracing.queue.lost); lost != 7 {
				t.Errorf("%v spans are lost", lost)
			}
			if line := log.String(); strings.Contains(line, "canary") || strings.Contains(line, "-045") || !strings.Contains(line, name) || !strings.Contains(line, "count=") || len(line) > 600 {
				t.Errorf("%s", line)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// A reload changes the receiver, and turns tracing off and on. No span is lost.
func TestReceiverOfAReload(t *testing.T) {
	t.Parallel()
	var got [2]atomic.Int64
	var servers [2]*httptest.Server
	for i := range servers {
		servers[i] = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got[i].Add(1) }))
		defer servers[i].Close()
	}
	tracing, _ := newLogged(t)
	tracing.Use(section(t, servers[0].URL+"/v1/traces", 1))
	tracing.end(1)
	proxytest.Eventually(t, func() bool { return got[0].Load() == 1 }, func() string { return "nothing was exported" })
	tracing.Use(nil)
	tracing.end(1)
	if tracing.Exports() {
		t.Error("it is not off")
	}
	tracing.Use(section(t, servers[1].URL+"/v1/traces", 1))
	tracing.end(1)
	tracing.Close(t.Context())
	if a, b, lost := got[0].Load(), got[1].Load(), testutil.ToFloat64(tracing.queue.lost); a != 1 || b != 1 || lost != 0 {
		t.Errorf("%d and %d exports, %v spans lost", a, b, lost)
	}
}

// A stop does not wait for a receiver from before a reload.
func TestStopAfterAReloadDoesNotWait(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 8), make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer hangs.Close()
	defer close(release)
	tracing, _ := newLogged(t)
	tracing.Use(section(t, hangs.URL+"/v1/traces", 1))
	tracing.end(1)
	<-asked
	tracing.Use(section(t, hangs.URL+"/other", 1))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan struct{})
	go func() {
		tracing.Close(over)
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(exportWithin / 2):
		t.Error("it waits for the receiver")
	}
}
