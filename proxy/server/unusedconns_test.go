package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// net/http answers OPTIONS * by itself: no handler gets the request, and the connection must not count as new any more.
func TestDrainDoesNotWaitForConnectionsThatNetHTTPAnswered(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	proxytest.Must(t, err)
	var conns unusedConns
	s := http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	conns.track(&s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	proxytest.Must(t, err)
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatal(err)
	}
	// The connection becomes idle after the answer.
	proxytest.Eventually(t, func() bool { return conns.count() == 0 }, func() string { return "the connection still counts as one without a request" })
}
