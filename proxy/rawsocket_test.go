package proxy_test

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"

	"github.com/tidwall/gjson"
)

// wireTimeout ends a test that would hang.
const wireTimeout = 60 * time.Second

// A wireCall is one call as an upstream read it from its connection.
type wireCall struct{ path, id, body string }

// A wireUpstream is a TCP listener that reads the calls byte by byte with a parser of its own. It answers each one
// with HTTP 200 and the id of the call as the text, and notes everything that the gateway never sends.
type wireUpstream struct {
	url, host, form string
	hold            time.Duration // before each reply, it waits so long for the gateway to give the call up

	mu          sync.Mutex
	calls       []wireCall
	violations  []string
	connections int
}

func newWireUpstream(t testing.TB, form string) *wireUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	u := &wireUpstream{form: form, host: l.Addr().String()}
	proxytest.Serve(t, l, func(c net.Conn) {
		u.mu.Lock()
		u.connections++
		u.mu.Unlock()
		u.serve(c)
	})
	u.url = "http://" + u.host
	return u
}

// serve reads calls until the gateway closes the connection.
func (u *wireUpstream) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for first := true; ; {
		call, violation := readWireCall(in, u.host, u.form)
		if violation == io.EOF {
			return
		}
		u.mu.Lock()
		// A read that is refused on a used connection is sent once more on a new one, with the same bytes.
		if last := len(u.calls) - 1; !first || last < 0 || u.calls[last] != call {
			u.calls = append(u.calls, call)
		}
		first = false
		if violation != nil {
			u.violations = append(u.violations, violation.Error())
		}
		u.mu.Unlock()
		if violation != nil {
			return
		}
		if u.hold > 0 {
			_ = c.SetReadDeadline(time.Now().Add(u.hold))
			if _, err := in.Peek(1); errors.Is(err, io.EOF) {
				return
			}
			_ = c.SetReadDeadline(time.Time{})
		}
		reply := wireReply(u.form, call)
		if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply); err != nil {
			return
		}
	}
}

// wireReply is a reply that has the id of the call: a success if a read names its partner and its bill, so that the
// connection is used again, and otherwise a refusal.
func wireReply(form string, call wireCall) string {
	key, bill := gjson.Get(call.body, "apiKey"), gjson.Get(call.body, "bill.billId")
	if form == "legacy" {
		key, bill = gjson.Get(call.body, "apikey"), gjson.Get(call.body, "bill_id")
	}
	switch text := strings.HasSuffix(call.path, "/read") && key.Type == gjson.String && bill.Type == gjson.String; {
	case text && form == "legacy":
		return fmt.Sprintf(`{"apikey":%s,"bill_id":%s,"appr_state":"W","appr_issuer":%q}`, key.Raw, bill.Raw, call.id)
	case text:
		return fmt.Sprintf(`{"code":"0000","message":"ok","data":{"apiKey":%s,"billId":%s,"apprState":"W","apprIssuer":%q}}`, key.Raw, bill.Raw, call.id)
	case form == "legacy":
		return fmt.Sprintf(`{"code":"BILL_003","msg":%q}`, call.id)
	}
	return fmt.Sprintf(`{"code":"BILL_003","message":%q,"data":null}`, call.id)
}

// seen returns the calls and the violations since the last time.
func (u *wireUpstream) seen() (calls []wireCall, violations []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	calls, violations, u.calls, u.violations = u.calls, u.violations, nil, nil
	return calls, violations
}

// readWireCall reads one call strictly: a POST to a documented path, each of the gateway's own headers once and no
// other, exactly as many bytes as Content-Length says, all of them one JSON object, and nothing behind it. The error
// is io.EOF if there is no call.
func readWireCall(in *bufio.Reader, host, form string) (call wireCall, violation error) {
	head := ""
	for line := ""; line != "\r\n"; head += line {
		var err error
		if line, err = in.ReadString('\n'); err != nil && head+line == "" {
			return call, io.EOF
		} else if err != nil {
			return call, fmt.Errorf("the head %q: %w", head+line, err)
		}
	}
	found := wireCallHead.FindStringSubmatch(head)
	if found == nil || found[2] != host || strings.HasPrefix(found[1], "/if/") != (form == "legacy") ||
		!slices.ContainsFunc(wireRequests, func(r wireRequest) bool { return r.path == found[1] }) {
		return call, fmt.Errorf("the head %q", head)
	}
	length, _ := strconv.Atoi(found[4])
	body := make([]byte, length)
	_, err := io.ReadFull(in, body)
	call = wireCall{found[1], found[3], string(body)}
	switch trimmed := bytes.TrimSpace(body); {
	case err != nil:
		return call, fmt.Errorf("a body of %d bytes: %w", length, err)
	case in.Buffered() > 0:
		return call, fmt.Errorf("%d bytes behind the call %q", in.Buffered(), head)
	case !json.Valid(body) || trimmed[0] != '{':
		return call, fmt.Errorf("the body is not a JSON object: %q", body)
	}
	return call, nil
}

// A wireAnswer is one answer of the gateway. id is its X-Request-Id, which an answer of net/http itself lacks.
type wireAnswer struct {
	status   int
	id, body string
}

var wireHead = regexp.MustCompile(`^HTTP/1\.[01] ([1-9][0-9]{2}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n`)

// wireAnswers splits what the gateway sent on one connection. whole is false if a part of an answer is missing.
// Interim answers are left out.
func wireAnswers(sent []byte) (answers []wireAnswer, whole bool) {
	for len(sent) > 0 {
		match := wireHead.FindSubmatch(sent)
		if match == nil {
			return answers, false
		}
		sent = sent[len(match[0]):]
		var a wireAnswer
		a.status, _ = strconv.Atoi(string(match[1]))
		if a.status < 200 {
			continue
		}
		length := len(sent) // without Content-Length, the answer of net/http ends with the connection
		for line := range strings.SplitSeq(string(match[2]), "\r\n") {
			if v, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				length, _ = strconv.Atoi(v)
			}
			if v, ok := strings.CutPrefix(line, "X-Request-Id: "); ok {
				a.id = v
			}
		}
		if bytes.HasPrefix(sent, []byte("HTTP/1.")) { // an answer to HEAD
			length = 0
		}
		if length > len(sent) {
			return answers, false
		}
		a.body, sent = string(sent[:length]), sent[length:]
		answers = append(answers, a)
	}
	return answers, true
}

// wireExchange writes the parts to a new connection and returns what the gateway sends until it closes. From the
// second part on, it first waits for a whole answer to what it has written. halfClose ends the caller's side.
func wireExchange(t testing.TB, address string, halfClose bool, parts ...string) []byte {
	t.Helper()
	c := dial(t, address, "")
	defer c.Close()
	var got []byte
	buffer := make([]byte, 64<<10)
	closed := false
	read := func() {
		n, err := c.Read(buffer)
		got = append(got, buffer[:n]...)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Fatalf("the connection was left open after %q", parts)
		}
		closed = err != nil
	}
	for i, part := range parts {
		for i > 0 && !closed {
			if answers, whole := wireAnswers(got); whole && len(answers) >= i {
				break
			}
			read()
		}
		writing := make(chan struct{})
		go func() { // the gateway may answer and close before it has read everything
			defer close(writing)
			_, _ = io.WriteString(c, part)
			if halfClose && i == len(parts)-1 {
				_ = c.CloseWrite()
			}
		}()
		if i == len(parts)-1 {
			defer func() { <-writing }()
			break
		}
		<-writing
	}
	for !closed {
		read()
	}
	return got
}

// A wireRequest is a good request of one operation in one form.
type wireRequest struct{ path, body string }

// inLength and inChunks are the whole request.
func (r wireRequest) inLength() string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", r.path, len(r.body), r.body)
}

func (r wireRequest) inChunks() string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", r.path, wireChunks(r.body, 30))
}

//go:embed testdata/requests.txt
var requestsText string

// wireRequests are the fifteen requests of the interface.
var wireRequests = func() (all []wireRequest) {
	for _, row := range rows(requestsText) {
		all = append(all, wireRequest{row[0], row[1]})
	}
	return all
}()

// wireCallHead is the head of a call: the gateway's own headers, each once, and no other.
var wireCallHead = regexp.MustCompile(`^POST (\S+) HTTP/1\.1\r\nHost: (\S+)\r\nUser-Agent: billbridge/1\.2\.3\r\nContent-Type: application/json\r\n` +
	`Accept: application/json\r\nAccept-Encoding: identity\r\nX-Request-Id: ([0-9A-Za-z._:-]{1,128})\r\nContent-Length: (0|[1-9][0-9]*)(\r\nConnection: close)?\r\n\r\n$`)

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
		text := fmt.Sprintf("upstreams: {up: {form: %s, url: %q, timeout: 30s}}\nlimits: {body: 1KiB}\n", form, u.url) +
			limits(func(l *config.Limits) { l.Connections, l.AddressConnections = 100_000, 100_000 })
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
