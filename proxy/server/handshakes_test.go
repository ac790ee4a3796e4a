package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func newTestErrors(t *testing.T) (*serverErrors, *proxytest.Log) {
	t.Helper()
	logs := &proxytest.Log{}
	return newServerErrors(slog.New(slog.NewJSONHandler(logs, nil)), prometheus.NewRegistry()), logs
}

// Many addresses take no more memory or lines than pages.MaxGuessers, and each failure is counted.
func TestFailedHandshakesOfManyAddressesAreBounded(t *testing.T) {
	t.Parallel()
	e, logs := newTestErrors(t)
	const n = 3 * pages.MaxGuessers
	for i := range n {
		e.handshake(sourceOf(fmt.Sprintf("[2001:db8:%x::1]:5", i)), errors.New("tls: client offered only unsupported versions: [301]"))
		e.handshake(sourceOf(fmt.Sprintf("[2001:db8:%x::2]:6", i)), errors.New("tls: x"))
	}
	if lines := strings.Count(logs.String(), "\n"); lines < pages.MaxGuessers/2 || lines > pages.MaxGuessers {
		t.Errorf("%d lines", lines)
	}
	proxytest.Equal(t, testutil.ToFloat64(e.handshakes.WithLabelValues("version")), n)
	if want := `"address":"2001:db8::/64","reason":"version","error":"tls: client offered only unsupported versions: [301]","count":1}`; !strings.Contains(logs.String(), want) {
		t.Errorf("no %s", want)
	}
}

// A panic that only net/http sees is an error in the log, without its value. What nobody needs is counted.
func TestErrorsOfTheServerAreLoggedOrCounted(t *testing.T) {
	t.Parallel()
	e, logs := newTestErrors(t)
	l := e.logger()
	l.Printf("http: panic serving 192.0.2.1:5: canary\ngoroutine 1 [running]:\nmain.f()")
	l.Print("http: Accept error: accept tcp: too many open files; retrying in 5ms")
	l.Print("http: superfluous response.WriteHeader call")
	got := logs.String()
	for _, want := range []string{`"level":"ERROR","msg":"panic","stack":"goroutine 1`, `"level":"ERROR","msg":"no connection can be accepted"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "canary") || strings.Count(got, "\n") != 2 {
		t.Error(got)
	}
}

func sourceOf(remote string) netip.Prefix {
	from, _ := new(config.Limits).Peer(remote)
	return from
}
