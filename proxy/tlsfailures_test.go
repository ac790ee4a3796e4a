package proxy_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// Each kind of failed handshake has a line that says why, and is counted. A connection that says nothing, such as a health
// check, has neither.
func TestFailedHandshakesAreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		client *tls.Config // nil: no TLS
		logged string
	}{
		"version":     {&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "only unsupported versions: [302 301]"},
		"cipher":      {&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}, "client offered: [2f"},
		"certificate": {&tls.Config{ServerName: "127.0.0.1"}, "remote error: tls: "},
		"not_tls":     {nil, "does not look like a TLS handshake"},
	} {
		parallel(t, reason, func(t *testing.T) {
			p := newAuthority(t).newProcess(oneUpstream("v2", refusedURL))
			_ = p.open("").Close() // it says nothing
			for range 2 {
				if c.client == nil {
					got, err := rawBytes(p.Address(), nextCall(v2("read"))+strings.Repeat(" ", 60<<10))
					must(t, err) // a reset, which takes the answer from some clients
					equal(t, regexp.MustCompile(`(?s)^HTTP/1.1 400 .*\r\n\r\n\{"code":"ERROR","msg":"This port needs https.","message":"This port needs https.","data":null\}$`).MatchString(got), true, got)
				} else if conn, err := tls.Dial("tcp", p.Address(), c.client); err == nil {
					_ = conn.Close()
					t.Error("the handshake succeeded")
				}
			}
			proxytest.Eventually(t, func() bool {
				return strings.Contains(p.metrics(), fmt.Sprintf("billbridge_tls_handshake_failures_total{reason=%q} 2\n", reason))
			}, func() string { return p.logs.String() + p.metrics() })
			got := p.logs.String()
			equal(t, strings.Count(got, "a TLS handshake failed"), 1, got)
			checkText(t, got, fmt.Sprintf(`"address":"127.0.0.1","reason":%q`, reason), c.logged)
			equal(t, strings.Count(p.metrics(), "billbridge_tls_handshake_failures_total{"), 5)
		})
	}
}

// rawBytes sends bytes without TLS, and reads until the gateway closes the connection.
func rawBytes(address, sent string) (string, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err = io.WriteString(c, sent); err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	got, readErr := io.ReadAll(c)
	return string(got), errors.Join(err, readErr)
}
