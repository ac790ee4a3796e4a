package proxy_test

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/accesslog"
)

// BenchmarkAccessLog measures the end of an exchange: metrics and the line of the log, for a translated read.
// Subtract the row "metrics alone". "handler of log/slog" is a line and a write for each request, which is what
// other loggers get.
func BenchmarkAccessLog(b *testing.B) {
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(b, err)
	b.Cleanup(func() { _ = file.Close() })
	buffered := accesslog.New(file, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
	b.Cleanup(buffered.Close)
	for _, row := range []struct {
		name   string
		logger slog.Handler
	}{
		{"metrics alone", slog.DiscardHandler},
		{"handler of log-slog", slog.NewJSONHandler(file, nil)},
		{"buffered", buffered},
	} {
		b.Run(row.name, func(b *testing.B) {
			service := newService()
			prepareBill(b, service, "CREATED", demoBill)
			back := httptest.NewServer(service)
			defer back.Close()
			c := parse(b, oneUpstream("v2", back.URL))
			accesslog.Use(slog.New(row.logger), c.Log)
			gateway, err := proxy.New(c, proxy.Options{Logger: slog.New(row.logger)})
			must(b, err)
			defer gateway.Close()
			q := legacy("read")
			w := httptest.NewRecorder()
			observe := gateway.Observe(w, q.request())
			if w.Code != 200 || !strings.Contains(w.Body.String(), demoBill) {
				b.Fatal(w.Body)
			}
			b.ReportAllocs()
			for b.Loop() {
				observe()
			}
		})
	}
}
