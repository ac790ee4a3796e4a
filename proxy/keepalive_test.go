package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// newKeepAliveProcess starts a gateway with a callback listener, whose connections may be idle for 2 s.
func newKeepAliveProcess(t *testing.T) *process {
	t.Helper()
	return newProcessTo(t, "v2", newBackend(t, newService()), "timeouts: {idle: 2s}", callbackListener(t))
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

// A connection is idle for longer than Keep-Alive announces before the gateway closes it.
func TestConnectionIsOpenForTheAnnouncedTime(t *testing.T) {
	t.Parallel()
	p := newKeepAliveProcess(t)
	for _, address := range []string{p.Address(), p.CallbackAddress()} {
		parallel(t, "", func(t *testing.T) {
			c := dial(t, address, "")
			in := bufio.NewReader(c)
			began := time.Now()
			got, err := rawAnswer(c, in, nextCall(v2("read")))
			must(t, err)
			if said := got.Header["Keep-Alive"]; len(said) != 1 || said[0] != "timeout=1" {
				t.Errorf("Keep-Alive: %q", said)
			}
			_ = c.SetReadDeadline(began.Add(time.Minute))
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the idle connection ended with %v", err)
			}
			if idle := time.Since(began); idle < time.Second {
				t.Errorf("it was closed after %s", idle)
			}
		})
	}
}

// A further call on a connection is answered if the answer before has Keep-Alive, and does not close the connection.
// Each answer that leaves it open has Keep-Alive.
func TestKeepAliveIsAnnouncedForConnectionsThatStayOpen(t *testing.T) {
	t.Parallel()
	p := newKeepAliveProcess(t)
	call := nextCall(v2("read"))
	with := func(fields string) string { return strings.Replace(call, "\r\n", "\r\n"+fields+"\r\n", 1) }
	noBody := func(line string) string { return line + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	large := strings.Repeat(" ", 2<<20)
	for name, row := range map[string]struct {
		sent string
		open bool
	}{
		"call":                     {call, true},
		"HTTP/1.0":                 {strings.Replace(call, "HTTP/1.1", "HTTP/1.0", 1), false},
		"HTTP/1.0 with keep-alive": {strings.Replace(with("Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1), true},
		"client closes":            {with("Connection: close"), false},
		"100-continue":             {with("Expect: 100-continue"), true},
		"100-continue, wrong type": {with("Expect: 100-continue\r\nContent-Encoding: br"), false},
		"wrong type":               {with("Content-Encoding: br"), true},
		"no such path":             {strings.Replace(call, "/bill/read", "/nothing", 1), true},
		"wrong method":             {noBody("GET /bill/read"), true},
		"chunked":                  {head("/bill/read", "Transfer-Encoding: chunked\r\n") + "2\r\n{}\r\n0\r\n\r\n", true},
		"too large":                {head("/bill/read", fmt.Sprintf("Content-Length: %d\r\n", len(large))), false},
	} {
		for listener, address := range map[string]string{"partners": p.Address(), "callbacks": p.CallbackAddress()} {
			if listener == "callbacks" && name == "too large" {
				continue // net/http waits for a body that nobody has read, before it sends the answer
			}
			parallel(t, name+" "+listener, func(t *testing.T) {
				c := dial(t, address, "")
				in := bufio.NewReader(c)
				got, err := rawAnswer(c, in, row.sent)
				for err == nil && got.StatusCode == http.StatusContinue {
					got, err = rawAnswer(c, in, "")
				}
				must(t, err)
				_, err = rawAnswer(c, in, call)
				announced, open := got.Header["Keep-Alive"] != nil, err == nil
				if open == got.Close || open && !announced || listener == "partners" && open != row.open {
					t.Errorf("HTTP %d with %v; a further call: %v", got.StatusCode, got.Header, err)
				}
			})
		}
	}
}

// HTTP/2 forbids headers of the connection. In a drain each answer closes its connection.
func TestKeepAliveIsNotAnnouncedOverHTTP2OrInADrain(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	answered := func(major int) http.Header {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/bill/read", strings.NewReader(v2("read").body()))
		r.ProtoMajor = major
		b.ServeHTTP(w, r)
		return w.Header()
	}
	if got := answered(1)["Keep-Alive"]; len(got) != 1 || got[0] != "timeout=115" {
		t.Errorf("HTTP/1.1: %q", got)
	}
	if got := answered(2); got["Keep-Alive"] != nil {
		t.Errorf("HTTP/2: %v", got)
	}
	b.DisableKeepAlives()
	if got := answered(1); got["Keep-Alive"] != nil || got.Get("Connection") != "close" {
		t.Errorf("in a drain: %v", got)
	}
}
