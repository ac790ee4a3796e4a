package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A callerWriter is the ResponseWriter of a caller that disconnects while its answer is written or flushed.
type callerWriter struct {
	http.ResponseWriter
	write, flush func() error
}

func nothing() error { return nil }

func (l callerWriter) Write(p []byte) (int, error) {
	if err := l.write(); err != nil {
		return 0, err
	}
	return l.ResponseWriter.Write(p)
}

func (l callerWriter) FlushError() error { return l.flush() }

// A caller may disconnect as soon as it has its answer, while the ledger still records the call. The log must not
// report it as gone.
func TestDisconnectAfterTheAnswerIsNotLogged(t *testing.T) {
	t.Parallel()
	// What happens when the call is at the upstream, and when its answer is written and flushed.
	for name, row := range map[string]struct {
		asked, write, flush string
		gone                bool
	}{
		"stays":                       {},
		"leaves with its answer":      {flush: "leaves"},
		"at a writer without flush":   {flush: "unable"},
		"leaves while it is written":  {write: "broken", gone: true},
		"leaves before it is flushed": {flush: "broken", gone: true},
		"leaves before it is written": {asked: "leaves", gone: true},
	} {
		parallel(t, name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			do := func(what string) func() error {
				return func() error {
					if what == "leaves" {
						leave()
					}
					return map[string]error{"broken": errors.New("broken pipe"), "unable": http.ErrNotSupported}[what]
				}
			}
			service := newService()
			b := newGateway(t, sharedBills(newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				_ = do(row.asked)()
				service.ServeHTTP(w, r)
			}).url))
			q := v2("create") // a write, which continues without its caller
			b.ServeHTTP(callerWriter{httptest.NewRecorder(), do(row.write), do(row.flush)}, q.request().WithContext(ctx))
			line := b.logs.Next(t)
			checkText(t, line, `"code":"0000"`)
			equal(t, strings.Contains(line, `"caller_gone":true`), row.gone, line)
		})
	}
}
