package server

import (
	"bytes"
	"crypto/tls"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The reasons of TLS handshakes that failed.
const (
	plainHTTP   = "plain_http"  // a request without TLS
	version     = "version"     // only versions before TLS 1.2
	cipher      = "cipher"      // no cipher suite in common, for example only RSA key exchange
	certificate = "certificate" // the client does not accept the certificate
	other       = "other"       // among others, the client has closed the connection
)

// serverErrors counts and logs the TLS handshakes that failed, and what net/http tells only its ErrorLog. Safe for
// concurrent use.
type serverErrors struct {
	log        *slog.Logger
	handshakes *prometheus.CounterVec
	rest       prometheus.Counter

	mu   sync.Mutex
	from map[netip.Prefix]*failedHandshakes // at most maxAddresses, and the zero Prefix for the others
}

// failedHandshakes are those of one source address.
type failedHandshakes struct {
	logged   time.Time
	unlogged int
}

// newServerErrors registers the metrics.
func newServerErrors(log *slog.Logger, registry prometheus.Registerer) (*serverErrors, error) {
	e := &serverErrors{log: log, from: map[netip.Prefix]*failedHandshakes{}}
	e.handshakes = counters("billbridge_tls_handshake_failures_total",
		"TLS handshakes that failed. A connection that is closed before the first byte does not count.",
		"reason", plainHTTP, version, cipher, certificate, other)
	e.rest = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "billbridge_server_errors_total", Help: "Errors of the HTTP servers that no other metric counts.",
	})
	return e, register(registry, e.handshakes, e.rest)
}

// handshake counts a handshake that failed. An address has one line a minute. offered are the versions of the client.
func (e *serverErrors) handshake(peer string, offered []uint16, err string) {
	reason := other
	for text, is := range map[string]string{
		"HTTP request to an HTTPS": plainHTTP, "unsupported versions": version,
		"no cipher suite": cipher, "remote error: ": certificate,
	} {
		if strings.Contains(err, text) {
			reason = is
		}
	}
	e.handshakes.WithLabelValues(reason).Inc()
	from, now := sourceOf(peer), time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.from[from] == nil && len(e.from) >= maxAddresses {
		for old, f := range e.from {
			if now.Sub(f.logged) >= tokenLogInterval {
				delete(e.from, old)
			}
		}
		if len(e.from) >= maxAddresses {
			from = netip.Prefix{}
		}
	}
	f := e.from[from]
	if f == nil {
		f = &failedHandshakes{}
		e.from[from] = f
	}
	if f.unlogged++; now.Sub(f.logged) < tokenLogInterval {
		return
	}
	var versions []string
	for _, v := range offered {
		if name := tls.VersionName(v); strings.HasPrefix(name, "TLS") || strings.HasPrefix(name, "SSL") {
			versions = append(versions, name)
		}
	}
	e.log.Warn("a TLS handshake failed", "address", shownSource(from), "reason", reason, "error", err[:min(len(err), 200)],
		"offered", strings.Join(versions, ", "), "count", f.unlogged)
	f.logged, f.unlogged = now, 0
}

// failedHandshake is the function of [framing.Options].
func (e *serverErrors) failedHandshake(peer net.Addr, offered []uint16, err error) {
	e.handshake(peer.String(), offered, err.Error())
}

// logger returns an ErrorLog for a server.
func (e *serverErrors) logger() *log.Logger { return log.New(e, "", 0) }

// Write takes one message of net/http. The value of a panic may contain a part of a body: it is not logged.
func (e *serverErrors) Write(message []byte) (int, error) {
	text := string(bytes.TrimSpace(message))
	peer, isHandshake := strings.CutPrefix(text, "http: TLS handshake error from ")
	switch peer, err, _ := strings.Cut(peer, ": "); {
	case isHandshake && strings.HasSuffix(err, "EOF"): // a health check of a load balancer
	case isHandshake:
		e.handshake(peer, nil, err)
	case strings.Contains(text, ": panic serving "):
		_, stack, _ := strings.Cut(text, "\ngoroutine ")
		e.log.Error("panic", "stack", "goroutine "+stack)
	case strings.HasPrefix(text, "http: Accept error: "): // at most twice a second at first, later once
		e.log.Error("no connection can be accepted", "error", strings.TrimPrefix(text, "http: Accept error: "))
	default:
		e.rest.Inc()
		e.log.Debug(text)
	}
	return len(message), nil
}

// plainAnswer answers a request without TLS, in both forms: its path is not known.
const plainAnswer = `{"code":"ERROR","msg":"this port needs https","message":"this port needs https","data":null}`
