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

// checkBusyRefusal checks the refusal of a call that got no connection.
func checkBusyRefusal(t *testing.T, got answer, form string) {
	t.Helper()
	got.check(t, form, refused, "Nothing was sent: it is not possible now.")
}

// 30 creates arrive at the same time for an upstream with 5 connections that does not answer for a while. 5 are sent.
// The other 25 are refused after upstreams.NAME.wait, none with an unknown outcome.
func TestCallWithoutConnectionHasNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	const connections, calls = 5, 30
	g := newGate("/bill", connections)
	back := newBackend(t, g.holdCalls(newService()))
	b := newGateway(t, fewConnections(back.url, "connections: 5, partner_connections: 5, wait: 2s"))
	defer g.open()
	answers := make(chan answer, calls)
	for n := range calls {
		go func() { answers <- b.send(legacy("create").with("billId", fmt.Sprintf("B%019d", n))) }()
	}
	for range calls - connections {
		checkBusyRefusal(t, receive(t, answers, "refusal"), "legacy")
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
	g := newGate("/bill/read", 1)
	b := newGateway(t, fewConnections(newBackend(t, g.holdCalls(newService())).url, "connections: 1, wait: 30s, timeout: 2s"))
	defer g.open()
	read := v2("read")
	late := b.later(read)
	receive(t, g.reached, "call at the upstream")
	b.expect(v2("create"), success)
	receive(t, late, "answer").check(t, "v2", lateRead)
}

// By default a partner has a quarter of the connections. Its further calls wait, and calls of other partners do not
// wait for them.
func TestSlowCallsOfAPartnerUseOnlyItsShare(t *testing.T) {
	t.Parallel()
	g := newGate("/bill/read", 1)
	back := newBackend(t, g.holdCalls(denies))
	b := newGateway(t, fewConnections(back.url, "connections: 4, wait: 2s"))
	defer g.open()
	slow := v2("read")
	ended := b.later(slow)
	receive(t, g.reached, "call at the upstream")
	checkBusyRefusal(t, b.send(legacy("read")), "legacy")
	b.expect(legacy("read").with("apiKey", "another-partner-key"), noSuchBill)
	g.open()
	receive(t, ended, "answer").check(t, "v2", noSuchBill)
	b.expect(legacy("read"), noSuchBill)
	back.expectCalls(t, 3)
}

// Calls that hang, with any number of invented keys, leave connections to the partners.
func TestInventedKeysLeaveConnections(t *testing.T) {
	t.Parallel()
	g, service := newGate("/bill/read", 3), newService()
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
	defer g.open()
	b.expect(v2("read"), success)
	refused := make(chan answer, 6)
	for n := range 6 {
		go func() {
			refused <- b.send(v2("read").with("apiKey", fmt.Sprint("invented-", n)), "X-Request-Id", "invented")
		}()
	}
	for range 3 {
		receive(t, g.reached, "call at the upstream")
		checkBusyRefusal(t, receive(t, refused, "refusal"), "v2")
	}
	b.expect(v2("read"), success)
}

// Calls without a key share the connections of one partner.
func TestCallsWithoutAKeyHaveAShare(t *testing.T) {
	t.Parallel()
	g := newGate("/cash-receipt/issue", 1)
	back := newBackend(t, g.holdCalls(denies))
	b := newGateway(t, fewConnections(back.url, "connections: 2, partner_connections: 1, wait: 2s")+"route: {pass: [/cash-receipt/]}\n")
	defer g.open()
	ended := make(chan answer, 1)
	go func() { ended <- b.post("/cash-receipt/issue", `{}`) }()
	receive(t, g.reached, "call at the upstream")
	checkBusyRefusal(t, b.post("/cash-receipt/read", `{}`), "v2")
	b.expect(legacy("read"), noSuchBill)
	g.open()
	receive(t, ended, "answer").is(t, 200)
}

// The gauge counts calls while they wait.
func TestWaitingCallsAreCounted(t *testing.T) {
	t.Parallel()
	g := newGate("/bill/read", 1)
	b := newGateway(t, fewConnections(newBackend(t, g.holdCalls(newService())).url, "connections: 1, wait: 30s"))
	defer g.open()
	var calling sync.WaitGroup
	defer calling.Wait()
	defer g.open()
	for range 3 {
		calling.Go(func() { b.send(v2("read")) })
	}
	want := `billbridge_upstream_waiting{upstream="up"} 2`
	proxytest.Eventually(t, func() bool { return strings.Contains(b.scrape(), want) }, func() string { return "no " + want + " in\n" + b.scrape() })
	b.checkMetrics(`billbridge_requests_in_flight{upstream="up"} 1`)
}
