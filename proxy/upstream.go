package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
	trip      http.RoundTripper // the transport; a test puts its own here
	userAgent []string
	inFlight  prometheus.Gauge
	metrics   *metrics

	connections *connections
}

func newUpstream(c *config.Upstream, userAgent string, m *metrics) *upstream {
	t := &http.Transport{
		// A dial goes on when its call has given up, and takes up a connection for as long: so it has a limit of its own.
		DialContext:         (&net.Dialer{KeepAlive: 30 * time.Second, LocalAddr: c.Local.TCP(), Timeout: time.Duration(c.Wait)}).DialContext,
		TLSHandshakeTimeout: time.Duration(c.Wait),
		MaxConnsPerHost:     c.Connections,
		MaxIdleConnsPerHost: c.Connections,
		// Shorter than what common servers keep: a call on a connection that the other side is just closing
		// would be a write with an unknown outcome.
		IdleConnTimeout: 30 * time.Second,
		// We read compressed replies ourselves: the limit counts decompressed bytes, and none are asked for.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		// HTTP/2 would send a request again by itself after a GOAWAY, also one that has left.
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
		connections: newConnections(c, m),
	}
}

// target is the URL of one path. Scheme, host and prefix come from the config, the rest from the table: nothing
// of a request gets into it.
func (u *upstream) target(path string) *url.URL {
	t := *u.config.Address.URL
	t.Path, t.RawPath = t.Path+path, ""
	return &t
}

// Values that every call shares. Nothing may modify them; the transport does not.
var (
	jsonType     = []string{"application/json"}
	identityOnly = []string{"identity"}
)

// post sends one call and reads the whole reply into buf; it returns the reply's status and header. Nothing
// is sent a second time once a byte of it may have left. Where there is no answer the error is a *broken.
//
// The call waits for a connection for upstreams.NAME.wait at most. Its timeout starts when it has one: a call that waited
// is not cut off after it was sent.
func (u *upstream) post(ctx context.Context, to *url.URL, requestID string, p *payload, buf *bytes.Buffer, limit int64) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	waiting := u.connections.wait()
	defer waiting.end()
	noConnection := func() { p.giveUp(cancel, errNoConnection) }
	deadline := time.AfterFunc(time.Duration(u.config.Wait), noConnection)
	defer func() { deadline.Stop() }()
	if p.while != nil {
		defer context.AfterFunc(p.while, func() { p.giveUp(cancel, errGivenUp) })()
	}
	p.onConnected = func() {
		waiting.end()
		deadline.Stop()
		deadline = time.AfterFunc(time.Duration(u.config.Timeout), func() { cancel(errLate) })
	}
	p.onLost = func() { // it waits again
		deadline.Stop()
		deadline = time.AfterFunc(time.Duration(u.config.Wait), noConnection)
		if p.while != nil && p.while.Err() != nil { // which came when the call seemed to be on its way
			p.giveUp(cancel, errGivenUp)
		}
	}
	release, err := u.connections.acquire(ctx, p.partner, p.own)
	if err != nil {
		return nil, u.failed(ctx, p, &broken{reason: "busy", text: "no connection to it was free within " + u.config.Wait.String()})
	}
	defer release()
	u.inFlight.Inc()
	defer u.inFlight.Dec()
	response, err := u.exchange(ctx, to, requestID, p, buf, limit)
	if err == nil {
		return response, nil
	}
	var b *broken
	if !errors.As(err, &b) {
		b = &broken{reason: "reset", text: "the connection broke off"}
		if !p.sent() {
			b = &broken{reason: "refused", text: "it cannot be reached"}
		}
		if context.Cause(ctx) == errNoConnection {
			b.text += " within " + u.config.Wait.String()
		}
	}
	return nil, u.failed(ctx, p, b)
}

// failed counts a call without an answer. The reason why the call's context ended comes before b.
func (u *upstream) failed(ctx context.Context, p *payload, b *broken) *broken {
	switch cause := context.Cause(ctx); {
	case cause == errGivenUp:
		return &broken{reason: "given up", text: "it could not be sent in time"}
	case cause == errLate:
		b = &broken{reason: "timeout", text: "no answer within " + u.config.Timeout.String()}
	case errors.Is(cause, context.DeadlineExceeded): // of one who asks for the gateway's own sake
		b = &broken{reason: "timeout", text: "no answer in the time for it"}
	}
	b.sent = p.sent()
	if !errors.Is(context.Cause(ctx), context.Canceled) { // else it is the caller of a read who went away
		u.metrics.upstreamErrors.WithLabelValues(u.config.Name, b.reason).Inc()
	}
	return b
}

func (u *upstream) exchange(ctx context.Context, to *url.URL, requestID string, p *payload, buf *bytes.Buffer, limit int64) (*http.Response, error) {
	// An allow-list, not a copy: no header of the caller reaches an upstream but its sane request id
	// (RFC 9110 7.6.1 needs no more).
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
	if response.StatusCode < 200 || response.StatusCode >= 300 && response.StatusCode < 400 {
		return nil, &broken{reason: "status", text: fmt.Sprintf("it answered with HTTP %d, which is not followed", response.StatusCode)}
	}
	return response, readReply(response, buf, limit)
}

// readReply reads the body whole, decompressed, and no more than limit of it.
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
		return &broken{reason: "not_json", text: "its reply has a content coding that was not asked for"}
	}
	_, err := buf.ReadFrom(io.LimitReader(body, limit+1))
	switch {
	case int64(buf.Len()) > limit:
		return &broken{reason: "too_large", text: fmt.Sprintf("its reply is larger than %d bytes", limit)}
	case err != nil && body != io.Reader(response.Body):
		return unzipError(err)
	}
	return err
}

// unzipError tells a reply that is broken as gzip from one that broke off on the wire.
func unzipError(err error) error {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &broken{reason: "not_json", text: "its reply is not the gzip that it says it is"}
}

// reasons are the labels of billbridge_upstream_errors_total.
var reasons = []string{"refused", "timeout", "reset", "status", "not_json", "too_large"}

// broken is a call without an answer. reason is one of reasons, or "given up" where the caller has ended it, which is not counted.
type broken struct {
	reason string
	text   string // for the caller and the log: no host, no address, no value
	detail string // for the log
	sent   bool   // whether any byte of the call may have left
}

func (b *broken) Error() string { return b.reason + ": " + b.text }

// noAnswer is a reply that came whole and from which no code can be read.
func (u *upstream) noAnswer(status int, err error) *broken {
	b := &broken{reason: "not_json", sent: true}
	if status >= 300 {
		b.reason = "status"
	}
	var why *translate.NoAnswer
	if errors.As(err, &why) {
		b.detail, b.text = why.Reason, fmt.Sprintf("its reply (HTTP %d) cannot be taken: %s", status, why.Reason)
	}
	u.metrics.upstreamErrors.WithLabelValues(u.config.Name, b.reason).Inc()
	return b
}
