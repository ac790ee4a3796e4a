package upstream

import (
	"crypto/tls"
	"sync"
	"sync/atomic"

	"billbridge/config"
)

// handshakes have the config of TLS for the next connection. A handshake resumes the last session, which costs less. A
// session is that of a client certificate, which a resumed one does not show again: each has a cache of its own. A
// change of the CA needs a reload, which makes a new upstream. Safe for concurrent use.
type handshakes struct {
	pair *config.KeyPair // nil without a client certificate

	mu     sync.Mutex
	config *tls.Config
	of     *tls.Certificate
	last   *lastSession
}

// A lastSession keeps the last session of one server.
type lastSession struct {
	session atomic.Pointer[tls.ClientSessionState]
}

func (l *lastSession) Get(string) (*tls.ClientSessionState, bool) {
	session := l.session.Load()
	return session, session != nil
}

func (l *lastSession) Put(_ string, session *tls.ClientSessionState) { l.session.Store(session) }

// A resumption is a lastSession of one handshake. If the server does not resume the session, that of the handshake is
// not kept, since it lacks what the next one begins with, see resuming.
type resumption struct {
	*lastSession
	refused atomic.Bool
}

func (r *resumption) Put(name string, session *tls.ClientSessionState) {
	if !r.refused.Load() {
		r.lastSession.Put(name, session)
	}
}

// resuming are the key exchanges of a handshake that resumes a session. That of the session has one that holds against
// quantum computers, too, and its secret is a part of that of each session after it; doing it again is half of the
// cost.
var resuming = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

func (u *Upstream) tlsConfig(name string) *tls.Config {
	c := &tls.Config{
		ServerName: name, DynamicRecordSizingDisabled: true, // a request is one record
		VerifyConnection: func(state tls.ConnectionState) error {
			u.certificateEnd.Store(state.PeerCertificates[0].NotAfter.Unix())
			return nil
		},
	}
	if u.Config.TLS == nil {
		return c
	}
	c.RootCAs = u.Config.TLS.Roots
	if u.handshakes.pair = u.Config.TLS.Client; u.handshakes.pair != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return u.handshakes.pair.Certificate()
		}
	}
	return c
}

// next returns the config for the next connection.
func (h *handshakes) next() *tls.Config {
	var now *tls.Certificate
	if h.pair != nil {
		now, _ = h.pair.Certificate()
	}
	h.mu.Lock()
	if h.last == nil || now != nil && now != h.of {
		h.of, h.last = now, new(lastSession)
	}
	c, last := h.config.Clone(), h.last
	h.mu.Unlock()
	c.ClientSessionCache = last
	if session := last.session.Load(); session != nil {
		verify, cache := c.VerifyConnection, &resumption{lastSession: last}
		c.CurvePreferences, c.ClientSessionCache = resuming, cache
		c.VerifyConnection = func(state tls.ConnectionState) error {
			if !state.DidResume { // the next handshake begins a session again
				cache.refused.Store(true)
				last.session.CompareAndSwap(session, nil)
			}
			return verify(state)
		}
	}
	return c
}
