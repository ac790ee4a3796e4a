package upstream

import (
	"crypto/tls"
	"sync"

	"billbridge/config"
)

// handshakes have the config of TLS for the next connection. A handshake resumes the last session, which costs less. A
// session is that of a client certificate, which a resumed one does not show again: each has a cache of its own. A change
// of the CA needs a reload, which makes a new upstream. Safe for concurrent use.
type handshakes struct {
	pair *config.KeyPair // nil without a client certificate

	mu     sync.Mutex
	config *tls.Config
	of     *tls.Certificate
}

func (u *Upstream) tlsConfig(name string) *tls.Config {
	c := &tls.Config{
		ServerName: name, DynamicRecordSizingDisabled: true, // a request is one record
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
		VerifyConnection: func(state tls.ConnectionState) error {
			u.certificateEnd.Store(state.PeerCertificates[0].NotAfter.Unix())
			return nil
		},
	}
	if u.config.TLS == nil {
		return c
	}
	c.RootCAs = u.config.TLS.Roots
	if u.handshakes.pair = u.config.TLS.Client; u.handshakes.pair != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return u.handshakes.pair.Certificate()
		}
	}
	return c
}

// next returns the config for the next connection.
func (h *handshakes) next() *tls.Config {
	if h.pair == nil {
		return h.config
	}
	now, err := h.pair.Certificate()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && now != h.of {
		h.config, h.of = h.config.Clone(), now
		h.config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	return h.config
}
