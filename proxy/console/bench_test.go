package console

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus"
)

// BenchmarkFinished measures what the console adds to a translated read while no page is open: the CPU time of this process, which has an
// upstream that costs little, but no HTTP server for the caller. It makes the calls with and without the console in turn, and reports the
// medians.
func BenchmarkFinished(b *testing.B) {
	const batch = 200
	upstream := proxytest.Canned(b, `{"code":"0000","message":"SUCCESS","data":{"apiKey":"demo-partner-key","member":"m","merchant":"s","billId":"B1","apprState":"F","apprPrice":30000,"apprNum":"30000001","apprIssuer":"카드","apprMonthly":"00","apprDt":"20261122101112"}}`)
	var call [2]func()
	for i := range call {
		console, err := New(Options{Config: configOf(proxytest.Config(b, `upstreams: {up: {form: v2, url: "`+upstream+`"}}`))})
		if err != nil {
			b.Fatal(err)
		}
		o := proxy.Options{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))}
		if i == 1 {
			o.Finished = console.Finished
		}
		gateway, err := proxy.New(console.options.Config(), o)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(gateway.Close)
		call[i] = readCall(b, gateway)
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i := range call {
			began := cpuTime(b)
			for range batch {
				call[i]()
			}
			took[i] = append(took[i], (cpuTime(b)-began)/batch)
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	without, with := took[0][len(took[0])/2], took[1][len(took[1])/2]
	b.ReportMetric(float64(without.Nanoseconds()), "ns-without/call")
	b.ReportMetric(float64(with.Nanoseconds()), "ns-with/call")
	b.ReportMetric(100*(float64(with)/float64(without)-1), "%-more")
}

// cpuTime returns the user and system time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readCall returns a function that makes one legacy read.
func readCall(b *testing.B, h http.Handler) func() {
	b.Helper()
	const text = `{"apikey":"demo-partner-key","member":"m","merchant":"s","bill_id":"B1"}`
	w := &emptyWriter{header: http.Header{}}
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	return func() {
		clear(w.header)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/if/bill/read", strings.NewReader(text))
		if h.ServeHTTP(w, r); w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}

// An emptyWriter is a ResponseWriter that keeps nothing but the status.
type emptyWriter struct {
	header http.Header
	status int
}

func (w *emptyWriter) Header() http.Header         { return w.header }
func (w *emptyWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *emptyWriter) WriteHeader(status int)      { w.status = status }

// BenchmarkRing measures the console's part alone.
func BenchmarkRing(b *testing.B) {
	c, err := New(Options{Config: configOf(proxytest.Config(b, testConfig))})
	if err != nil {
		b.Fatal(err)
	}
	f := &proxy.Finished{At: time.Now(), Took: 3 * time.Millisecond, Operation: "bill.read", Upstream: "up", Status: 200, Code: "0000", Succeeded: true, ID: "x"}
	b.ReportAllocs()
	for b.Loop() {
		c.Finished(f)
	}
}
