// Package framing checks how requests are framed before net/http reads them. net/http takes a request with both
// Content-Length and Transfer-Encoding and drops the length before a handler sees it; a proxy in front that counts by
// the length then disagrees with the gateway about where the next request begins (requirements R09 and R11).
//
//	listener = framing.Listen(listener, framing.Options{Refused: count})
//	err = server.Serve(listener)
//
// A connection of such a listener looks at the bytes of each head, chunk size and trailer on their way to net/http, and
// skips bodies. It removes one empty line behind a body. When it finds one of the [Reasons], it passes on a line that
// net/http refuses in place of the rest: net/http answers 400, after the answers to earlier requests, and closes the
// connection.
package framing

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// Reasons are why a request is refused.
var Reasons = []string{
	bareLF, bareCR, foldedLine, lengthAndEncoding, twoLengths, encodingIn10, otherEncoding, chunkSize, version, connect,
	malformedLine, longLine, notHTTP2, ProxyProtocol,
}

// ProxyProtocol is the reason of a connection that begins with a header of the PROXY protocol, which is not read.
const ProxyProtocol = "proxy_protocol"

// The reasons, as the metric has them.
const (
	bareLF            = "bare_lf"             // a line ends without CR
	bareCR            = "bare_cr"             // a CR inside a line
	foldedLine        = "folded_line"         // a header line begins with white space
	lengthAndEncoding = "length_and_encoding" // Content-Length and Transfer-Encoding
	twoLengths        = "two_lengths"         // Content-Length twice
	encodingIn10      = "encoding_in_1.0"     // Transfer-Encoding in HTTP/1.0, which net/http ignores
	otherEncoding     = "other_encoding"      // a Transfer-Encoding that is not chunked, once
	chunkSize         = "chunk_size"          // a size that is not only hexadecimal digits, or a chunk that is longer
	version           = "version"             // neither HTTP/1.0 nor HTTP/1.1
	connect           = "connect"             // the method CONNECT
	malformedLine     = "malformed_line"      // no request line, no header, or a length that is not at most 18 digits
	longLine          = "long_line"           // a line longer than any that net/http takes
	notHTTP2          = "not_http2"           // HTTP/2 was agreed on, but its preface does not come first
)

// Options say how a listener checks its connections. Its functions are called concurrently.
type Options struct {
	TLS     *tls.Config                        // nil: no TLS. NextProtos is set by Listen
	Refused func(peer net.Addr, reason string) // is called once for a connection that is refused; nil: nothing is

	// Failed is called for a TLS handshake that fails, before the connection is closed; nil: nothing is. An alert of
	// the peer is an error as crypto/tls returns it, also if it came in clear text.
	Failed func(c *tls.Conn, err error)

	// IdleAfter is how long a connection waits for its next request in a goroutine of the server, before it waits in
	// one that needs less memory (see [Idle]). 0: it always waits in the server's.
	IdleAfter time.Duration

	// Admit says whether a connection may be opened; if not, it is closed at once. release is called when it has been
	// closed. nil: all may.
	Admit func(peer net.Addr) (release func(), ok bool)
}

// Listen returns a listener whose connections check the framing of HTTP/1. It serves TLS itself, where o.TLS is set,
// since the bytes must be checked after they are decrypted: a server serves it with Serve, and must have
// UnencryptedHTTP2 among its Protocols to serve HTTP/2.
func Listen(l net.Listener, o Options) net.Listener {
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		o.TLS.NextProtos = []string{"h2", "http/1.1"}
	}
	return &listener{
		Listener: l, options: o,
		accepted: make(chan accepted), closed: make(chan struct{}), idle: map[*conn]struct{}{},
	}
}

type listener struct {
	net.Listener
	options Options

	accepting sync.Once
	accepted  chan accepted
	closing   sync.Once
	closed    chan struct{}

	mu       sync.Mutex
	idle     map[*conn]struct{} // those that wait for their next request without the server
	wentIdle int                // how many have begun to, since memory was last returned to the system
	freeing  bool               // it will be returned soon
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// Accept returns a new connection, or an idle one whose next request has begun. If a new connection has a TLS
// handshake, it is made by the first Read or Write.
func (l *listener) Accept() (net.Conn, error) {
	l.accepting.Do(func() { go l.acceptNew() })
	a := <-l.accepted
	return a.conn, a.err
}

// acceptNew accepts new connections, until an error after which a server accepts no more.
func (l *listener) acceptNew() {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			l.accepted <- accepted{err: err}
			if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() {
				continue
			}
			return
		}
		release := func() {}
		if l.options.Admit != nil {
			admitted, ok := l.options.Admit(raw.RemoteAddr())
			if !ok {
				_ = raw.Close()
				continue
			}
			release = sync.OnceFunc(admitted)
		}
		if tcp, ok := raw.(*net.TCPConn); ok { // Linux would hold up to 4 MiB of an answer that nobody reads
			_ = tcp.SetWriteBuffer(64 << 10)
		}
		c := l.newConn(raw, nil, release)
		if l.options.TLS != nil {
			c.last = &lastRecord{Conn: raw}
			c.tls = tls.Server(c.last, l.options.TLS)
			c.Conn = c.tls
		}
		l.accepted <- accepted{conn: c}
	}
}

func (l *listener) newConn(below net.Conn, tls *tls.Conn, release func()) *conn {
	return &conn{Conn: below, tls: tls, listener: l, release: release}
}

// conn is one connection. Like any connection it may be read and written by two goroutines.
type conn struct {
	net.Conn
	tls      *tls.Conn   // nil without TLS
	last     *lastRecord // below tls
	listener *listener
	release  func() // may be called more than once

	waiting waiting

	begun   bool
	http2   bool
	scanner scanner
	preface int    // bytes of the HTTP/2 preface that have come
	ended   bool   // the request was refused
	pending string // what is to be read after that
}

// malformed is what net/http reads in place of what is refused. Wherever it stands, in a head, a chunk size, a trailer
// or after a chunk, it makes the request malformed: it has no line that ends a head before one that is no header.
const malformed = "\x00\r\n\x00\r\n\r\n"

// Read reads what the peer has sent, up to what is refused.
func (c *conn) Read(p []byte) (int, error) {
	if c.ended {
		n := copy(p, c.pending)
		if c.pending = c.pending[n:]; n > 0 || len(p) == 0 {
			return n, nil
		}
		return 0, io.EOF
	}
	n, err := c.read(p)
	failed := c.listener.options.Failed
	if err != nil && failed != nil && c.tls != nil && !c.tls.ConnectionState().HandshakeComplete {
		c.ended = true // net/http reads again after some errors
		failed(c.tls, c.last.alertOr(err))
		return 0, err
	}
	if !c.begun && n > 0 {
		c.begun = true
		c.http2 = c.tls != nil && c.tls.ConnectionState().NegotiatedProtocol == "h2"
	}
	passed, reason := 0, ""
	if c.http2 {
		passed, reason = c.scanPreface(p[:n])
	} else {
		passed, reason = c.scanner.scan(p[:n])
	}
	if reason == "" && passed == 0 && n > 0 && err == nil { // all that came belongs to no request
		return c.Read(p)
	}
	if reason == "" {
		return passed, err
	}
	if refused := c.listener.options.Refused; refused != nil {
		refused(c.RemoteAddr(), reason)
	}
	c.ended, c.pending = true, malformed
	if passed > 0 {
		// malformed is read apart: during a request net/http looks for the next byte, and cancels the request if it
		// finds the end.
		return passed, nil
	}
	return c.Read(p)
}

// scanPreface holds a connection on which HTTP/2 was agreed on to its preface: net/http would serve anything else as
// HTTP/1.
func (c *conn) scanPreface(p []byte) (passed int, reason string) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for i := 0; i < len(p) && c.preface < len(preface); i++ {
		if p[i] != preface[c.preface] {
			return i, notHTTP2
		}
		c.preface++
	}
	return len(p), ""
}

// Close closes the connection, unless it waits for its next request without the server now, or has done so.
func (c *conn) Close() error {
	if c.waiting.handedOver.Load() || c.startIdle() {
		return nil
	}
	c.release()
	return c.Conn.Close()
}

// CloseWrite ends the answers, so that net/http can wait until the peer has read a refusal.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// RequestRead reports whether net/http has all bytes of the request in progress, so that reading its body does not
// wait. It must be called by the goroutine of the request, before that has read the body to its end. It is not for
// HTTP/2.
func (c *conn) RequestRead() bool { return !c.ended && c.scanner.betweenRequests() }

// NetConn is the connection below, as that of [tls.Conn] is.
func (c *conn) NetConn() net.Conn { return c.Conn }
