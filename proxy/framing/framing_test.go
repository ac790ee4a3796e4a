package framing

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// served is an HTTP server behind a framing listener, with what it saw.
type served struct {
	address  string
	listener *listener

	mu       sync.Mutex
	requests []string // method, path and body of those whose body was there
	refused  []string
}

// idleTimeout is longer than any test.
const idleTimeout = time.Minute

func serve(t *testing.T, o Options) *served {
	t.Helper()
	s := &served{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Refused = func(peer net.Addr, reason string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refused = append(s.refused, reason); !strings.HasPrefix(peer.String(), "127.0.0.1:") {
			t.Errorf("the peer is %s", peer)
		}
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				w.Header().Set("Connection", "close")
				http.Error(w, "the body broke off", http.StatusBadRequest)
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests = append(s.requests, fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body))
			fmt.Fprintf(w, "%d", len(s.requests))
		}),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       idleTimeout,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				Idle(c)
			}
		},
	}
	if o.TLS != nil {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
	}
	s.address = l.Addr().String()
	done := make(chan struct{})
	s.listener = Listen(l, o).(*listener)
	go func() {
		defer close(done)
		_ = server.Serve(s.listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return s
}

// idle returns how many connections wait without the server.
func (s *served) idle() int {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	return len(s.listener.idle)
}

func (s *served) saw() (requests, refused []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests), slices.Clone(s.refused)
}

// exchange sends bytes and returns the statuses of the answers until the server closes the connection.
func exchange(t *testing.T, c net.Conn, sent string) (statuses []int) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		_, _ = io.WriteString(c, sent)
	}()
	in := bufio.NewReader(c)
	for {
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses
		}
		statuses = append(statuses, response.StatusCode)
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.Close {
			return statuses
		}
	}
}

const (
	post = "POST /a HTTP/1.1\r\nHost: x\r\n"
	next = "POST /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nend"
)

// streams are what callers send, what the server then sees of the first request, and why it is refused. Behind each of them stands
// one more request, which must be seen only if the first was answered with 200.
var streams = map[string]struct {
	sent    string
	body    string
	refused string // "" if it is taken
}{
	"length":                    {post + "Content-Length: 5\r\n\r\nhello", "hello", ""},
	"length zero":               {post + "Content-Length: 0\r\n\r\n", "", ""},
	"no body":                   {post + "\r\n", "", ""},
	"chunked":                   {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello", ""},
	"chunked in capitals":       {post + "TRANSFER-encoding:\tCHUNKED \r\n\r\n00A\r\n0123456789\r\n0\r\n\r\n", "0123456789", ""},
	"chunked with trailers":     {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\nContent-Length: 7\r\n\r\n", "hello", ""},
	"chunk extension":           {post + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n", "hello", ""},
	"body that looks like one":  {post + "Content-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
	"length, then encoding":     {post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", lengthAndEncoding},
	"encoding, then length":     {post + "Transfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", "", lengthAndEncoding},
	"two lengths":               {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "", twoLengths},
	"two equal lengths":         {post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "hello", twoLengths},
	"two lengths in one line":   {post + "Content-Length: 5, 5\r\n\r\nhello", "", malformedLine},
	"length with a sign":        {post + "Content-Length: +5\r\n\r\nhello", "", malformedLine},
	"long length":               {post + "Content-Length: 0000000000000000000000005\r\n\r\nhello", "", malformedLine},
	"empty length":              {post + "Content-Length: \r\n\r\nhello", "", malformedLine},
	"folded":                    {post + "X: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", "", foldedLine},
	"folded by a tab":           {post + "X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", foldedLine},
	"bare LF":                   {"POST /a HTTP/1.1\r\nHost: x\nContent-Length: 5\r\n\r\nhello", "hello", bareLF},
	"bare LF ends the head":     {post + "Content-Length: 5\r\n\nhello", "hello", bareLF},
	"bare CR":                   {post + "X: a\rContent-Length: 5\r\n\r\nhello", "", bareCR},
	"bare CR in the first line": {"POST /a\r HTTP/1.1\r\nHost: x\r\n\r\n", "", bareCR},
	"space before the colon":    {post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "", malformedLine},
	"no colon":                  {post + "Transfer-Encoding chunked\r\n\r\n0\r\n\r\n", "", malformedLine},
	"space before a chunk size": {post + "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", "", chunkSize},
	"space behind a chunk size": {post + "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", "", chunkSize},
	"tab behind a chunk size":   {post + "Transfer-Encoding: chunked\r\n\r\n5\t;a\r\nhello\r\n0\r\n\r\n", "", chunkSize},
	"chunk size with 0x":        {post + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", "", chunkSize},
	"chunk size that overflows": {post + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n", "", chunkSize},
	"longer chunk":              {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n", "", chunkSize},
	"bare LF in a chunk size":   {post + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", "", bareLF},
	"bare LF in an extension":   {post + "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n", "", bareLF},
	"folded trailer":            {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: 1\r\n 2\r\n\r\n", "", foldedLine},
	"encoding twice":            {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", otherEncoding},
	"two encodings":             {post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "", otherEncoding},
	"identity":                  {post + "Transfer-Encoding: identity\r\n\r\n", "", otherEncoding},
	"encoding in HTTP/1.0":      {"POST /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", encodingIn10},
	"HTTP/1.0":                  {"POST /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", "hello", ""},
	"HTTP/1.2":                  {"POST /a HTTP/1.2\r\nHost: x\r\n\r\n", "", version},
	"HTTP/2 in the clear":       {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", version},
	"HTTP/0.9":                  {"GET /a\r\n\r\n", "", version},
	"CONNECT":                   {"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", "", connect},
	"an empty line behind":      {post + "Content-Length: 5\r\n\r\nhello\r\n", "hello", ""},
	"one behind the chunks":     {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\r\n", "hello", ""},
	"PROXY protocol":            {"PROXY TCP4 192.0.2.1 192.0.2.2 5000 80\r\n" + post + "\r\n", "", ProxyProtocol},
	"an empty line before":      {"\r\nPOST /a HTTP/1.1\r\nHost: x\r\n\r\n", "", malformedLine},
	"upgrade to h2c":            {post + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 5\r\n\r\nhello", "hello", ""},
}

// TestR09_AmbiguousFramingIsRefused over real sockets, with and without TLS: what is refused gets one 400, the connection is closed,
// and no handler sees it or what stands behind it.
func TestR09_AmbiguousFramingIsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range streams {
		for _, kind := range []string{"plain", "tls"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				var o Options
				if kind == "tls" {
					o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
				}
				s := serve(t, o)
				c := dial(t, s.address, kind == "tls", "http/1.1")
				statuses := exchange(t, c, row.sent+next)
				requests, refused := s.saw()
				if row.refused == "" {
					if !slices.Equal(statuses, []int{200, 200}) || len(refused) != 0 || len(requests) != 2 || !strings.HasSuffix(requests[0], " "+row.body) || requests[1] != "POST /smuggled end" {
						t.Errorf("%v %q %q", statuses, requests, refused)
					}
					return
				}
				if !slices.Equal(statuses, []int{400}) || len(requests) != 0 {
					t.Errorf("%v %q", statuses, requests)
				}
				if want := row.refused; !slices.Equal(refused, []string{want}) || !slices.Contains(Reasons, want) {
					t.Errorf("refused by %q, want %s", refused, want)
				}
			})
		}
	}
}

// What is refused behind a request that is taken does not take its answer away, in whatever pieces the bytes come.
func TestAnswersBeforeARefusalArrive(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	c := dial(t, s.address, false, "")
	statuses := exchange(t, c, post+"Content-Length: 5\r\n\r\nhello"+post+"\r\n"+post+"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+next)
	if requests, refused := s.saw(); !slices.Equal(statuses, []int{200, 200, 400}) || len(requests) != 2 || len(refused) != 1 {
		t.Errorf("%v %q %q", statuses, requests, refused)
	}
}

// The pieces in which bytes come must not matter.
func TestScannerInPieces(t *testing.T) {
	t.Parallel()
	for name, row := range streams {
		sent := []byte(row.sent + next)
		var whole scanner
		_, want := whole.scan(sent)
		for size := 1; size <= 40; size++ {
			s, got := scanner{}, ""
			for piece := range slices.Chunk(sent, size) {
				if _, got = s.scan(piece); got != "" {
					break
				}
			}
			if got != want {
				t.Errorf("%s in pieces of %d: %q, want %q", name, size, got, want)
			}
		}
	}
}

// Over HTTP/2 nothing is scanned but the preface, by which a caller shows that it speaks what it has agreed on.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post("https://"+s.address+"/a", "text/plain", strings.NewReader(strings.Repeat("x", 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if requests, refused := s.saw(); response.ProtoMajor != 2 || response.StatusCode != 200 || len(requests) != 1 || len(refused) != 0 {
		t.Errorf("%s %d %q", response.Proto, len(requests), refused)
	}

	c := dial(t, s.address, true, "h2")
	if statuses := exchange(t, c, post+"Content-Length: 0\r\n\r\n"+next); !slices.Equal(statuses, []int{400}) {
		t.Errorf("HTTP/1.1 on a connection for HTTP/2: %v", statuses)
	}
	if requests, refused := s.saw(); len(requests) != 1 || !slices.Equal(refused, []string{notHTTP2}) {
		t.Errorf("%q %q", requests, refused)
	}
}

// FuzzScannerAgreesWithNetHTTP: where net/http sees the end of a request, the scanner sees it too, unless it refuses something
// before. Otherwise bytes of one request could be taken for the next unseen.
func FuzzScannerAgreesWithNetHTTP(f *testing.F) {
	for _, row := range streams {
		f.Add([]byte(row.sent + next))
		f.Add([]byte(row.sent + row.sent + next))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		ends := map[int]bool{}
		s, refusedAt := scanner{}, len(sent)
		for i := range sent {
			if _, reason := s.scan(sent[i : i+1]); reason != "" {
				refusedAt = i
				break
			}
			ends[i+1] = s.state == requestLine && len(s.line) == 0
		}
		from := bytes.NewReader(sent)
		in := bufio.NewReader(from)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			_ = r.Body.Close()
			end := len(sent) - from.Len() - in.Buffered()
			if end > refusedAt {
				return
			}
			if !ends[end] {
				t.Fatalf("net/http sees the end of a request at byte %d of %q, the scanner does not", end, sent)
			}
			if r.ProtoMajor != 1 { // a server refuses it
				return
			}
		}
	})
}

// BenchmarkScan is the cost of one request's bytes.
func BenchmarkScan(b *testing.B) {
	head := "POST /if/bill/read HTTP/1.1\r\nHost: bridge.example.com\r\nUser-Agent: okhttp/4.9.3\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: 120\r\nAccept-Encoding: gzip\r\nX-Request-Id: 1234567890\r\n\r\n"
	request := []byte(head + strings.Repeat("x", 120))
	s := scanner{}
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := s.scan(request); reason != "" {
			b.Fatal(reason)
		}
	}
}

func dial(t *testing.T, address string, secure bool, protocol string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// certificate is the one of net/http's test server.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates[0]
}

// One empty line may stand behind a body, in whatever pieces the bytes come, also if the connection has waited without the
// server in between. Two are refused, and so is a part of one.
func TestEmptyLineBehindABody(t *testing.T) {
	t.Parallel()
	const first = post + "Content-Length: 5\r\n\r\nhello"
	for behind, refused := range map[string]string{
		"\r\n": "", "\r\n\r\n": malformedLine, "\r": bareCR, "\n": bareLF, "\r\r\n": bareCR, " \r\n": version,
	} {
		in := [][]string{{first + behind + next}, {first, behind + next}}
		if refused == "" {
			in = append(in, []string{first, behind, next}, []string{first, behind[:1], behind[1:] + next})
		}
		for _, pieces := range in {
			for _, idle := range []time.Duration{0, time.Millisecond} {
				t.Run(fmt.Sprintf("%q/%d/%s", behind, len(pieces), idle), func(t *testing.T) {
					t.Parallel()
					s := serve(t, Options{IdleAfter: idle})
					c := dial(t, s.address, false, "")
					in := bufio.NewReader(c)
					statuses := []int{}
					for i, piece := range pieces {
						if i == 1 && idle > 0 {
							proxytest.Eventually(t, func() bool { return s.idle() == 1 }, func() string { return "it is not idle" })
						}
						if _, err := io.WriteString(c, piece); err != nil {
							t.Fatal(err)
						}
						if i == 0 {
							statuses = append(statuses, readStatus(t, in))
						}
					}
					if refused == "" {
						statuses = append(statuses, readStatus(t, in))
					} else { // its 400 can be lost by a reset
						_, _ = io.Copy(io.Discard, in)
					}
					requests, reasons := s.saw()
					if slices.Contains(statuses, 400) || len(requests) != len(statuses) || strings.Join(reasons, " ") != refused {
						t.Errorf("%v %q %q", statuses, requests, reasons)
					}
				})
			}
		}
	}
}

// readStatus returns the status of the next answer, after its body.
func readStatus(t *testing.T, in *bufio.Reader) int {
	t.Helper()
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// Version 2 of the PROXY protocol is named if its header comes in one piece, as proxies send it.
func TestProxyProtocolIsNamed(t *testing.T) {
	t.Parallel()
	const header = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x13\x88\x00\x50"
	if _, reason := new(scanner).scan([]byte(header + post)); reason != ProxyProtocol {
		t.Error(reason)
	}
}
