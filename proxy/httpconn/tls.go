package httpconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// RefusedCertificate reports whether the error is an alert by which a peer ends the handshake because of our
// certificate. In TLS 1.3 that of a server arrives after the handshake, when a request may have left. The server has
// read none of it.
func RefusedCertificate(err error) bool {
	step, ok := errors.AsType[*net.OpError](err)
	return ok && step.Op == "remote error" && slices.ContainsFunc(certificateAlerts, func(a tls.AlertError) bool {
		return a.Error() == step.Err.Error() // the type of the alert is not exported
	})
}

// certificateAlerts are bad_certificate to certificate_unknown, unknown_ca, access_denied and certificate_required.
var certificateAlerts = []tls.AlertError{42, 43, 44, 45, 46, 48, 49, 116}

// ASCIIHost converts a host name that is not ASCII, for example in Hangul, as net/http does before it connects: by
// the Lookup profile. That also maps full-width digits, which can become an IP address. A name that is ASCII or
// cannot be converted is returned unchanged. So the guard checks the name that a connection would be made with.
func ASCIIHost(host string) string {
	ascii, err := idna.Lookup.ToASCII(host)
	isASCII := !strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 })
	if isASCII || err != nil || strings.Contains(host, ":") || !utf8.ValidString(host) {
		return host
	}
	return ascii
}

// ReasonOfTLS is why a handshake failed, "" if it did not. It does not name the server.
func ReasonOfTLS(err error) string {
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	unverified := IsA[*tls.CertificateVerificationError](err)
	step, ok := errors.AsType[*net.OpError](err)
	switch {
	case IsA[x509.UnknownAuthorityError](err):
		return "the certificate is signed by an unknown authority"
	case IsA[x509.HostnameError](err):
		return "the certificate is for another host"
	case unverified && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not yet valid"
	case unverified:
		return "the certificate is not valid"
	case IsA[tls.RecordHeaderError](err), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS on this port"
	case ok && step.Op == "remote error": // an alert, one of a fixed list
		text := "the server refused the handshake: " + strings.TrimPrefix(step.Err.Error(), "tls: ")
		if step.Err.Error() == tls.AlertError(40).Error() { // handshake_failure
			text += "; it may have no cipher with ECDHE"
		}
		return text
	case strings.HasPrefix(err.Error(), "tls: "):
		return "the handshake failed"
	}
	return ""
}

// IsA reports whether an error is of a type.
func IsA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
