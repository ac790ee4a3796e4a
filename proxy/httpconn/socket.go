package httpconn

import (
	"errors"
	"net"
	"sync/atomic"
)

// A socket is a TCP connection. It remembers whether anything was written, and where the records of TLS end.
type socket struct {
	net.Conn
	read   func(p []byte) (int, error) // reads without waiting
	watch  func() bool                 // is called at a deadline; it returns true if there is a later one
	sent   atomic.Bool                 // a byte was written since this was set to false
	atOnce bool                        // Read does not wait
	tls    bool
	record record // of TLS, the last one that was read
}

func newSocket(c net.Conn) *socket { return &socket{Conn: c, read: atOnce(c)} }

func (s *socket) Write(p []byte) (int, error) {
	written := 0
	for {
		n, err := s.Conn.Write(p[written:])
		if n > 0 {
			s.sent.Store(true)
		}
		if written += n; err == nil || !errors.Is(err, ErrTimeout) || !s.watch() {
			return written, err
		}
	}
}

func (s *socket) Read(p []byte) (n int, err error) {
	if s.atOnce {
		n, err = s.read(p)
	} else if n, err = s.Conn.Read(p); n == 0 && errors.Is(err, ErrTimeout) && s.watch() {
		n, err = s.Conn.Read(p)
	}
	if s.tls && n > 0 {
		s.record.follow(p[:n])
	}
	return n, err
}

// A record is a TLS record of which a part has been read. crypto/tls does not show such a part, which can be the
// beginning of another reply.
type record struct {
	header [5]byte
	have   int // bytes of the header
	left   int // bytes behind the header
}

func (r *record) follow(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left, p = r.left-n, p[n:]
			continue
		}
		n := copy(r.header[r.have:], p)
		if r.have, p = r.have+n, p[n:]; r.have == len(r.header) {
			r.have, r.left = 0, int(r.header[3])<<8|int(r.header[4])
		}
	}
}

// begun reports whether a part of the record is still to come.
func (r *record) begun() bool { return r.have > 0 || r.left > 0 }

// errNothingYet is the error of a read that would have to wait. crypto/tls can go on after it, since it is temporary.
var errNothingYet net.Error = nothingYet{}

type nothingYet struct{}

func (nothingYet) Error() string   { return "nothing has arrived yet" }
func (nothingYet) Timeout() bool   { return true }
func (nothingYet) Temporary() bool { return true }
