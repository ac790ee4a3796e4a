package framing

import (
	"crypto/tls"
	"net"
)

// lastRecord keeps the end of what a peer has sent. crypto/tls expects the encrypted alert of a client of TLS 1.3 that
// refuses the certificate; that of OpenSSL is not encrypted, and becomes the error "bad record MAC".
type lastRecord struct {
	net.Conn
	end [7]byte // the size of an alert that is not encrypted
}

func (c *lastRecord) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		read := p[max(n-len(c.end), 0):n]
		copy(c.end[:], c.end[len(read):])
		copy(c.end[len(c.end)-len(read):], read)
	}
	return n, err
}

// alertOr returns the alert with which the peer has ended the handshake as crypto/tls does, or err if there is none.
func (c *lastRecord) alertOr(err error) error {
	const alert, fatal = 21, 2
	if e := c.end; e[0] == alert && e[3] == 0 && e[4] == 2 && e[5] == fatal {
		return &net.OpError{Op: "remote error", Err: tls.AlertError(e[6])}
	}
	return err
}
