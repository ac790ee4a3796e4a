package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/pages"

	"github.com/prometheus/client_golang/prometheus"
)

// certificate is the reason if the client does not accept the certificate.
const certificate = "certificate"

// handshakeReasons are texts in the other errors of crypto/tls, and the reasons that they stand for.
var handshakeReasons = map[string]string{
	"does not look like a TLS": "not_tls", // for example a request over http
	"unsupported versions":     "version", // only versions before TLS 1.2
	"no cipher suite":          "cipher",  // none in common, for example only RSA key exchange
	"":                         "other",   // for example the client has closed the connection
}

// serverErrors counts and logs the TLS handshakes that failed, and what net/http writes only to its ErrorLog. Safe for
// concurrent use.
type serverErrors struct {
	log        *slog.Logger
	handshakes *prometheus.CounterVec

	// perSource are loggers that write one line a minute. A source address always has the same one.
	perSource [pages.MaxGuessers]*slog.Logger
	seed      maphash.Seed
}

// newServerErrors registers the metrics.
func newServerErrors(log *slog.Logger, registry prometheus.Registerer) *serverErrors {
	e := &serverErrors{log: log, seed: maphash.MakeSeed()}
	for i := range e.perSource {
		e.perSource[i] = accesslog.Limited(log, time.Minute)
	}
	e.handshakes = counters(registry, "billbridge_tls_handshake_failures_total",
		"TLS handshakes that failed. A connection that is closed before the first message does not count.",
		"reason", append(slices.Collect(maps.Values(handshakeReasons)), certificate)...)
	return e
}

// failedHandshake is the function of [framing.Options]. What is not TLS gets an answer in HTTP.
func (s *Server) failedHandshake(c *tls.Conn, err error) {
	text := err.Error()
	if c.ConnectionState().Version == 0 && !strings.HasPrefix(text, "tls: ") {
		return // nothing has come, as from a health check, or only a part of the first message
	}
	from, _ := s.limits().Peer(c.RemoteAddr().String())
	s.errors.handshake(from, err)
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil {
		answer := s.gateway.NeedsTLS()
		_, _ = fmt.Fprintf(plain.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\n"+
			"Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		// If it were closed with unread bytes, the client would get a reset in place of the answer.
		_ = plain.Conn.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.CopyN(io.Discard, plain.Conn, 64<<10)
	}
}

// proxyHeaders are the first bytes of the two versions of the PROXY protocol, which the gateway does not read.
var proxyHeaders = []string{"PROXY", "\r\n\r\n\x00"}

// handshake counts and logs a handshake that failed. The errors of crypto/tls say what the client has offered.
func (e *serverErrors) handshake(from netip.Prefix, err error) {
	message, reason := err.Error(), handshakeReasons[""]
	for text, is := range handshakeReasons {
		if text != "" && strings.Contains(message, text) {
			reason = is
		}
	}
	if httpconn.RefusedCertificate(err) {
		reason = certificate
	}
	plain := tls.RecordHeaderError{}
	if errors.As(err, &plain) && slices.Contains(proxyHeaders, string(plain.RecordHeader[:])) {
		message = "a header of the PROXY protocol came first: turn it off in the load balancer " +
			"(proxy_protocol, send-proxy)"
	}
	e.handshakes.WithLabelValues(reason).Inc()
	e.perSource[maphash.Comparable(e.seed, from)%pages.MaxGuessers].Warn("a TLS handshake failed",
		"address", pages.ShownSource(from), "reason", reason, "error", message[:min(len(message), 200)])
}

// logger returns an ErrorLog for a server.
func (e *serverErrors) logger() *log.Logger { return log.New(e, "", 0) }

// Write takes one message of net/http. The value of a panic may contain a part of a body: it is not logged.
func (e *serverErrors) Write(message []byte) (int, error) {
	switch text := string(bytes.TrimSpace(message)); {
	case strings.Contains(text, ": panic serving "):
		_, stack, _ := strings.Cut(text, "\n")
		e.log.Error("panic", "stack", stack)
	case strings.HasPrefix(text, "http: Accept error: "): // at most twice a second at first, later once
		e.log.Error("no connection can be accepted", "error", text)
	default:
		e.log.Debug(text)
	}
	return len(message), nil
}
