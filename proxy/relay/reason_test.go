package relay_test

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// attempts returns the attempts at the only callback, without their times.
func (s *testRelay) attempts() []store.Attempt {
	s.t.Helper()
	all, err := s.store.Attempts(s.t.Context(), s.only().ID)
	must(s.t, err)
	return all
}

// reasons expects one attempt with a reason, whose text shows neither an address nor a secret.
func (s *testRelay) reasons(outcome, reason string) {
	s.t.Helper()
	all := s.attempts()
	if len(all) != 1 || all[0].Outcome != outcome || all[0].Reason != reason {
		s.t.Errorf("got %+v, want %s: %s", all, outcome, reason)
	}
	for _, a := range all {
		for _, secret := range []string{"127.0.0", "::1", "10.9.8.7", "canary", "localhost", key} {
			lacks(s.t, a.Reason+a.Code, secret, a)
		}
	}
}

// hangsUp is a server that does not speak HTTP, and its address.
func hangsUp(t *testing.T, does func(*net.TCPConn)) string {
	t.Helper()
	return proxytest.Listen(t, func(c net.Conn) { does(c.(*net.TCPConn)) })
}

// says is the address of a server that reads the beginning of a request, and says something.
func says(t *testing.T, text string) string {
	t.Helper()
	return hangsUp(t, func(c *net.TCPConn) { read(c); _, _ = io.WriteString(c, text) })
}

// read takes the first bytes of a request: a connection that is closed on what was not read is reset.
func read(c *net.TCPConn) { _, _ = c.Read(make([]byte, 64<<10)) }

// The reasons of failed attempts, over real connections.
func TestReasonsOfAttempts(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_ = closed.Close()
	const secret = "/canary?token=canary"
	for name, c := range map[string][2]string{
		"refused":                        {"http://" + closed.Addr().String(), "connection refused"},
		"closed":                         {"http://" + says(t, ""), "the connection was closed before the end of the answer"},
		"reset":                          {"http://" + hangsUp(t, func(c *net.TCPConn) { read(c); _ = c.SetLinger(0) }), "connection reset by peer"},
		"headers without end":            {"http://" + says(t, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X-Long: "+strings.Repeat("a", 1000)+"\r\n", 100)+"\r\n{}"), "the connection failed"},
		"early hints without end":        {"http://" + says(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\nX-Long: "+strings.Repeat("a", 1000)+"\r\n\r\n", 100)), "the connection failed"},
		"not HTTP":                       {"http://" + says(t, "SSH-2.0-canary\r\n"), "the answer is not HTTP"},
		"half an answer":                 {"http://" + says(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncanary"), "HTTP 200 but the connection was closed before the end of the answer"},
		"an authority that is not known": {secure.URL, "TLS: the certificate is signed by an unknown authority"},
		"no TLS":                         {"https" + strings.TrimPrefix(plain.URL, "http"), "TLS: the server does not speak TLS on this port"},
		"no TLS either":                  {"https://" + says(t, "SSH-2.0-canary\r\n"), "TLS: the server does not speak TLS on this port"},
		"an alert":                       {"https://" + says(t, "\x15\x03\x01\x00\x02\x02\x28"), "TLS: the server refused the handshake: handshake failure; it may have no cipher with ECDHE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestRelay(t, setup{callbacks: reachable})
			s.deliverable(c[0]+secret, "A")
			s.round()
			s.reasons("connection", c[1])
		})
	}
	s := newTestRelay(t, setup{callbacks: reachable})
	s.Carry(newTestRelay(t, setup{callbacks: ", ports: []"}).Transport()) // as if another machine had the name in the check
	s.deliverable("http://localhost:"+untouched(t)+secret, "A")
	s.round()
	s.reasons("address", "the host resolves to an address that is not called from here")
	s = newTestRelay(t, setup{callbacks: reachable})
	s.deliverable("http://127.0.0.1:9443"+secret, "A")
	s.Use(setup{}.config(t))
	s.round()
	s.reasons("address", "the address is not called: its port is not one of those allowed here")
}

// The reasons of errors that a test cannot cause: errors of net and crypto, with values that must not be shown.
func TestReasonsOfErrors(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for reason, err := range map[string]error{
		"no such host": dial(&net.DNSError{Err: "no such host", Name: "canary.example.com", Server: "10.9.8.7:53", IsNotFound: true}),
		"the host cannot be resolved: DNS failed":              dial(&net.DNSError{Err: "server misbehaving", Name: "canary.example.com", Server: "10.9.8.7:53"}),
		"TLS: the certificate is for another host":             &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"canary.internal"}}, Host: "x"}},
		"TLS: the certificate has expired or is not yet valid": &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "canary"}},
		"TLS: the certificate is not valid":                    &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}},
		"TLS: the handshake failed":                            fmt.Errorf("tls: canary"),
		"TLS: no handshake within 10s":                         fmt.Errorf("net/http: TLS handshake timeout"),
		"the connection failed":                                &url.Error{Op: "Post", URL: "https://canary.example.com/?token=canary", Err: fmt.Errorf("canary")},
	} {
		s := newTestRelay(t, setup{})
		s.carry(func(*http.Request) (*http.Response, error) { return nil, err })
		s.deliverable("https://partner.example.com/canary?token=canary", "A")
		s.round()
		s.reasons("connection", reason)
	}
}

// Answers of partners, as in the field notes: the outcome in either form, and the code and the reason that the operator gets. Each row has
// the status, the body, and what comes of it.
func TestReasonsOfAnswers(t *testing.T) {
	t.Parallel()
	words := strings.NewReplacer("DOCUMENTED", documented["legacy"], "PAYMENT", inV2, "KEY", key, "LONG", strings.Repeat(" ", 64<<10),
		"SEONG", "\xbc\xba", "GONG", "\xb0\xf8", "WESTERN", "\xe9", "BOM", "\ufeff", // 성공 in EUC-KR, é in ISO 8859-1
		"UTF16MARKED", "\xfe\xff\x00{\x00}", "UTF16", "{\x00\"\x00c\x00")
	for _, row := range proxytest.Rows(t, "testdata/answers.txt") {
		status, err := strconv.Atoi(row[0])
		must(t, err)
		for _, form := range forms {
			for _, success := range []string{"documented", "any-2xx"} {
				if success == "any-2xx" && status/100 != 2 { // it makes no difference
					continue
				}
				outcome, reason := row[2], row[4]
				if outcome == "answer" {
					reason += " (a success with callbacks.success: any-2xx)"
				}
				if success == "any-2xx" {
					outcome, reason = "delivered", ""
				}
				s, clock := waiting(t, form, ", success: "+success)
				s.Carry(always(status, words.Replace(row[1]), "Location", "https://canary.internal/"))
				equal(t, s.round(), 1)
				s.reasons(outcome, reason)
				state := map[string]store.State{"delivered": store.Delivered, "gone": store.Dead}[outcome]
				got := s.only()
				if got.LastStatus != status || got.State != cmp.Or(state, store.Waiting) || !got.LastAt.Equal(clock.now()) || s.attempts()[0].Code != row[3] {
					t.Errorf("%v %s %s: %+v %+v", row, form, success, got, s.attempts())
				}
				s.counts("billbridge_callbacks_attempts_total", fmt.Sprintf(`{outcome=%q,upstream="up"} 1`, outcome))
			}
		}
	}
}

// Every attempt is listed, with its time and how long it took.
func TestEveryAttemptIsListed(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{callbacks: ", schedule: [0s, 1m, 1m]"})
	statuses := []int{500, 403, 200}
	s.carry(func(*http.Request) (*http.Response, error) {
		clock.add(1500e6)
		status := statuses[0]
		statuses = statuses[1:]
		return reply(status, documented["v2"]), nil
	})
	s.deliverable("https://partner.example.com/", "A")
	for range 3 {
		s.round()
		clock.add(60e9)
	}
	lacks(t, s.ask("GET", "/callbacks").Body.String(), "history", "a list")
	has(t, s.ask("GET", "/callbacks/"+s.only().ID).Body.String(), `"history":[`+
		`{"number":1,"at":"2026-11-21T03:34:57.5Z","took_seconds":1.5,"status":500,"code":"0000","outcome":"status","reason":"HTTP 500"},`+
		`{"number":2,"at":"2026-11-21T03:35:59Z","took_seconds":1.5,"status":403,"code":"0000","outcome":"forbidden","reason":"HTTP 403: the partner refuses the caller"},`+
		`{"number":3,"at":"2026-11-21T03:37:00.5Z","took_seconds":1.5,"status":200,"code":"0000","outcome":"delivered"}]`)
}
