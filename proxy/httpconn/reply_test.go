package httpconn

import (
	"bufio"
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// usualHeads are heads that parseHead must parse itself, since servers send them for most replies.
var usualHeads = map[string]Reply{
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n":                                                     {Status: 200, ContentType: "application/json", Length: 2},
	"HTTP/1.1 200 OK\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Length: 123456789012345678\r\n\r\n":                               {Status: 200, Length: 123456789012345678},
	"HTTP/1.1 400 \r\ncontent-length:0\r\n\r\n":                                                                                          {Status: 400},
	"HTTP/1.1 503 Service Unavailable\r\nRETRY-AFTER:\t120 \r\nContent-Length: 10\r\nServer: a\r\n\r\n":                                  {Status: 503, RetryAfter: "120", Length: 10},
	"HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nKeep-Alive: timeout=5\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n":          {Status: 200, ContentEncoding: "gzip", Length: 9},
	"HTTP/1.1 200 OK\r\nX-Powered-By: PHP/8.3\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\nEmpty:\r\n\r\n{}": {Status: 200, ContentType: "application/json; charset=utf-8", Length: 2},
	"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n":                                                                                    {Status: 200, Length: 2},
	"HTTP/1.1 200 OK\r\nContent-Length: 2 ,2,\t2\r\n\r\n":                                                                                {Status: 200, Length: 2},
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n":                                        {Status: 200, Length: 2, closes: true},
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: Close\r\n\r\n":                                                                  {Status: 200, Length: 2, closes: true},
}

// strictHeads are left to net/http, and the connection is used again.
var strictHeads = []string{
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\ntransfer-encoding:Chunked \r\nConnection: keep-alive\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\n\r\n",
}

// otherHeads are left to net/http, and the connection is closed.
var otherHeads = []string{
	"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
	"+OK ready\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\n\n{}",
	"HTTP/1.1 200 OK\nContent-Length: 2\n\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\nA: b\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\rA: b\r\n\r\n",
	"HTTP/1.1 200 OK\r\n\r\n",
	"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n",
	"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 1234567890123456789\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2,\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: , 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTrailer: A\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, close\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n c\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\x00c\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\xffc\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nno colon\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n: no name\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRetry-After: 1\r\nRetry-After: 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n",
}

func TestUsualHeads(t *testing.T) {
	t.Parallel()
	check := func(text string, want Reply, wantKind headKind, length int) {
		t.Helper()
		if got, kind, n := parseHead([]byte(text), &Reply{}); got != want || kind != wantKind || n != length {
			t.Errorf("%q: %+v, kind %d, %d bytes", text, got, kind, n)
		}
	}
	whole := func(text string, want Reply, kind headKind, length int) {
		t.Helper()
		check(text, want, kind, length)
		for n := range strings.Index(text, "\r\n\r\n") + 4 {
			check(text[:n], Reply{}, incomplete, 0)
		}
	}
	for text, want := range usualHeads {
		whole(text, want, usual, strings.Index(text, "\r\n\r\n")+4)
	}
	for _, text := range strictHeads {
		whole(text, Reply{}, strict, 0)
	}
	for _, text := range otherHeads {
		check(text, Reply{}, other, 0)
	}
}

// The values of the last reply are used again without an allocation, and only where they are equal.
func TestValuesOfTheLastReply(t *testing.T) {
	first := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n")
	last, _, _ := parseHead(first, &Reply{})
	if n := testing.AllocsPerRun(100, func() { _, _, _ = parseHead(first, &last) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	got, _, _ := parseHead([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/jsoN\r\nContent-Length: 2\r\n\r\n"), &last)
	if got.ContentType != "application/jsoN" {
		t.Error(got.ContentType)
	}
	if got, _, _ = parseHead([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), &last); got.ContentType != "" {
		t.Error(got.ContentType)
	}
}

// net/http reads every head that parseHead parses, and in the same way.
func FuzzHead(f *testing.F) {
	for text := range usualHeads {
		f.Add([]byte(text))
	}
	for _, text := range slices.Concat(strictHeads, otherHeads) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, kind, n := parseHead(b, &Reply{ContentType: "application/json"})
		if kind != usual && kind != strict {
			return
		}
		reader := bufio.NewReader(bytes.NewReader(b))
		response, err := http.ReadResponse(reader, nil)
		if err != nil && strings.Contains(err.Error(), "bad Content-Length") && strings.Contains(err.Error(), ",") {
			return // equal lengths that were joined, which net/http does not take
		}
		if err != nil {
			t.Fatalf("%q: net/http refuses it: %v", b, err)
		}
		chunked := slices.Equal(response.TransferEncoding, []string{"chunked"})
		if kind == strict {
			if response.Close || response.Header["Content-Length"] != nil || chunked == (response.StatusCode == http.StatusNoContent) {
				t.Errorf("%q: net/http has %+v", b, response)
			}
			return
		}
		if want := replyOf(response); got != want {
			t.Errorf("%q: %+v, but net/http has %+v", b, got, want)
		}
		if len(response.TransferEncoding) > 0 || response.Trailer != nil || !response.ProtoAtLeast(1, 1) || response.ProtoMajor != 1 {
			t.Errorf("%q: net/http has %+v", b, response)
		}
		if len(b) <= 4096 && len(b)-reader.Buffered() != n {
			t.Errorf("%q: the body begins at %d, but for net/http at %d", b, n, len(b)-reader.Buffered())
		}
	})
}
