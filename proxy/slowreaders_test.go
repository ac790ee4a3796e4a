package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

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

// heldBytes is how much of the budget for bodies is used.
func heldBytes(p *process) float64 { return gauge(p, "billbridge_body_bytes") }

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
			p := newLargeReplies(t, limits, "timeouts: {body: 10m, write: 10m}")
			large := newCall(client, "read").with("billId", "LARGE")
			var slow []net.Conn
			used := 0.0
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
				used = max(used, heldBytes(p))
			}
			if used < budget/2 || used > budget {
				t.Errorf("%.0f bytes of the budget are used, of %d", used, budget)
			}
			eventually(t, "no large answer", func() bool {
				got := p.send(large)
				return got.status == 200 && len(got.body) > 4_000_000
			})
			eventually(t, "no slow reader is disconnected", func() bool { return gauge(p, "billbridge_connections") < float64(len(slow)) })
			for _, c := range slow {
				_ = c.Close()
			}
			proxytest.Eventually(t, func() bool { return heldBytes(p) == 0 }, func() string { return fmt.Sprint(heldBytes(p), " bytes are held") })
		})
	}
}

// The reply to a write is read whatever is left of the budget: else its outcome would become unknown.
func TestR26_ReplyToAWriteNeedsNoBudget(t *testing.T) {
	t.Parallel()
	p := newLargeReplies(t, "limits: {body: 512KiB, memory: 2MiB}", "failures: {explain: 0s}")
	for op, want := range map[string]wantAnswer{"read": {502, "ERROR"}, "destroy": {200, "BILL_003"}} {
		p.send(legacy(op).with("billId", "LARGE")).check(t, "legacy", want)
		proxytest.Eventually(t, func() bool { return heldBytes(p) == 0 }, func() string { return fmt.Sprint(heldBytes(p), " bytes are held") })
	}
}

// A slow reader of a large answer is disconnected after timeouts.write, however long bodies and calls may take.
func TestR15_SlowReaderHasTimeoutsWrite(t *testing.T) {
	t.Parallel()
	p := newLargeReplies(t, "timeouts: {body: 10m, write: 200ms, idle: 10m}")
	_, status := readSlowly(t, p, v2("read").with("billId", "LARGE"))
	if status != 200 {
		t.Fatalf("HTTP %d", status)
	}
	eventually(t, "the connection is open", func() bool { return gauge(p, "billbridge_connections") == 0 })
}
