package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// An authority issues certificates for 127.0.0.1 and keeps the files of a test.
type authority struct {
	t      testing.TB
	dir    string
	ca     proxytest.Certificate
	pool   *x509.CertPool
	writes int
	serial int64 // of the last certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool(), ca: proxytest.NewCertificate(t, "test", nil)}
	a.pool.AppendCertsFromPEM(a.ca.Cert)
	a.write("ca.pem", a.ca.Cert)
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// write replaces a file as a renewal does: by a rename, with a newer time.
func (a *authority) write(name string, data []byte) {
	a.t.Helper()
	proxytest.WriteFile(a.t, a.path(name+".new"), data)
	a.writes++
	stamp := time.Now().Add(time.Duration(a.writes) * time.Second)
	must(a.t, os.Chtimes(a.path(name+".new"), stamp, stamp))
	must(a.t, os.Rename(a.path(name+".new"), a.path(name)))
}

// issue writes name.crt and name.key.
func (a *authority) issue(name string) {
	a.t.Helper()
	c := proxytest.NewCertificate(a.t, name, &a.ca)
	a.write(name+".crt", c.Cert)
	a.write(name+".key", c.Key)
	a.serial = c.Serial
}

func (a *authority) pair(name string) string {
	return fmt.Sprintf("{cert: %q, key: %q}", a.path(name+".crt"), a.path(name+".key"))
}

// Partners can use HTTP/1.1 and HTTP/2. After the files are replaced, the next handshake uses the new certificate. Package
// config has the other changes of files. The listener of callbacks has the same certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := a.newProcess(oneUpstream("v2", newBackend(t, newService()).url), callbackListener(t))
	calls := 0
	call := func(h2 bool) (proto string, got int64) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool}, Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(!h2)
		transport.Protocols.SetHTTP2(h2)
		client := newClient(t, transport)
		defer client.CloseIdleConnections()
		calls++
		q := legacy("create").with("billId", fmt.Sprintf("1234567890%010d", calls))
		res, err := client.Post("https://"+p.Address()+q.path(), "application/json", strings.NewReader(q.body()))
		must(t, err)
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer{res.StatusCode, res.Header, string(body)}.check(t, "legacy", success)
		return res.Proto, res.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	for range 2 {
		a.issue("front")
		for h2, want := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
			proto, got := call(h2)
			equal(t, proto, want)
			equal(t, got, a.serial, "the certificate of call", calls)
		}
	}
	client := newClient(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool}})
	got, err := doRequest(client, http.MethodPost, "https://"+p.CallbackAddress()+"/callback/"+strings.Repeat("0f", 16), "{}")
	must(t, err)
	got.is(t, 404)
	if res, err := p.client.Post(p.url+"/bill", "application/json", strings.NewReader("{}")); err == nil {
		equal(t, res.StatusCode, 400)
		_ = res.Body.Close()
	}
}

// The upstream has a certificate of a private CA and requires a client certificate. To an upstream whose certificate
// is not trusted nothing is sent, so a write is refused and its outcome is not unknown.
func TestR43_UpstreamTLS(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	a.issue("back")
	a.issue("us")
	pair, err := tls.LoadX509KeyPair(a.path("back.crt"), a.path("back.key"))
	must(t, err)
	service := newService()
	var shown string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = r.TLS.PeerCertificates[0].Subject.CommonName
		equal(t, r.ProtoMajor, 1, r.Proto)
		service.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true // offered, but must not be used: HTTP/2 can send a call again by itself
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	with := func(section string) *gateway {
		return newGateway(t, fmt.Sprintf("upstreams: {up: {form: v2, url: %q, tls: {%s}}}\n", server.URL, section))
	}
	ca, us := fmt.Sprintf("ca: %q", a.path("ca.pem")), "client: "+a.pair("us")
	trusted := with(ca + ", " + us)
	trusted.expect(legacy("create"), success)
	for _, kind := range []string{"client", "upstream"} {
		trusted.checkMetrics(fmt.Sprintf(`billbridge_certificate_not_after_seconds{kind=%q,name="up"} %g`, kind, float64(pair.Leaf.NotAfter.Unix())))
	}
	equal(t, shown, "us")
	for _, section := range []string{fmt.Sprintf("ca: %q", stranger.path("ca.pem")), us} { // an unknown CA, and the system roots
		b := with(section)
		play(b, "refused legacy create,resend,read,destroy,cancel | !127.0.0.1 | !x509")
		checkText(t, b.logs.String(), `"reason":"refused: the certificate is signed by an unknown authority"`)
	}
}

// An upstream that refuses the client certificate has read no call, so nothing was sent. With TLS 1.3 its alert can arrive
// after the request has left.
func TestR43_UpstreamThatRefusesTheClientCertificate(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	a.issue("back")
	stranger.issue("us")
	pair, err := tls.LoadX509KeyPair(a.path("back.crt"), a.path("back.key"))
	must(t, err)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for why, client := range map[string]string{"certificate": "", "certificate authority": ", client: " + stranger.pair("us")} {
			parallel(t, tls.VersionName(version)+" "+why, func(t *testing.T) {
				service := newService()
				server := httptest.NewUnstartedServer(service)
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				server.TLS = &tls.Config{
					Certificates: []tls.Certificate{pair}, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: version, MaxVersion: version,
				}
				server.StartTLS()
				t.Cleanup(server.Close)
				b := newGateway(t, fmt.Sprintf("upstreams: {up: {form: v2, url: %q, tls: {ca: %q%s}}}\n", server.URL, a.path("ca.pem"), client))
				for range 5 {
					play(b, "refused legacy create,resend,read,destroy,cancel")
				}
				checkText(t, b.logs.String(), `"reason":"refused: the server refused the handshake: `)
				equal(t, len(service.Calls()), 0)
			})
		}
	}
}

// newProcess starts a gateway with a certificate of the authority.
func (a *authority) newProcess(more ...string) *process {
	a.t.Helper()
	a.issue("front")
	return newProcess(a.t, anyPort+"tls: "+a.pair("front")+"\n"+strings.Join(more, ""))
}

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
					equal(t, regexp.MustCompile(`(?s)^HTTP/1.1 400 .*\r\n\r\n\{"code":"ERROR","data":null,"message":"This port needs https.","msg":"This port needs https."\}$`).MatchString(got), true, got)
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

// A client that does not accept the certificate says so by an alert. In TLS 1.3 some encrypt it, and OpenSSL does not. Its
// name is in the log either way.
func TestR43_AlertsOfCallersAreNamed(t *testing.T) {
	t.Parallel()
	for _, alert := range []tls.AlertError{42, 43, 44, 45, 46, 48, 49, 116} {
		parallel(t, alert.Error(), func(t *testing.T) {
			p := newAuthority(t).newProcess(oneUpstream("v2", refusedURL))
			c, err := net.Dial("tcp", p.Address())
			must(t, err)
			if tls.Client(&openSSLAlert{c, byte(alert)}, &tls.Config{ServerName: "127.0.0.1"}).Handshake() == nil {
				t.Error("the handshake succeeded")
			}
			_ = c.Close()
			proxytest.Eventually(t, func() bool {
				return strings.Contains(p.metrics(), "billbridge_tls_handshake_failures_total{reason=\"certificate\"} 1\n")
			}, func() string { return p.logs.String() + p.metrics() })
			checkText(t, p.logs.String(), fmt.Sprintf(`"reason":"certificate","error":"remote error: %s"`, alert.Error()))
		})
	}
}

// openSSLAlert is the connection of a client of TLS 1.3 that sends an alert in clear text in place of an encrypted one.
type openSSLAlert struct {
	net.Conn
	alert byte
}

func (c *openSSLAlert) Write(records []byte) (int, error) {
	const encrypted = 23 // the type of a record
	sent := []byte{}
	for rest := records; len(rest) > 0; {
		record := rest[:5+int(rest[3])<<8+int(rest[4])]
		if rest = rest[len(record):]; record[0] == encrypted {
			record = []byte{21, 3, 3, 0, 2, 2, c.alert}
		}
		sent = append(sent, record...)
	}
	_, err := c.Conn.Write(sent)
	return len(records), err
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
