package proxy_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy"
)

// BenchmarkExchange measures one call from the handler to the answer, over a real connection to an upstream in this
// process, with and without translation. It includes the cost of the upstream, but not of the HTTP server on the side
// of the caller. Compare its rows only with each other; `go run ./proxy/bench` measures whole processes.
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
