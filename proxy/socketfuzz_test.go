package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// wireEnd stands behind each input. In every state of a connection it is malformed, or it makes the body longer than
// the limit, so that the gateway closes the connection. (A caller that closed its side instead would cancel its own
// requests.)
var wireEnd = []byte(strings.Repeat("\x00\r\n", 400))

// FuzzSocket writes bytes to a listening gateway whose upstream reads its calls byte by byte. Whatever the bytes
// are, the upstream gets exactly the calls that are answered with HTTP 200, in their order and well-formed, no
// request panics, and the connection ends.
func FuzzSocket(f *testing.F) {
	type stage struct {
		gateway  *process
		upstream *wireUpstream
	}
	stages := map[bool]stage{}
	for legacy, form := range map[bool]string{false: "v2", true: "legacy"} {
		u := newWireUpstream(f, form)
		text := fmt.Sprintf("upstreams: {up: {form: %s, url: %q, timeout: 30s}}\nlimits: {body: 1KiB, connections: 100000, address_connections: 100000}\nfailures: {explain: 0s}\n", form, u.url)
		stages[legacy] = stage{newProcess(f, anyPort+text), u}
	}
	for _, seed := range wireSeeds() {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, sent []byte, legacy bool) {
		s := stages[legacy]
		c := dial(t, s.gateway.Address(), "")
		defer c.Close()
		go func() { _, _ = c.Write(append(sent[:len(sent):len(sent)], wireEnd...)) }()
		got, gone := readToEnd(t, c)
		answers, whole := wireAnswers(got)
		calls, violations := s.upstream.seen()
		if problem := compareWire(answers, whole, calls, violations); problem != "" && !gone {
			t.Fatalf("%s\n%q", problem, got)
		}
		if len(calls) > len(answers) || len(violations) > 0 {
			t.Fatalf("%d calls, %d answers, %q\n%q", len(calls), len(answers), violations, got)
		}
		checkText(t, s.gateway.logs.Take(), `!"msg":"panic"`)
	})
}

// readToEnd reads until the gateway closes. A request whose body is larger than what follows is answered only when
// its body has come or the caller has closed its side: gone reports that it had to.
func readToEnd(t *testing.T, c *net.TCPConn) (got []byte, gone bool) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	got, err := io.ReadAll(c)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		_ = c.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(wireTimeout))
		var rest []byte
		rest, err = io.ReadAll(c)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Fatalf("the connection was left open after %q", got)
		}
		return append(got, rest...), true
	}
	return got, false
}

// wireSeeds are the edges of framing in both forms with a request behind them, and all fifteen calls, in chunks too.
func wireSeeds() (seeds []string) {
	for _, r := range wireRequests {
		seeds = append(seeds, r.inLength()+wireRequests[3].inLength(), r.inChunks()+wireRequests[8].inLength())
	}
	for _, r := range []wireRequest{wireRequests[3], wireRequests[8]} {
		words := edgeWords(r.path, r.body, r.inLength())
		for _, edge := range wireEdges {
			seeds = append(seeds, words.Replace(edge.text)+r.inLength())
		}
	}
	return seeds
}
