package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// sendPart opens a connection and sends the header of a call and a part of its body.
func sendPart(p *process, q call, length int, part string) net.Conn {
	p.t.Helper()
	return p.open(head(q.path(), fmt.Sprintf("Content-Length: %d\r\n", length)) + part)
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
	p.useBudget(head(q.path(), fmt.Sprintf("Content-Length: %d\r\n", 500<<10))+strings.Repeat(" ", 400<<10), 26*16<<10)
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
