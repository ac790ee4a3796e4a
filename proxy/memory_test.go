package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// sendPart opens a connection and sends the header of a call and a part of its body.
func sendPart(p *process, q call, length int, part string) net.Conn {
	p.t.Helper()
	return p.open(sized(q.path(), length) + part)
}

// useBudget sends a part of a request, of which so many bytes count, on three connections: two of them use the budget up,
// and the first one is refused. A small body still fits. Then the budget is free again.
func (p *process) useBudget(part string, counts int) {
	p.t.Helper()
	var open []*net.TCPConn
	for n := range 2 {
		open = append(open, p.open(part))
		p.waitForMetric("billbridge_body_bytes", float64((n+1)*counts))
	}
	open = append(open, p.open(part))
	response, err := http.ReadResponse(bufio.NewReader(open[0]), nil)
	must(p.t, err)
	equal(p.t, response.StatusCode, 503)
	equal(p.t, response.Header.Get("Retry-After"), "1")
	equal(p.t, response.Close, true)
	p.send(legacy("create")).is(p.t, 200)
	for _, c := range open {
		_ = c.Close()
	}
	p.waitForMetric("billbridge_body_bytes", 0)
}

// waitForMetric waits until a metric without labels has a value.
func (p *process) waitForMetric(name string, want float64) {
	p.t.Helper()
	proxytest.Eventually(p.t, func() bool { return gauge(p, name) == want }, p.metrics)
}

// A body counts with the bytes that have arrived. When the budget is used up, the call whose body has been arriving for
// the longest time gets a 503 with Retry-After and nothing is sent. When memory is free again, calls are accepted.
func TestR04_R15_BodiesHaveABudget(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	p := newProcessTo(t, "v2", back, "limits: {body: 512KiB, memory: 1MiB}")
	q := legacy("create")
	p.useBudget(sized(q.path(), 500<<10)+strings.Repeat(" ", 400<<10), 26*16<<10)
	p.checkMetric(`billbridge_requests_limited_total{limit="memory"} 1`)
	long := strings.Replace(q.body(), "{", "{"+strings.Repeat(" ", 450<<10), 1)
	p.post(q.path(), long).is(t, 200)
	back.expectCalls(t, 2)
	p.checkMetric("billbridge_body_bytes 0")
}

// While no chunk is left, each call is answered in the form of its caller, counted as it was answered, and shown in the
// console, which keeps bodies of calls.
func TestR04_CallsAreAnsweredWhileTheWholeBudgetIsUsed(t *testing.T) {
	t.Parallel()
	g, back := newHeldBackend(t, "/bill", 64)
	p := newProcessTo(t, "v2", back, "limits: {body: 512KiB, memory: 1MiB}")
	var calls []<-chan answer
	for n := range 64 { // a half-sent body would go for another one
		calls = append(calls, g.held(&p.caller, legacy("create").with("billId", fmt.Sprintf("B%d", n))))
	}
	before := back.count()
	p.waitForMetric("billbridge_body_bytes", 1<<20)
	for _, client := range forms {
		for _, op := range operations {
			got := p.expect(newCall(client, op), refused)
			equal(t, got.header.Get("Retry-After"), "1", got.header)
			p.checkMetric(fmt.Sprintf(`billbridge_requests_total{client=%q,code="MAINTAINED_METHOD",operation="bill.%s",status="503",upstream="up"} 1`, client, op))
		}
	}
	if n := strings.Count(p.admin("GET", "/calls").body, "MAINTAINED_METHOD"); n < 10 || strings.Contains(p.logs.String(), "panic") {
		t.Errorf("the console shows %d calls; %s", n, p.logs)
	}
	back.expectCalls(t, before)
	g.open()
	for _, one := range calls {
		receive(t, one, "answer").check(t, "legacy", success)
	}
}

// Bodies of one chunk, of several chunks, and at the limits between them.
func TestBodiesOfEverySizeArriveWhole(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	q := v2("create")
	for _, length := range []int{0, 1000, 16383, 16384, 16385, 32767, 32768, 32769, 100_000, 1 << 20} {
		body := q.body()
		body += strings.Repeat(" ", max(0, length-len(body)))
		b.post(q.path(), body).is(t, 200)
		calls := b.back.received()
		equal(t, calls[len(calls)-1].body, body, len(body))
	}
}

// newLargeReplies returns a gateway whose upstream shows the bill LARGE with a field of 4 MB, and refuses its writes with
// such a text.
func newLargeReplies(t *testing.T, more ...string) *process {
	t.Helper()
	service, text := newService(), strings.Repeat("x", 4_000_000)
	for op, reply := range map[string]string{
		"bill.read":    `{"code":"0000","message":"ok","data":{"apiKey":"` + demoKey + `","billId":"LARGE","apprState":"W","apprIssuer":"` + text + `"}}`,
		"bill.destroy": `{"code":"BILL_003","message":"` + text + `","data":null}`,
	} {
		service.Fault(sandbox.Fault{Operation: op, Bill: "LARGE", Count: 1000, Body: reply})
	}
	return newProcessTo(t, "v2", newBackend(t, service), more...)
}

// readSlowly makes a call and reads the head of its answer only. It returns the status.
func readSlowly(t *testing.T, p *process, q call) (c net.Conn, status int) {
	t.Helper()
	socket := p.open("")
	_ = socket.SetReadBuffer(4 << 10) // so that the answer does not fit into the buffers of the system
	c = socket
	if _, err := io.WriteString(c, nextCall(q)); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, line); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &status)
	return c, status
}

// gauge is the value of a metric without labels.
func gauge(p *process, name string) (n float64) {
	for line := range strings.Lines(p.metrics()) {
		_, _ = fmt.Sscanf(line, name+" %g", &n)
	}
	return n
}

// Slow readers of large answers hold no more than the budget. When it is used up, the answers that take longer than a
// second end, and other calls are answered: large ones, and small ones all the time. So it is for all and for one source.
func TestR04_R15_AnswersHaveABudget(t *testing.T) {
	t.Parallel()
	const budget = 48 << 20
	for client, limits := range map[string]string{
		"legacy": "limits: {body: 512KiB, memory: 48MiB, trusted: [127.0.0.0/8]}",
		"v2":     "limits: {body: 512KiB, memory: 192MiB}", // a quarter
	} {
		parallel(t, client, func(t *testing.T) {
			p := newLargeReplies(t, limits, timeouts(func(now *config.Timeouts) { now.Body, now.Write = 10*time.Minute, 10*time.Minute }))
			large := newCall(client, "read").with("billId", "LARGE")
			var slow []net.Conn
			used := 0
			for range 9 { // more than the budget holds
				proxytest.Eventually(t, func() bool {
					c, status := readSlowly(t, p, large)
					if status == 200 {
						slow = append(slow, c)
						return true
					}
					_ = c.Close()
					equal(t, status, 502)
					return false
				}, func() string { return fmt.Sprint("no memory with ", len(slow), " slow readers") })
				p.expect(newCall(client, "read"), noSuchBill)
				used = max(used, p.bodyBytes())
			}
			if used < budget/2 || used > budget {
				t.Errorf("%d bytes of the budget are used, of %d", used, budget)
			}
			eventually(t, "no large answer", func() bool {
				got := p.send(large)
				return got.status == 200 && len(got.body) > 4_000_000
			})
			eventually(t, "no slow reader is disconnected", func() bool { return gauge(p, "billbridge_connections") < float64(len(slow)) })
			for _, c := range slow {
				_ = c.Close()
			}
			p.waitForMetric("billbridge_body_bytes", 0)
		})
	}
}

// The reply to a write is read whatever is left of the budget: else its outcome would become unknown.
func TestR26_ReplyToAWriteNeedsNoBudget(t *testing.T) {
	t.Parallel()
	p := newLargeReplies(t, "limits: {body: 512KiB, memory: 2MiB}")
	for _, step := range []string{"502:ERROR legacy read billId=LARGE", "noSuchBill legacy destroy billId=LARGE"} {
		play(p, step)
		p.waitForMetric("billbridge_body_bytes", 0)
	}
}

// A slow reader of a large answer is disconnected in time, however long bodies and calls may take.
func TestR15_SlowReaderHasTimeoutsWrite(t *testing.T) {
	t.Parallel()
	p := newLargeReplies(t, timeouts(func(now *config.Timeouts) {
		now.Body, now.Write, now.Idle = 10*time.Minute, 200*time.Millisecond, 10*time.Minute
	}))
	_, status := readSlowly(t, p, v2("read").with("billId", "LARGE"))
	if status != 200 {
		t.Fatalf("HTTP %d", status)
	}
	eventually(t, "the connection is open", func() bool { return gauge(p, "billbridge_connections") == 0 })
}

// A slowCaller is the connection of a caller that sends a part of its body, one byte more after a time, and then nothing until the deadline.
type slowCaller struct {
	*httptest.ResponseRecorder
	io.Reader
	more     time.Time
	deadline atomic.Pointer[time.Time] // the drain sets it, too
}

func (c *slowCaller) SetReadDeadline(at time.Time) error { c.deadline.Store(&at); return nil }
func (c *slowCaller) Close() error                       { return nil }

func (c *slowCaller) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	for time.Now().Before(*c.deadline.Load()) {
		time.Sleep(100 * time.Millisecond)
		if !c.more.IsZero() && time.Now().After(c.more) {
			c.more = time.Time{}
			p[0] = ' '
			return 1, nil
		}
	}
	return 0, os.ErrDeadlineExceeded
}

// A body that arrives with less than 1 KiB per second is refused long before the timeout. During the drain a
// caller gets 5 seconds for the rest, also of a body that is fast enough.
func TestR15_SlowBodies(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		bytes  int
		drains time.Duration // after which the gateway drains
		after  time.Duration
	}{
		"slow": {1024, 0, 6 * time.Second}, "nothing": {0, 0, 5 * time.Second}, "much": {600 << 10, 0, 10 * time.Minute},
		"drained": {600 << 10, time.Minute, time.Minute + 5*time.Second},
	} {
		parallel(t, name, func(t *testing.T) {
			c := proxytest.Config(t, oneUpstream("v2", refusedURL, timeouts(func(now *config.Timeouts) { now.Body = 10 * time.Minute }), "limits: {body: 2MiB}"))
			synctest.Test(t, func(t *testing.T) {
				g, err := proxy.New(c, proxy.Options{})
				must(t, err)
				began := time.Now()
				caller := &slowCaller{ResponseRecorder: httptest.NewRecorder(), Reader: strings.NewReader(strings.Repeat(" ", row.bytes))}
				if row.drains > 0 {
					time.AfterFunc(row.drains, g.Drain)
					caller.more = began.Add(row.drains + 2*time.Second)
				}
				g.ServeHTTP(caller, httptest.NewRequest(http.MethodPost, "/bill/read", caller))
				answer{caller.Code, caller.Header(), caller.Body.String()}.check(t, "v2", refused, "Nothing was sent: the body came too late.")
				equal(t, time.Since(began).Round(time.Second), row.after)
				equal(t, caller.Header().Get("Connection"), "close")
			})
		})
	}
}
