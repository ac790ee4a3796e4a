package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// A wireStage is a gateway between a caller of one form and an upstream of one form, over real sockets, and what was
// counted.
type wireStage struct {
	t              *testing.T
	gateway        *process
	upstream       *wireUpstream
	path, body     string // of a harmless request
	streams, calls int
	requests       int // that the gateway answered
}

// onWireStages runs a test for each pair of forms, in the short form for those with a v2 upstream, with a body limit of
// 512 KiB, and prints the counts.
func onWireStages(t *testing.T, run func(*wireStage)) {
	t.Parallel()
	for _, client := range forms {
		for _, upstream := range forms[:proxytest.Size(1, 2)] {
			parallel(t, client+"/"+upstream, func(t *testing.T) {
				u := newWireUpstream(t, upstream)
				text := fmt.Sprintf("upstreams: {up: {form: %s, url: %q, timeout: 30s}}\nlimits: {body: 512KiB}\n", upstream, u.url)
				s := &wireStage{t: t, gateway: newProcess(t, anyPort+text), upstream: u}
				s.path, s.body = "/bill/read", `{"apiKey":"k","member":"m","merchant":"s","bill":{"billId":"B1"}}`
				if client == "legacy" {
					s.path, s.body = "/if/bill/read", `{"apikey":"k","member":"m","merchant":"s","bill_id":"B1"}`
				}
				run(s)
				checkText(t, s.gateway.logs.String(), `!"msg":"panic"`)
				if s.upstream.connections > s.streams/2 {
					t.Errorf("%d connections to the upstream for %d calls: they are not kept open", s.upstream.connections, s.calls)
				}
				t.Logf("%d streams, %d requests answered, %d calls at the upstream over %d connections", s.streams, s.requests, s.calls, s.upstream.connections)
			})
		}
	}
}

// request is a whole request with a Content-Length.
func (s *wireStage) request(id, body string, lines ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n%s\r\n%s",
		s.path, id, len(body), strings.Join(append(lines, ""), "\r\n"), body)
}

// chunked is a whole request in chunks of a size.
func (s *wireStage) chunked(id, body string, size int, lines ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nTransfer-Encoding: chunked\r\n%s\r\n%s",
		s.path, id, strings.Join(append(lines, ""), "\r\n"), wireChunks(body, size))
}

// second is the harmless request that stands behind each stream. The gateway closes the connection after it.
func (s *wireStage) second() string { return s.request("second", s.body, "Connection: close") }

// smuggled is a request that only ever stands inside the body of another one.
func (s *wireStage) smuggled() string { return s.request("smuggled", s.body) }

// send sends the parts and compares what the gateway answered with what the upstream got: as many calls as answers
// with HTTP 200, in the same order, each answer with the reply to its own request. With halfClose, the caller ends
// its side after the last part.
func (s *wireStage) send(name string, halfClose bool, parts ...string) (answers []wireAnswer, calls []wireCall) {
	s.t.Helper()
	if halfClose { // a connection whose caller has ended its side before it is accepted gets no answer
		parts = append([]string{s.request("before", s.body)}, parts...)
	}
	answers, whole := wireAnswers(wireExchange(s.t, s.gateway.Address(), halfClose, parts...))
	calls, violations := s.upstream.seen()
	s.streams, s.calls, s.requests = s.streams+1, s.calls+len(calls), s.requests+len(answers)
	problem := compareWire(answers, whole, calls, violations)
	if slices.ContainsFunc(calls, func(c wireCall) bool { return c.id == "smuggled" }) {
		problem += " (a request inside a body was called)"
	}
	equal(s.t, problem, "", name, answers, parts)
	if halfClose && len(answers) > 0 && len(calls) > 0 {
		return answers[1:], calls[1:]
	}
	return answers, calls
}

// compareWire returns what is wrong between what the gateway answered and what the upstream got, or "".
func compareWire(answers []wireAnswer, whole bool, calls []wireCall, violations []string) string {
	var answered, called []string
	for _, a := range answers {
		if a.status == 200 && a.id != "" {
			answered = append(answered, a.id)
			if !strings.Contains(a.body, `"`+a.id+`"`) {
				return fmt.Sprintf("the request %s got the answer %s", a.id, a.body)
			}
		}
	}
	for _, c := range calls {
		called = append(called, c.id)
	}
	if !whole || !slices.Equal(called, answered) || len(violations) > 0 {
		return fmt.Sprintf("whole answers %v, %q answered with 200, %q called, violations %q", whole, answered, called, violations)
	}
	return ""
}

// isLast reports whether the second request was answered, as the last one.
func isLast(answers []wireAnswer) bool {
	return len(answers) > 0 && answers[len(answers)-1].id == "second" && answers[len(answers)-1].status == 200
}

// wireChunks is a body in chunks of a size, with the last chunk.
func wireChunks(body string, size int) string {
	var b strings.Builder
	for part := range slices.Chunk([]byte(body), size) {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	return b.String() + "0\r\n\r\n"
}
