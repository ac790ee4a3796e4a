package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/proxytest"
)

// fewConnections returns the config of a gateway whose upstream has few connections.
func fewConnections(url, more string) string {
	return fmt.Sprintf("upstreams: {up: {form: v2, url: %q, %s}}\n", url, more)
}

// 30 creates arrive at the same time for an upstream with 5 connections that does not answer for a while. 5 are sent.
// The other 25 are refused after upstreams.NAME.wait, none with an unknown outcome.
func TestCallWithoutConnectionHasNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	const connections, calls = 5, 30
	g, back := newHeldBackend(t, "/bill", connections)
	b := newGateway(t, fewConnections(back.url, "connections: 5, partner_connections: 5, wait: 2s"))
	answers := make(chan answer, calls)
	for n := range calls {
		go func() { answers <- b.send(legacy("create").with("billId", fmt.Sprintf("B%019d", n))) }()
	}
	for range calls - connections {
		receive(t, answers, "refusal").check(t, "legacy", refused, busy)
	}
	g.open()
	for range connections {
		receive(t, answers, "answer").check(t, "legacy", success)
	}
	back.expectCalls(t, connections)
	b.checkMetrics(
		`billbridge_upstream_errors_total{reason="busy",upstream="up"} 25`,
		`billbridge_upstream_waiting{upstream="up"} 0`,
		`billbridge_upstream_wait_seconds_count{upstream="up"} 30`,
	)
}

// A create waits for the only connection while another call uses its whole timeout. The create still has its full
// timeout.
func TestTheTimeoutStartsWithAConnection(t *testing.T) {
	t.Parallel()
	g, back := newHeldBackend(t, "/bill/read", 1)
	b := newGateway(t, fewConnections(back.url, "connections: 1, wait: 30s, timeout: 2s"))
	late := g.held(&b.caller, v2("read"))
	b.expect(v2("create"), success)
	receive(t, late, "answer").check(t, "v2", lateRead)
}

// By default a partner has a quarter of the connections. Its further calls wait, and calls of other partners do not
// wait for them.
func TestSlowCallsOfAPartnerUseOnlyItsShare(t *testing.T) {
	t.Parallel()
	g, back := newHeldBackend(t, "/bill/read", 1)
	b := newGateway(t, fewConnections(back.url, "connections: 4, wait: 2s"))
	ended := g.held(&b.caller, v2("read"))
	play(b, "refused legacy read | "+busy+"\n200:PARTNER_003 legacy read apiKey=another-partner-key")
	g.open()
	receive(t, ended, "answer").check(t, "v2", noSuchBill)
	b.expect(legacy("read"), noSuchBill)
	back.expectCalls(t, 3)
}

// Calls that hang, with any number of invented keys, leave connections to the partners.
func TestInventedKeysLeaveConnections(t *testing.T) {
	t.Parallel()
	g, service := newGate(t, "/bill/read", 3), newService()
	prepareBill(t, service, stateBefore["read"], demoBill)
	held := g.holdCalls(service)
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") == "invented" {
			held.ServeHTTP(w, r)
			return
		}
		service.ServeHTTP(w, r)
	})
	b := newGateway(t, fewConnections(back.url, "connections: 4, wait: 2s"))
	b.expect(v2("read"), success)
	answers := make(chan answer, 6)
	for n := range 6 {
		go func() {
			answers <- b.send(v2("read").with("apiKey", fmt.Sprint("invented-", n)), "X-Request-Id", "invented")
		}()
	}
	for range 3 {
		receive(t, g.reached, "call at the upstream")
		receive(t, answers, "refusal").check(t, "v2", refused, busy)
	}
	b.expect(v2("read"), success)
}

// Calls without a key share the connections of one partner.
func TestCallsWithoutAKeyHaveAShare(t *testing.T) {
	t.Parallel()
	g := newGate(t, "/cash-receipt/issue", 1)
	back := newBackend(t, g.holdCalls(denies))
	b := newGateway(t, fewConnections(back.url, "connections: 2, partner_connections: 1, wait: 2s")+"route: {pass: [/cash-receipt/]}\n")
	ended := make(chan answer, 1)
	go func() { ended <- b.post("/cash-receipt/issue", `{}`) }()
	receive(t, g.reached, "call at the upstream")
	b.post("/cash-receipt/read", `{}`).check(t, "v2", refused, busy)
	b.expect(legacy("read"), noSuchBill)
	g.open()
	receive(t, ended, "answer").is(t, 200)
}

// The gauge counts calls while they wait.
func TestWaitingCallsAreCounted(t *testing.T) {
	t.Parallel()
	g, back := newHeldBackend(t, "/bill/read", 1)
	b := newGateway(t, fewConnections(back.url, "connections: 1, wait: 30s"))
	var calling sync.WaitGroup
	defer func() { g.open(); calling.Wait() }()
	for range 3 {
		calling.Go(func() { b.send(v2("read")) })
	}
	proxytest.Eventually(t, func() bool { return strings.Contains(b.scrape(), `billbridge_upstream_waiting{upstream="up"} 2`) }, func() string { return b.scrape() })
	b.checkMetrics(`billbridge_requests_in_flight{upstream="up"} 1`)
}

const busy = "Nothing was sent: it is not possible now."
