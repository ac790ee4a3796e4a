package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestRequestsThatNetHTTPAnswersDoNotHoldUpTheDrain: it answers OPTIONS * by itself, and no handler sees it.
func TestRequestsThatNetHTTPAnswersDoNotHoldUpTheDrain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var a arrivals
	s := http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	a.watch(&s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); a.count() > 0; { // idle comes after the answer
		if time.Now().After(deadline) {
			t.Fatal("the connection counts as one without a request")
		}
	}
}
