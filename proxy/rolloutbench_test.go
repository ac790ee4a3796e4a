package proxy_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
)

// A flushed is a ResponseWriter that records when the answer was sent.
type flushed struct {
	*httptest.ResponseRecorder
	at time.Time
}

func (f *flushed) Flush() { f.at = time.Now() }

// BenchmarkLedgered measures what the ledger adds to a create, with 1 and with 64 callers: from the handler to the
// answer, over real connections to upstreams in this process. "plain" has no rollout; "old" writes to the ledger
// before and after each create; "new" also probes the old backend. Compare p50-ms with that of plain.
func BenchmarkLedgered(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, row := range []struct {
			name, stage string
			url         func(testing.TB) string
		}{
			{"plain", "", nil},
			{"old/sqlite", "old", proxytest.SQLite},
			{"new/sqlite", "new", proxytest.SQLite},
			{"old/postgres", "old", proxytest.Postgres},
			{"new/postgres", "new", proxytest.Postgres},
		} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, row.name), func(b *testing.B) {
				old := httptest.NewServer(replyWith(200, `{"code":"9980","msg":"no such bill"}`))
				if row.stage != "new" {
					old.Config.Handler = replyWith(200, `{"code":"0000","msg":"ok","shortURL":"https://pay.example.com/b/1"}`)
				}
				defer old.Close()
				fresh := httptest.NewServer(replyWith(200, `{"code":"0000","message":"ok","data":{"shortUrl":"https://pay.example.com/b/1"}}`))
				defer fresh.Close()
				config := fmt.Sprintf("%s\nupstreams: {old: {form: legacy, url: %q}, new: {form: v2, url: %q}}\nroute: {default: old}\n", anyPort, old.URL, fresh.URL)
				var o proxy.Options
				if row.stage != "" {
					config += "rollout: {old: old, new: new, default: " + row.stage + "}\nstore: {url: \"sqlite:unused.db\"}\n"
					s := proxytest.BeginRollout(b, row.url(b), partner.Of(demoKey))
					var err error
					if o.Rollout, err = rollout.New(b.Context(), parse(b, config), rollout.Options{Store: s}); err != nil {
						b.Fatal(err)
					}
					defer func() { _ = o.Rollout.Close(context.Background()) }()
				}
				gateway, err := proxy.New(parse(b, config), o)
				must(b, err)
				defer gateway.Close()
				took := make([]time.Duration, b.N)
				var next atomic.Int64
				var calling sync.WaitGroup
				b.ResetTimer()
				for range callers {
					calling.Go(func() {
						for {
							n := next.Add(1) - 1
							if n >= int64(b.N) {
								return
							}
							q := legacy("create").with("billId", fmt.Sprintf("B%019d", n))
							body := q.body()
							w := &flushed{ResponseRecorder: httptest.NewRecorder()}
							began := time.Now()
							gateway.ServeHTTP(w, httptest.NewRequest("POST", q.path(), strings.NewReader(body)))
							if w.at.IsZero() {
								w.at = time.Now()
							}
							took[n] = w.at.Sub(began)
							if w.Code != 200 {
								b.Error(w.Body)
								return
							}
						}
					})
				}
				calling.Wait()
				b.StopTimer()
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			})
		}
	}
}
