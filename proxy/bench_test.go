package proxy_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy"
)

// BenchmarkExchange is one call from the handler to the answer, over a real connection to an upstream in this process:
// bytes that pass, and bytes that are converted. What the HTTP server towards the caller costs is not in it, what the
// upstream costs is. Compare the rows with each other; `go run ./proxy/bench` measures whole processes.
func BenchmarkExchange(b *testing.B) {
	for _, client := range forms {
		for _, upstream := range forms {
			kind := "conversion"
			if client == upstream {
				kind = "pass-through"
			}
			for _, op := range []string{"create", "read"} {
				b.Run(strings.Join([]string{kind, client + " from " + upstream, op}, "/"), func(b *testing.B) {
					service := newService()
					prepareBill(b, service, stateBefore[op], demoBill)
					direct := httptest.NewRecorder()
					q := newCall(upstream, op)
					service.ServeHTTP(direct, httptest.NewRequest("POST", q.path(), strings.NewReader(q.body())))
					back := httptest.NewServer(replyWith(200, direct.Body.String()))
					defer back.Close()
					gateway, err := proxy.New(parse(b, oneUpstream(upstream, back.URL)), proxy.Options{})
					if err != nil {
						b.Fatal(err)
					}
					defer gateway.Close()
					q = newCall(client, op)
					path, body := q.path(), q.body()
					b.ReportAllocs()
					for b.Loop() {
						w := httptest.NewRecorder()
						gateway.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
						if w.Code != 200 {
							b.Fatal(w.Body)
						}
					}
				})
			}
		}
	}
}
