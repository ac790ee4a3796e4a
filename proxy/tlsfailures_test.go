package proxy_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// Each kind of failed handshake has a line that says why, and is counted. A connection that says nothing, such as a health
// check, has neither.
func TestFailedHandshakesAreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("front")
	for name, c := range map[string]struct {
		client         *tls.Config // nil: no TLS
		reason, logged string
	}{
		"old version":   {&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "version", "only unsupported versions: [302 301]"},
		"RSA exchange":  {&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}, "cipher", "client offered: [2f"},
		"distrust":      {&tls.Config{ServerName: "127.0.0.1"}, "certificate", "remote error: tls: "},
		"plain request": {nil, "not_tls", "does not look like a TLS handshake"},
	} {
		parallel(t, name, func(t *testing.T) {
			p := newProcess(t, anyPort+"tls: "+a.pair("front")+"\n"+oneUpstream("v2", refusedURL))
			_ = p.open("").Close() // it says nothing
			for range 2 {
				if c.client == nil {
					got, err := rawBytes(p.Address(), nextCall(v2("read"))+strings.Repeat(" ", 60<<10))
					if err != nil { // a reset, which takes the answer from some clients
						t.Error(err)
					}
					if want := "\r\n\r\n" + `{"code":"ERROR","msg":"This port needs https.","message":"This port needs https.","data":null}`; !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.HasSuffix(got, want) {
						t.Error(got)
					}
					continue
				}
				if c, err := tls.Dial("tcp", p.Address(), c.client); err == nil {
					_ = c.Close()
					t.Error("the handshake succeeded")
				}
			}
			proxytest.Eventually(t, func() bool {
				return strings.Contains(p.metrics(), fmt.Sprintf("billbridge_tls_handshake_failures_total{reason=%q} 2\n", c.reason))
			}, func() string { return p.logs.String() + p.metrics() })
			got := p.logs.String()
			if strings.Count(got, "a TLS handshake failed") != 1 || !strings.Contains(got, fmt.Sprintf(`"address":"127.0.0.1","reason":%q`, c.reason)) || !strings.Contains(got, c.logged) {
				t.Error(got)
			}
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
