package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/translate"

	"github.com/prometheus/client_golang/prometheus"
)

// An upstream is a billing backend and the connections to it. It is safe for concurrent use.
type upstream struct {
	config    *config.Upstream
	transport *http.Transport
	trip      http.RoundTripper // the transport, unless a test replaces it
	userAgent []string
	inFlight  prometheus.Gauge
	metrics   *metrics

	connections *connections
	breaker     *breaker
}

func newUpstream(c *config.Upstream, userAgent string, m *metrics, log *slog.Logger) *upstream {
	t := &http.Transport{
		// A dial needs its own timeout: it continues after its call was given up, and counts as a connection meanwhile.
		DialContext:         (&net.Dialer{KeepAlive: 30 * time.Second, LocalAddr: c.Local.TCP(), Timeout: time.Duration(c.Wait)}).DialContext,
		TLSHandshakeTimeout: time.Duration(c.Wait),
		MaxConnsPerHost:     c.Connections,
		MaxIdleConnsPerHost: c.Connections,
		// Shorter than the idle timeout of common servers: a write on a connection that the server is closing would have
		// an unknown outcome.
		IdleConnTimeout: 30 * time.Second,
		// The transport must not decompress: readReply does, and applies the limit to the decompressed bytes.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		// HTTP/1 only: after a GOAWAY, HTTP/2 sends a request again that the server may have processed.
		Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if c.TLS != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: c.TLS.Roots}
		if pair := c.TLS.Client; pair != nil {
			t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return pair.Certificate()
			}
		}
	}
	return &upstream{
		config: c, transport: t, trip: t, userAgent: []string{userAgent}, inFlight: m.inFlight.WithLabelValues(c.Name), metrics: m,
		connections: newConnections(c, m), breaker: newBreaker(c.Name, m, log),
	}
}

// target returns the URL of a path: scheme, host and path prefix come from the config.
func (u *upstream) target(path string) *url.URL {
	t := *u.config.Address.URL
	t.Path, t.RawPath = t.Path+path, ""
	return &t
}

// Header values that all calls share. They must not be modified; the transport does not modify them.
var (
	jsonType     = []string{"application/json"}
	identityOnly = []string{"identity"}
)

// post sends one call and reads the whole reply into buf. It returns the status and header of the reply. If there is no
// answer, the error is a *callError. A call is never sent again once a byte of it may have left.
//
// The call waits up to upstreams.NAME.wait for a connection. Its timeout starts when it has the connection, so that a wait
// does not shorten the time for the answer.
//
// While the breaker is open, nothing is sent.
func (u *upstream) post(ctx context.Context, to *url.URL, requestID string, p *payload, buf *bytes.Buffer, limit int64) (*http.Response, error) {
	permit, ok := u.breaker.enter(maphash.String(seed, p.partner), p.write)
	if !ok {
		return nil, u.failed(ctx, p, &callError{
			reason: "open", text: "many of the last calls to the upstream failed, so it is not called now", after: u.breaker.pause(),
		})
	}
	failure := &callError{reason: "reset", sent: true} // if send panics
	defer func() { permit.end(failure) }()
	ctx, cancel := permit.context(ctx)
	defer cancel()
	var response *http.Response
	if response, failure = u.send(ctx, to, requestID, p, buf, limit); failure != nil {
		return nil, failure
	}
	return response, nil
}

// send makes the call. The breaker has let it through.
func (u *upstream) send(ctx context.Context, to *url.URL, requestID string, p *payload, buf *bytes.Buffer, limit int64) (*http.Response, *callError) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	waiting := u.connections.startWait()
	defer waiting.end()
	noConnection := func() { p.giveUp(cancel, errNoConnection) }
	deadline := time.AfterFunc(time.Duration(u.config.Wait), noConnection)
	defer func() { deadline.Stop() }()
	if p.sendCtx != nil {
		defer context.AfterFunc(p.sendCtx, func() { p.giveUp(cancel, errGivenUp) })()
	}
	p.onConnected = func() {
		waiting.end()
		deadline.Stop()
		deadline = time.AfterFunc(time.Duration(u.config.Timeout), func() { cancel(errTimeout) })
	}
	p.onLost = func() { // the call waits for a connection again
		deadline.Stop()
		deadline = time.AfterFunc(time.Duration(u.config.Wait), noConnection)
		if p.sendCtx != nil && p.sendCtx.Err() != nil { // it ended while the call had a connection, and giveUp did nothing
			p.giveUp(cancel, errGivenUp)
		}
	}
	release, err := u.connections.acquire(ctx, p.partner, p.noPartnerLimit)
	if err != nil {
		return nil, u.failed(ctx, p, &callError{reason: "busy", text: "no connection to the upstream was free within " + u.config.Wait.String()})
	}
	defer release()
	u.inFlight.Inc()
	defer u.inFlight.Dec()
	response, err := u.roundTrip(ctx, to, requestID, p, buf, limit)
	if err == nil {
		return response, nil
	}
	var failure *callError
	if !errors.As(err, &failure) {
		failure = &callError{reason: "reset", text: "the connection to the upstream was closed"}
		if !p.sent() {
			failure = &callError{reason: "refused", text: "the upstream is unreachable"}
		}
		if context.Cause(ctx) == errNoConnection {
			failure.text = "the upstream did not accept a connection within " + u.config.Wait.String()
		}
	}
	return nil, u.failed(ctx, p, failure)
}

// failed counts a call without an answer. If the call's context has ended, its cause replaces err.
func (u *upstream) failed(ctx context.Context, p *payload, err *callError) *callError {
	switch cause := context.Cause(ctx); {
	case cause == errGivenUp:
		return &callError{reason: "given up", text: "the call could not be sent in time"}
	case cause == errTimeout:
		err = &callError{reason: "timeout", text: "the upstream did not answer within " + u.config.Timeout.String()}
	case errors.Is(cause, context.DeadlineExceeded): // a call that the gateway makes for itself
		err = &callError{reason: "timeout", text: "the upstream did not answer in time", early: true}
	}
	err.sent = p.sent()
	if err.gone = errors.Is(context.Cause(ctx), context.Canceled); !err.gone {
		u.metrics.upstreamErrors.WithLabelValues(u.config.Name, err.reason).Inc()
	}
	return err
}

func (u *upstream) roundTrip(ctx context.Context, to *url.URL, requestID string, p *payload, buf *bytes.Buffer, limit int64) (*http.Response, error) {
	// The headers are an allow-list: of the caller's headers only a valid X-Request-Id reaches the upstream. So the
	// hop-by-hop headers of RFC 9110 7.6.1 need no removal.
	request := p.attach(ctx, &http.Request{
		Method: http.MethodPost, URL: to, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":    jsonType,
			"Accept":          jsonType,
			"Accept-Encoding": identityOnly,
			"User-Agent":      u.userAgent,
			"X-Request-Id":    {requestID},
		},
	})
	response, err := u.trip.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	// 3xx is never followed. The answer to a 205 has no body, and a status from 600 has no meaning to callers and to other proxies.
	if s := response.StatusCode; s < 200 || s >= 300 && s < 400 || s == http.StatusResetContent || s > 599 {
		return nil, &callError{reason: "status", text: fmt.Sprintf("the upstream answered with HTTP %d, which is not passed on", s)}
	}
	return response, readReply(response, buf, limit)
}

// readReply reads the whole body into buf and decompresses it. It returns an error if the result is longer than limit.
func readReply(response *http.Response, buf *bytes.Buffer, limit int64) error {
	var body io.Reader = response.Body
	switch strings.ToLower(response.Header.Get("Content-Encoding")) {
	case "", "identity":
	case "gzip", "x-gzip":
		unzip, err := gzip.NewReader(response.Body)
		if err != nil {
			return unzipError(err)
		}
		body = unzip
	default:
		return &callError{reason: "not_json", text: "the upstream's reply has an unsupported Content-Encoding"}
	}
	_, err := buf.ReadFrom(io.LimitReader(body, limit+1))
	switch {
	case int64(buf.Len()) > limit:
		return &callError{reason: "too_large", text: fmt.Sprintf("the upstream's reply is larger than %d bytes", limit)}
	case err != nil && body != io.Reader(response.Body):
		return unzipError(err)
	}
	return err
}

// unzipError returns a network error as it is, and any other error as a *callError about invalid gzip.
func unzipError(err error) error {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &callError{reason: "not_json", text: "the upstream's reply is not valid gzip"}
}

// errorReasons are the values of the label reason of billbridge_upstream_errors_total.
var errorReasons = []string{"refused", "timeout", "reset", "status", "not_json", "too_large", "busy", "open"}

// A callError is a call without an answer. reason is a label of billbridge_upstream_errors_total, or "given up", which is
// not counted.
type callError struct {
	reason string
	text   string        // for the caller and the log; it has no host, address or value
	detail string        // for the log
	sent   bool          // whether a byte of the call may have left
	gone   bool          // the caller of a read has disconnected
	early  bool          // the call ended before the upstream's timeout
	after  time.Duration // when the upstream may be called again; 0 if not known
}

func (e *callError) Error() string { return e.reason + ": " + e.text }

// noAnswer counts a reply that arrived whole and has no code that can be read.
func (u *upstream) noAnswer(status int, err error) *callError {
	failure := &callError{reason: "not_json", sent: true}
	if status >= 300 {
		failure.reason = "status"
	}
	var cause *translate.UnusableReply
	if errors.As(err, &cause) {
		failure.detail, failure.text = cause.Reason, fmt.Sprintf("the upstream's reply (HTTP %d) is invalid: %s", status, cause.Reason)
	}
	u.metrics.upstreamErrors.WithLabelValues(u.config.Name, failure.reason).Inc()
	return failure
}
