package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billbridge/config"
)

// newKeepAliveProcess starts a gateway with a callback listener, whose connections may be idle for 2 s.
func newKeepAliveProcess(t *testing.T) *process {
	t.Helper()
	return newProcessTo(t, "v2", newBackend(t, newService()), timeouts(func(now *config.Timeouts) { now.Idle = 2 * time.Second }), callbackListener(t))
}

// rawAnswer sends bytes and reads one answer.
func rawAnswer(c net.Conn, in *bufio.Reader, sent string) (*http.Response, error) {
	if _, err := io.WriteString(c, sent); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response, err
}

// A further call on a connection is answered if the answer before has Keep-Alive, and does not close the connection.
// Each answer that leaves it open has Keep-Alive.
func TestKeepAliveIsAnnouncedForConnectionsThatStayOpen(t *testing.T) {
	t.Parallel()
	p := newKeepAliveProcess(t)
	call := nextCall(v2("read"))
	with := func(fields string) string { return strings.Replace(call, "\r\n", "\r\n"+fields+"\r\n", 1) }
	old := func(text string) string { return strings.Replace(text, "HTTP/1.1", "HTTP/1.0", 1) }
	for stays, sent := range map[bool]map[string]string{
		true: {
			"call":                     call,
			"HTTP/1.0 with keep-alive": old(with("Connection: keep-alive")),
			"100-continue":             with("Expect: 100-continue"),
			"wrong type":               with("Content-Encoding: br"),
			"no such path":             strings.Replace(call, "/bill/read", "/nothing", 1),
			"wrong method":             "GET /bill/read HTTP/1.1\r\nHost: x\r\n\r\n",
			"chunked":                  head("/bill/read", "Transfer-Encoding: chunked\r\n") + "2\r\n{}\r\n0\r\n\r\n",
		},
		false: {
			"HTTP/1.0":                 old(call),
			"client closes":            with("Connection: close"),
			"100-continue, wrong type": with("Expect: 100-continue\r\nContent-Encoding: br"),
			"too large":                sized("/bill/read", 2<<20),
		},
	} {
		for name, sent := range sent {
			for listener, address := range map[string]string{"partners": p.Address(), "callbacks": p.CallbackAddress()} {
				if listener == "callbacks" && name == "too large" {
					continue // net/http waits for a body that nobody has read, before it sends the answer
				}
				parallel(t, name+" "+listener, func(t *testing.T) {
					c := dial(t, address, "")
					in := bufio.NewReader(c)
					got, err := rawAnswer(c, in, sent)
					for err == nil && got.StatusCode == http.StatusContinue {
						got, err = rawAnswer(c, in, "")
					}
					must(t, err)
					_, err = rawAnswer(c, in, call)
					announced, open := got.Header["Keep-Alive"] != nil, err == nil
					if open == got.Close || open && !announced || listener == "partners" && open != stays {
						t.Errorf("HTTP %d with %v; a further call: %v", got.StatusCode, got.Header, err)
					}
				})
			}
		}
	}
}

// HTTP/2 forbids headers of the connection. In a drain each answer closes its connection.
func TestKeepAliveIsNotAnnouncedOverHTTP2OrInADrain(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	check := func(major int, keepAlive, connection string) {
		t.Helper()
		w, r := httptest.NewRecorder(), v2("read").request()
		r.ProtoMajor = major
		b.ServeHTTP(w, r)
		equal(t, strings.Join(w.Header()["Keep-Alive"], "|"), keepAlive)
		equal(t, w.Header().Get("Connection"), connection)
	}
	check(1, "timeout=115", "")
	check(2, "", "")
	b.DisableKeepAlives()
	check(1, "", "close")
}
