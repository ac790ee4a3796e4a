package relay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"billbridge/proxy/proxytest"
)

// BenchmarkReceive receives callbacks of 64 senders over sockets, each for a bill of its own: it is translated, stored, and
// acknowledged when it is on the disk. The senders are in this process, too.
func BenchmarkReceive(b *testing.B) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{
		{"memory", func(testing.TB) string { return "memory:" }},
		{"sqlite", proxytest.SQLite},
		{"postgres", proxytest.Postgres},
	} {
		b.Run(engine.name, func(b *testing.B) {
			s := newTestRelay(b, setup{form: "v2", store: engine.url(b)})
			paths := make([]string, 1000)
			for i := range paths {
				a := asked("legacy", "https://partner.example.com/paid")
				a.Bill = fmt.Sprintf("B%d", i)
				paths[i] = s.bind(a)
			}
			server := httptest.NewServer(s.Relay)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			var last atomic.Int64
			b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := last.Add(1)
					of := int(n) % len(paths)
					// Approval numbers differ, so that none is a repetition.
					body := strings.Replace(notice("v2", key, fmt.Sprintf("B%d", of)), "{", fmt.Sprintf(`{"apprNum":"%d",`, n), 1)
					res, err := client.Post(server.URL+paths[of], "application/json", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					if res.StatusCode != http.StatusOK {
						b.Errorf("%d", res.StatusCode)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
		})
	}
}

// BenchmarkDeliver delivers callbacks that are in the store to 64 partners over sockets. The partners are in this process, too.
func BenchmarkDeliver(b *testing.B) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", proxytest.SQLite}, {"postgres", proxytest.Postgres}} {
		b.Run(engine.name, func(b *testing.B) {
			s := newTestRelay(b, setup{form: "v2", store: engine.url(b), callbacks: reachable})
			var delivered atomic.Int64
			all := make(chan struct{})
			partner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `{"code":"0000","msg":"ok"}`)
				if delivered.Add(1) == int64(b.N) {
					close(all)
				}
			})
			paths := make([]string, 1000)
			servers := make([]*httptest.Server, 64)
			for i := range servers {
				servers[i] = httptest.NewServer(partner)
				b.Cleanup(servers[i].Close)
			}
			for i := range paths {
				a := asked("legacy", servers[i%len(servers)].URL)
				a.Bill = fmt.Sprintf("B%d", i)
				paths[i] = s.bind(a)
			}
			var filling sync.WaitGroup
			for worker := range 64 {
				filling.Go(func() {
					for n := worker; n < b.N; n += 64 {
						of := n % len(paths)
						body := strings.Replace(notice("v2", key, fmt.Sprintf("B%d", of)), "{", fmt.Sprintf(`{"apprNum":"%d",`, n), 1)
						equal(b, s.post(paths[of], body).Code, http.StatusOK)
					}
				})
			}
			filling.Wait()
			ctx, stop := context.WithCancel(b.Context())
			b.ResetTimer()
			var running sync.WaitGroup
			running.Go(func() { s.Run(ctx) })
			<-all
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
			stop()
			running.Wait()
		})
	}
}
