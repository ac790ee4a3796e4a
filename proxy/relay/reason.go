package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	"billbridge/config"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/store"
	"billbridge/translate"

	"code.dny.dev/ssrf"
)

// reason says why an attempt got no complete answer. It consists of fixed texts, as the errors of connections contain
// addresses, the resolver and what the partner sent.
func (s *settings) reason(err error) string {
	blocked := httpconn.IsA[*refused](err)
	dns, unresolved := errors.AsType[*net.DNSError](err)
	number, system := errors.AsType[syscall.Errno](err)
	within := time.Duration(s.callbacks.Timeout)
	step, ok := errors.AsType[*net.OpError](err)
	switch {
	case blocked && errors.Is(err, ssrf.ErrProhibitedPort):
		return "its port is not one of those allowed here"
	case blocked:
		return "the host resolves to an address that is not called from here"
	case unresolved && dns.IsNotFound:
		return "no such host"
	case unresolved:
		return "the host cannot be resolved: DNS failed"
	case system:
		return number.Error()
	}
	if text := httpconn.ReasonOfTLS(err); text != "" {
		return "TLS: " + text
	}
	switch {
	case strings.Contains(err.Error(), "TLS handshake timeout"):
		return fmt.Sprintf("TLS: no handshake within %s", dialWithin)
	case ok && step.Op == "dial" && step.Timeout():
		return fmt.Sprintf("no connection within %s", config.Duration(min(dialWithin, within)))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", config.Duration(within))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the end of the answer"
	case strings.Contains(err.Error(), "malformed HTTP"):
		return "the answer is not HTTP"
	}
	return "the connection failed"
}

// reasonOf2xx is why an answer with HTTP 2xx is no success, for an operator who may decide that it is one.
func reasonOf2xx(a answer, shown, code string) string {
	isJSON := translate.IsJSON(a.body)
	switch {
	case shown != "":
		return "code " + shown
	case len(a.body) == 0:
		return "an empty body"
	case code != "":
		return "a code that cannot be shown"
	case !isJSON && a.encoding != "":
		return "the body is not JSON, and " + a.encoding
	case !isJSON:
		return "the body is not JSON"
	case a.encoding != "":
		return "no code in the body, which is " + a.encoding
	}
	return "no code in the body"
}

// code24 is a code that may be shown. The longest one of the catalogue has 19 characters.
var code24 = regexp.MustCompile(`^[\w.-]{1,24}$`)

// answeredCode is the code of a partner's answer to a callback, "" if it may not be stored and shown. A partner may
// answer with its key or a phone number as the code.
func answeredCode(c store.Claimed, code string) string {
	const short = 6 // characters; keys, phones and cards have more
	secret := strings.Trim(code, "0123456789-.") == "" ||
		bytes.Contains(c.Body, []byte(code)) || strings.Contains(c.URL, code)
	if !code24.MatchString(code) || len(code) > short && secret {
		return ""
	}
	return code
}

// ofStatus is the outcome of an answer with a status, and why it is no success.
func ofStatus(status int) (outcome, reason string) {
	more := ""
	switch {
	case status == http.StatusGone:
		outcome, more = gone, ": the partner wants no more attempts"
	case status == http.StatusForbidden:
		outcome, more = forbidden, ": the partner refuses the caller"
	case status/100 == 3:
		outcome, more = redirected, ": redirects are not followed"
	default:
		outcome = badStatus
	}
	return outcome, fmt.Sprintf("HTTP %d%s", status, more)
}
