package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"billbridge/proxy/store"
	"billbridge/translate"

	"code.dny.dev/ssrf"
)

// reason says why an attempt got no complete answer. It consists of fixed texts, as the errors of connections contain addresses, the
// resolver and what the partner sent.
func (s *settings) reason(err error) string {
	var (
		blocked *refused
		dns     *net.DNSError
		family  *net.AddrError
		step    *net.OpError
	)
	switch {
	case errors.As(err, &blocked) && errors.Is(err, ssrf.ErrProhibitedPort):
		return "its port is not one of those allowed here"
	case errors.As(err, &blocked):
		return "the host resolves to an address that is not called from here"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &dns):
		return "the host cannot be resolved: DNS failed"
	case errors.As(err, &family) && s.callbacks.LocalAddress.IsValid():
		return "the host has no " + s.family() + " address, the only ones that callbacks.local_address reaches"
	case errors.Is(err, syscall.EADDRNOTAVAIL) && s.callbacks.LocalAddress.IsValid():
		return "callbacks.local_address is not an address of this machine"
	}
	for _, of := range []struct {
		cause syscall.Errno
		text  string
	}{
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EPIPE, "connection reset"},
		{syscall.EHOSTUNREACH, "no route to the host"},
		{syscall.ENETUNREACH, "no route to the host"},
	} {
		if errors.Is(err, of.cause) {
			return of.text
		}
	}
	if text := reasonOfTLS(err); text != "" {
		return "TLS: " + text
	}
	within := time.Duration(s.callbacks.Timeout)
	switch {
	case errors.As(err, &step) && step.Op == "dial" && step.Timeout():
		return fmt.Sprintf("no connection within %s", min(dialWithin, within))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", within)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the end of the answer"
	case strings.Contains(err.Error(), "malformed HTTP"):
		return "the answer is not HTTP"
	}
	return "the connection failed"
}

func (s *settings) family() string {
	if s.callbacks.LocalAddress.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// reasonOfTLS is why a handshake failed, "" if it did not.
func reasonOfTLS(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		other     *tls.CertificateVerificationError
		step      *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return "the certificate is signed by an unknown authority"
	case errors.As(err, &host):
		return "the certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not yet valid"
	case errors.As(err, &invalid), errors.As(err, &other):
		return "the certificate is not valid"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		return "the server does not speak TLS on this port"
	case errors.As(err, &step) && step.Op == "remote error": // an alert, one of a fixed list
		return "the server refused the handshake: " + strings.TrimPrefix(step.Err.Error(), "tls: ")
	case strings.Contains(err.Error(), "TLS handshake timeout"):
		return fmt.Sprintf("no handshake within %s", dialWithin)
	case strings.HasPrefix(err.Error(), "tls: "):
		return "the handshake failed"
	}
	return ""
}

// reasonOf200 is why an answer with HTTP 200 is no success.
func (s *settings) reasonOf200(form translate.Form, answer []byte, code string) string {
	const but = "HTTP 200 but "
	switch {
	case code != "":
		return but + "code " + code
	case len(answer) == 0:
		return but + "an empty body"
	case s.rows.AnsweredCode(form, answer) != "":
		return but + "a code that cannot be shown"
	case !translate.IsJSON(answer):
		return but + "the body is not JSON"
	}
	return but + "no code in the body"
}

// answeredCode is the code of a partner's answer to a callback, "" if it has none that may be stored and shown. A partner may
// answer with its key or a phone number as the code.
func (s *settings) answeredCode(c store.Claimed, answer []byte) string {
	const (
		most  = 24 // characters; the longest code of the catalogue has 19
		short = 6  // characters; keys, phones and cards have more
	)
	code := s.rows.AnsweredCode(translate.Form(c.Form), answer)
	if len(code) > most || strings.ContainsFunc(code, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}) {
		return ""
	}
	if len(code) > short && (strings.Trim(code, "0123456789-.") == "" || bytes.Contains(c.Body, []byte(code)) || strings.Contains(c.URL, code)) {
		return ""
	}
	return code
}

// reasonOfStatus is why an answer with another status is no success.
func reasonOfStatus(status int) string {
	more := map[int]string{
		http.StatusGone:      "the partner wants no more attempts",
		http.StatusForbidden: "the partner refuses the caller",
	}[status]
	switch {
	case status >= 300 && status <= 399:
		more = "redirects are not followed"
	case status >= 200 && status <= 299:
		more = "200 is needed"
	}
	if more == "" {
		return fmt.Sprintf("HTTP %d", status)
	}
	return fmt.Sprintf("HTTP %d: %s", status, more)
}
