package proxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
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
		"old version":   {&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "version", `"offered":"TLS 1.1, TLS 1.0"`},
		"RSA exchange":  {&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}, "cipher", "no cipher suite supported"},
		"distrust":      {&tls.Config{ServerName: "127.0.0.1"}, "certificate", "remote error: tls: "},
		"plain request": {nil, "plain_http", "an HTTP request to an HTTPS port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t, anyPort+"tls: "+a.pair("front")+"\n"+oneUpstream("v2", refusedURL))
			silent, err := net.Dial("tcp", p.Address())
			if err != nil {
				t.Fatal(err)
			}
			_ = silent.Close()
			for range 2 {
				if c.client == nil {
					got, err := p.client.Post("http://"+p.Address()+"/bill/read", "application/json", strings.NewReader(newCall("v2", "read").body()+strings.Repeat(" ", 60<<10)))
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(got.Body)
					_ = got.Body.Close()
					if want := `{"code":"ERROR","msg":"this port needs https","message":"this port needs https","data":null}`; err != nil || got.StatusCode != http.StatusBadRequest || string(body) != want {
						t.Errorf("%d %s %v", got.StatusCode, body, err)
					}
					continue
				}
				if c, err := tls.Dial("tcp", p.Address(), c.client); err == nil {
					_ = c.Close()
					t.Error("the handshake succeeded")
				}
			}
			proxytest.Eventually(t, func() bool {
				return strings.Contains(p.admin("GET", "/metrics").body, fmt.Sprintf("billbridge_tls_handshake_failures_total{reason=%q} 2\n", c.reason))
			}, func() string { return p.logs.String() + p.admin("GET", "/metrics").body })
			got := p.logs.String()
			if strings.Count(got, "a TLS handshake failed") != 1 || !strings.Contains(got, fmt.Sprintf(`"address":"127.0.0.1","reason":%q`, c.reason)) || !strings.Contains(got, c.logged) {
				t.Error(got)
			}
			if n := strings.Count(p.admin("GET", "/metrics").body, "billbridge_tls_handshake_failures_total{"); n != 5 {
				t.Errorf("%d reasons", n)
			}
		})
	}
}
