package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
)

// A callerWriter is the ResponseWriter of a caller that disconnects while its answer is written or flushed.
type callerWriter struct {
	*httptest.ResponseRecorder
	write, flush func() error
}

func (l callerWriter) Write(p []byte) (int, error) {
	if err := l.write(); err != nil {
		return 0, err
	}
	return l.ResponseRecorder.Write(p)
}

func (l callerWriter) FlushError() error { return l.flush() }

// A caller may disconnect as soon as it has its answer, while the ledger still records the call. The log must not
// report it as gone.
func TestDisconnectAfterTheAnswerIsNotLogged(t *testing.T) {
	t.Parallel()
	nothing := func(func()) error { return nil }
	broken := func(func()) error { return errors.New("broken pipe") }
	unable := func(func()) error { return http.ErrNotSupported }
	leaves := func(leave func()) error { leave(); return nil }
	for name, row := range map[string]struct {
		asked, write, flush func(leave func()) error
		gone                bool
	}{
		"stays":                       {nothing, nothing, nothing, false},
		"leaves with its answer":      {nothing, nothing, leaves, false},
		"at a writer without flush":   {nothing, nothing, unable, false},
		"leaves while it is written":  {nothing, broken, nothing, true},
		"leaves before it is flushed": {nothing, nothing, broken, true},
		"leaves before it is written": {leaves, nothing, nothing, true},
	} {
		parallel(t, name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			service := newService()
			back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				_ = row.asked(leave)
				service.ServeHTTP(w, r)
			})
			c := parse(t, fmt.Sprintf("upstreams: {old: {form: v2, url: %[1]q}, new: {form: v2, url: %[1]q}}\nroute: {default: old}\nrollout: {old: old, new: new, bills: shared}\n", back.url))
			router, err := rollout.New(t.Context(), c, rollout.Options{})
			must(t, err)
			log := &proxytest.Log{}
			g, err := proxy.New(c, proxy.Options{Logger: slog.New(slog.NewJSONHandler(log, nil)), Rollout: router})
			must(t, err)
			defer g.Close()
			q := v2("create") // a write, which continues without its caller
			w := callerWriter{httptest.NewRecorder(), func() error { return row.write(leave) }, func() error { return row.flush(leave) }}
			g.ServeHTTP(w, q.request().WithContext(ctx))
			if got := fields(t, log.Next(t)); (got["caller_gone"] == true) != row.gone || got["code"] != "0000" {
				t.Errorf("%v", got)
			}
		})
	}
}
