package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// TestAnUpstreamThatHangsTakesNoOtherDown: its breaker opens, and further writes are refused for certain. Calls to
// the other upstream are answered, before and after. When it answers again, a read closes the breaker.
func TestAnUpstreamThatHangsTakesNoOtherDown(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, client, upstream string) {
		g, slow := newHeldBackend(t, "read", 20)
		b := newGateway(t, fmt.Sprintf("upstreams:\n  slow: {form: %s, url: %q, timeout: 1s}\n  good: {form: v2, url: %q}\n", upstream, slow.url, newBackend(t, newService()).url)+
			"route: {default: slow, pass: [/read/remain_count]}\n")
		other := func() {
			t.Helper()
			if upstream == "legacy" { // else the sub-business operations go to the slow one
				b.post("/read/merchant", `{"apiKey":"demo-partner-key"}`).check(t, "v2", success)
			}
		}
		var calling sync.WaitGroup
		for range 20 {
			calling.Go(func() {
				b.send(newCall(client, "read")).is(t, 504)
			})
		}
		other()
		calling.Wait()
		b.checkMetrics(`billbridge_upstream_breaker_state{upstream="slow"} 2`)
		before := slow.count()
		for _, op := range operations {
			after := b.expect(newCall(client, op), refused, "Nothing was sent: it is not possible now.").header.Get("Retry-After")
			equal(t, len(after) == 1 || len(after) == 2, true, after)
		}
		other()
		slow.expectCalls(t, before)
		g.open()
		b.checkMetrics(`billbridge_upstream_errors_total{reason="open",upstream="slow"} 5`,
			`billbridge_upstream_breaker_changes_total{state="open",upstream="slow"} 1`,
			`billbridge_upstream_breaker_changes_total{state="open",upstream="good"} 0`)
		checkText(t, b.logs.String(), "the breaker of an upstream is open")
	})
}

// holdTwoReads sends two reads that the gate holds at the upstream. They must be answered when finish opens it.
func (g *gate) holdTwoReads(t *testing.T, b *gateway, client string) (finish func()) {
	t.Helper()
	first, second := g.held(&b.caller, newCall(client, "read")), g.held(&b.caller, newCall(client, "read"))
	return func() {
		g.open()
		receive(t, first, "answer").is(t, 200)
		receive(t, second, "answer").is(t, 200)
	}
}

// TestPartnerLimits: a partner over limits.partner gets 503 in its form, and nothing is sent. Other partners are not
// affected.
func TestPartnerLimits(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, client, upstream string) {
		for status, code := range map[string]int{"own": 503, "always-200": 200} {
			parallel(t, status, func(t *testing.T) {
				g, back := newHeldBackend(t, "read", 2)
				text := oneUpstream(upstream, back.url, "failures: {status: "+status+"}")
				b := newGateway(t, text+"limits: {partner: {in_flight: 2}}\n")
				finish := g.holdTwoReads(t, b, client)
				over := func(limit string) {
					t.Helper()
					before := back.count()
					got := b.expect(newCall(client, "create"), wantAnswer{code, "MAINTAINED_METHOD"}, "Nothing was sent")
					equal(t, got.header.Get("Retry-After") != "", true)
					back.expectCalls(t, before)
					play(b, `
metric billbridge_requests_limited_total{limit="LIMIT"} 1
200:PARTNER_003 CLIENT read apiKey=another-partner-key`, "CLIENT", client, "LIMIT", limit)
				}
				over("partner_in_flight")
				finish()
				b.expect(newCall(client, "create"), success)

				b.Use(proxytest.Config(t, text+"limits: {partner: {rate: 0.1}}\n"+limits(func(l *config.Limits) { l.Partner.Burst = 2 })))
				play(b, "success "+client+" read,read")
				over("partner_rate")
			})
		}
	})
}

// TestR24_R26_R29_StatusesThatAreNoReply: 205 has no body, and statuses from 600 have no meaning. A success with one
// of them is none, and a redirect is not followed.
func TestR24_R26_R29_StatusesThatAreNoReply(t *testing.T) {
	t.Parallel()
	target := newBackend(t, newService())
	for _, status := range []int{205, 300, 301, 302, 303, 304, 307, 308, 399, 600, 999} {
		for _, upstream := range forms {
			body := inForm(upstream, `{"code":"0000","message":"ok","data":{}}`, `{"code":"0000","msg":"ok"}`)
			b := newGatewayTo(t, upstream, newBackend(t, replyWith(status, body, "Location", target.url+"/bill")))
			for _, client := range forms {
				for _, op := range []string{"read", "create"} {
					b.expect(newCall(client, op), noAnswer(op))
				}
			}
			b.checkMetrics(`billbridge_upstream_errors_total{reason="status",upstream="up"} 4`)
		}
	}
	target.expectCalls(t, 0)
}

// TestR15_RequestsInProgressAreLimited: in all, and of one source address unless it is trusted. One more gets 503 before its
// body is read, and its connection is closed.
func TestR15_RequestsInProgressAreLimited(t *testing.T) {
	t.Parallel()
	// Of an address, in all, trusted addresses, and whether a third call is limited.
	for _, row := range tableOf(t) {
		for _, client := range forms {
			g, back := newHeldBackend(t, "read", 2)
			b := newGatewayTo(t, "v2", back, "limits: {trusted: ["+row[2]+"]}", limits(func(l *config.Limits) {
				l.AddressConnections, _ = strconv.Atoi(row[0])
				l.InFlight, _ = strconv.Atoi(row[1])
			}))
			finish := g.holdTwoReads(t, b, client)
			create := newCall(client, "create")
			if row[3] == "" {
				b.expect(create, success)
			} else {
				got := b.raw(false, sized(create.path(), 1_000_000))
				if len(got) != 1 || got[0].header.Get("Retry-After") != "1" || got[0].header.Get("Connection") != "close" {
					t.Fatalf("%+v", got)
				}
				got[0].check(t, client, refused)
				b.checkMetrics(`billbridge_requests_limited_total{limit="in_flight"} 1`)
			}
			finish()
			for range 3 { // nothing is counted any more
				b.send(legacy("read")).is(t, 200)
			}
		}
	}
}

// TestR04_BodiesOfCallbacksCount: callbacks of which a part has come use limits.memory too. When it is used up, the
// callback that has been arriving for the longest time gets 503 with Retry-After and is not stored; the upstream sends
// it again.
func TestR04_BodiesOfCallbacksCount(t *testing.T) {
	t.Parallel()
	r := newCallbackGatewayWith(t, "v2", "}\nlimits: {body: 512KiB, memory: 1MiB}\n")
	play(r, "success legacy create callbackUrl="+r.partner.url)
	_, path, _ := strings.Cut(r.addressAtUpstream(1), ".example.com")
	r.useBudget(sized(path, 500<<10)+strings.Repeat(" ", 490<<10), 490<<10)
	play(r, `
metric billbridge_callbacks_refused_total{reason="no_memory",upstream="up"} 1
post 200 PATH {"apiKey":"demo-partner-key","billId":"1234567890ABCDEFGHIJ","apprState":"F","apprPrice":"30000"}`, "PATH", path)
	r.nthCallback(1)
}

// fewConnections returns the config of a gateway whose upstream has few connections, for which calls wait shortly.
func fewConnections(url, more string) string {
	return fmt.Sprintf("upstreams: {up: {form: v2, url: %q, %s}}\n", url, more) + waits(300*time.Millisecond)
}

// 30 creates arrive at the same time for an upstream that does not answer for a while. 5 are sent.
// The other 25 are refused after their wait, none with an unknown outcome.
func TestCallWithoutConnectionHasNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	const connections, calls = 5, 30
	g, back := newHeldBackend(t, "/bill", connections)
	b := newGateway(t, fewConnections(back.url, "connections: 9")+proxytest.Tuned(func(c *config.Config) { c.Upstreams[0].PartnerConnections = 5 }))
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
	)
}

// A create waits for the only connection while another call uses its whole timeout. The create still has its full
// timeout. The gauge counts it while it waits.
func TestTheTimeoutStartsWithAConnection(t *testing.T) {
	t.Parallel()
	g, back := newHeldBackend(t, "/bill/read", 1)
	b := newGateway(t, fewConnections(back.url, "connections: 1, timeout: 2s")+waitsLonger)
	late, waits := g.held(&b.caller, v2("read")), b.later(v2("create"))
	proxytest.Eventually(t, func() bool { return strings.Contains(b.scrape(), `billbridge_upstream_waiting{upstream="up"} 1`) }, func() string { return b.scrape() })
	b.checkMetrics(`billbridge_requests_in_flight{upstream="up"} 1`)
	receive(t, waits, "answer").check(t, "v2", success)
	receive(t, late, "answer").check(t, "v2", lateRead)
}

// Calls that hang, with any number of invented keys, leave connections to the partners.
func TestInventedKeysLeaveConnections(t *testing.T) {
	t.Parallel()
	g, service := newGate(t, "/bill/read", 3), newService()
	prepareBill(t, service, stateBefore["read"], demoBill)
	held := g.holdCalls(service)
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case r.Header.Get("X-Request-Id") == "invented":
			held.ServeHTTP(w, r)
		case bytes.Contains(body, []byte("key-of-refusals")):
			denies.ServeHTTP(w, r)
		default:
			service.ServeHTTP(w, r)
		}
	})
	b := newGateway(t, fewConnections(back.url, "connections: 4"))
	b.expect(v2("read"), success)
	b.expect(v2("read").with("apiKey", "key-of-refusals"), noSuchBill) // a refusal of the bill proves a key
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
	b.expect(v2("read").with("apiKey", "key-of-refusals"), noSuchBill)
}

// Calls without a key share the connections of one partner.
func TestCallsWithoutAKeyHaveAShare(t *testing.T) {
	t.Parallel()
	g := newGate(t, "/cash-receipt/issue", 1)
	back := newBackend(t, g.holdCalls(denies))
	b := newGateway(t, fewConnections(back.url, "connections: 2")+"route: {pass: [/cash-receipt/]}\n")
	ended := make(chan answer, 1)
	go func() { ended <- b.post("/cash-receipt/issue", `{}`) }()
	receive(t, g.reached, "call at the upstream")
	b.post("/cash-receipt/read", `{}`).check(t, "v2", refused, busy)
	b.expect(legacy("read"), noSuchBill)
	g.open()
	receive(t, ended, "answer").is(t, 200)
}

const busy = "Nothing was sent: it is not possible now."
