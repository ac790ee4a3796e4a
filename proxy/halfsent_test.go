package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// aMinute is the length of a part of a body for which the gateway waits for a minute: 1 KiB per second.
const aMinute = 60 << 10

// bodyBytes is how much of the budget for bodies is used.
func (p *process) bodyBytes() int { return int(gauge(p, "billbridge_body_bytes")) }

// Half-sent bodies that need several times the budget keep out nobody who sends at a normal pace: not from one source,
// not from a thousand, not from behind the caller's own NAT or load balancer, and not if they use up all connections
// and requests in progress. What is cut was not sent.
func TestR04_R15_HalfSentBodiesKeepNobodyOut(t *testing.T) {
	if !proxytest.Long() { // 10,000 connections need most of the files of a process
		t.Parallel()
	}
	bodies := proxytest.Size(400, 10_000)
	const half = 10 << 10
	most := bodies / 4 * 16 << 10 // of the budget: each takes 16 KiB
	attackers := map[string]func(n int) string{
		"one":        func(int) string { return "192.0.2.1" },
		"a thousand": func(n int) string { return fmt.Sprintf("10.0.%d.%d", n%1000/250, n%250) },
	}
	const many = 100_000
	// What they use up, the source of the attackers, the caller's, and who is trusted.
	for _, row := range tableOf(t) {
		t.Run(strings.Join(row, " "), func(t *testing.T) {
			if !proxytest.Long() {
				t.Parallel()
			}
			back := newBackend(t, newService())
			text := fmt.Sprintf("limits: {body: 128KiB, memory: %dKiB, trusted: [%s]}", most>>10, row[3])
			p := newFarProcess(t, anyPort+oneUpstream("v2", back.url, text, limits(func(l *config.Limits) {
				l.Connections, l.InFlight, l.AddressConnections = many, many, many
				switch row[0] {
				case "connections":
					l.Connections = bodies / 8
				case "requests":
					l.InFlight = bodies / 8
				}
			})), func(n int) string {
				if n == bodies || n == bodies+1 {
					return row[2]
				}
				return attackers[row[1]](n)
			})
			q := v2("create")
			attack := func(n int) {
				for range n {
					sendPart(p, q, 100<<10, strings.Repeat(" ", half))
				}
			}
			attack(bodies)
			p.expect(q, success) // whole at once
			rest := v2("read").body()[1:]
			c := sendPart(p, v2("read"), 1+aMinute+len(rest), "{"+strings.Repeat(" ", aMinute))
			attack(bodies / 50)
			_, _ = fmt.Fprint(c, rest)
			if !answeredWith(c, "0000") {
				t.Error("a body that came in two parts is refused")
			}
			if n := p.bodyBytes(); n > most {
				t.Errorf("%d bytes are held, the budget is %d", n, most)
			}
			back.expectCalls(t, 2)
		})
	}
}

// Half-sent bodies of one source never use more than its share: they cut each other, and not an older one of another
// source.
func TestR15_SourceHasAShareOfTheBudget(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	p := newFarProcess(t, anyPort+oneUpstream("v2", back.url, "limits: {reply: 64KiB, body: 256KiB, memory: 4MiB}", timeouts(func(now *config.Timeouts) { now.Body = 5 * time.Minute })), func(n int) string {
		if n == 0 {
			return "198.51.100.7"
		}
		return "192.0.2.1"
	})
	q := legacy("create")
	rest := q.body()[1:]
	first := sendPart(p, q, 1+aMinute+len(rest), "{"+strings.Repeat(" ", aMinute))
	const held = (aMinute>>14 + 1) << 14
	p.waitForMetric("billbridge_body_bytes", held)
	for range 50 {
		sendPart(p, q, 200<<10, strings.Repeat(" ", 150<<10))
	}
	const each = 10 * 16 << 10
	p.waitForMetric("billbridge_body_bytes", held+6*each)
	_, _ = fmt.Fprint(first, rest)
	if !answeredWith(first, "0000") {
		t.Error("the body of another source is refused")
	}
}
