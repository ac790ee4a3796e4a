package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestAnUpstreamThatHangsTakesNoOtherDown: its breaker opens, and further writes are refused for certain. Calls to
// the other upstream are answered, before and after. When it answers again, a read closes the breaker.
func TestAnUpstreamThatHangsTakesNoOtherDown(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, client, upstream string) {
		g := newGate("read", 20)
		slow := newBackend(t, g.holdCalls(newService()))
		good := newBackend(t, newService())
		b := newGateway(t, fmt.Sprintf("upstreams:\n  slow: {form: %s, url: %q, timeout: 1s}\n  good: {form: v2, url: %q}\n", upstream, slow.url, good.url)+
			"route: {default: slow, pass: [/read/remain_count]}\n")
		defer g.open()
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
			got := b.expect(newCall(client, op), refused, "Nothing was sent: it is not possible now.")
			if after := got.header.Get("Retry-After"); after == "" || len(after) > 2 {
				t.Errorf("Retry-After %q", after)
			}
		}
		other()
		slow.expectCalls(t, before)
		b.EndPause("slow")
		b.expect(newCall(client, "create"), refused)
		b.expect(newCall(client, "read"), noSuchBill)
		b.expect(newCall(client, "create"), success)
		b.checkMetrics(
			`billbridge_upstream_breaker_state{upstream="slow"} 0`,
			`billbridge_upstream_breaker_changes_total{state="open",upstream="slow"} 1`,
			`billbridge_upstream_breaker_changes_total{state="closed",upstream="slow"} 1`,
			`billbridge_upstream_errors_total{reason="open",upstream="slow"} 6`,
			`billbridge_upstream_breaker_changes_total{state="open",upstream="good"} 0`,
		)
		checkText(t, b.logs.String(), "the breaker of an upstream is open", "is closed: it answers again")
	})
}

// holdTwoReads sends two reads that the gate holds at the upstream. They must be answered when it opens.
func (g *gate) holdTwoReads(t *testing.T, b *gateway, client string) (calling *sync.WaitGroup) {
	t.Helper()
	calling = new(sync.WaitGroup)
	for range 2 {
		calling.Go(func() {
			b.send(newCall(client, "read")).is(t, 200)
		})
		receive(t, g.reached, "call at the upstream")
	}
	return calling
}

// TestPartnerLimits: a partner over limits.partner gets 503 in its form, and nothing is sent. Other partners are not
// affected.
func TestPartnerLimits(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, client, upstream string) {
		for status, code := range map[string]int{"own": 503, "always-200": 200} {
			parallel(t, status, func(t *testing.T) {
				g := newGate("read", 2)
				back := newBackend(t, g.holdCalls(newService()))
				text := oneUpstream(upstream, back.url, "failures: {status: "+status+"}")
				b := newGateway(t, text+"limits: {partner: {in_flight: 2}}\n")
				defer g.open()
				calling := g.holdTwoReads(t, b, client)
				over := func(limit string) {
					t.Helper()
					before := back.count()
					got := b.expect(newCall(client, "create"), wantAnswer{code, "MAINTAINED_METHOD"}, "Nothing was sent")
					equal(t, got.header.Get("Retry-After") != "", true)
					back.expectCalls(t, before)
					b.checkMetrics(fmt.Sprintf(`billbridge_requests_limited_total{limit=%q} 1`, limit))
					b.expect(newCall(client, "read").with("apiKey", "another-partner-key"), wantAnswer{200, "PARTNER_003"})
				}
				over("partner_in_flight")
				g.open()
				calling.Wait()
				b.expect(newCall(client, "create"), success)

				b.Use(parse(t, text+"limits: {partner: {rate: 0.1, burst: 2}}\n"))
				b.expect(newCall(client, "read"), success)
				b.expect(newCall(client, "read"), success)
				over("partner_rate")
			})
		}
	})
}

// TestRequestsInProgressAreLimited: one more gets 503 before its body is read, and its connection is closed.
func TestRequestsInProgressAreLimited(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		g := newGate("read", 2)
		back := newBackend(t, g.holdCalls(newService()))
		b := newGatewayTo(t, "v2", back, "limits: {in_flight: 2}")
		defer g.open()
		calling := g.holdTwoReads(t, b, client)
		got := b.raw(false, head(newCall(client, "create").path(), "Content-Length: 1000000\r\n"))
		if len(got) != 1 || got[0].header.Get("Retry-After") != "1" || got[0].header.Get("Connection") != "close" {
			t.Fatalf("%+v", got)
		}
		got[0].check(t, client, refused)
		b.checkMetrics(`billbridge_requests_limited_total{limit="in_flight"} 1`)
		g.open()
		calling.Wait()
		b.expect(newCall(client, "create"), success)
	}
}

// TestR24_R26_R29_StatusesThatAreNoReply: 205 has no body, and statuses from 600 have no meaning. A success with one
// of them is none, and a redirect is not followed.
func TestR24_R26_R29_StatusesThatAreNoReply(t *testing.T) {
	t.Parallel()
	target := newBackend(t, newService())
	for _, status := range []int{205, 300, 301, 302, 303, 304, 307, 308, 399, 600, 999} {
		for _, upstream := range forms {
			body := map[string]string{"v2": `{"code":"0000","message":"ok","data":{}}`, "legacy": `{"code":"0000","msg":"ok"}`}[upstream]
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

func TestRetryAfterOfUpstreams(t *testing.T) {
	t.Parallel()
	passed := func(status int, given string) string {
		t.Helper()
		back := newBackend(t, replyWith(status, `{"code":"MAINTAINED_METHOD","message":"x","data":null}`, "Retry-After", given))
		return newGatewayTo(t, "v2", back).expect(v2("create"), wantAnswer{status, "MAINTAINED_METHOD"}).header.Get("Retry-After")
	}
	for status, want := range map[int]string{200: "", 400: "", 429: "7", 500: "", 502: "", 503: "7"} {
		equal(t, passed(status, "7"), want, status)
	}
	for _, valid := range []string{"0", "1", "86400", "Sun, 22 Nov 2026 16:00:30 GMT"} {
		equal(t, passed(503, valid), valid)
	}
	for _, row := range rows("86401 | -1 | +1 | 1.5 | 1e3 | 99999999999999999999 | soon | | tomorrow 01000000000 | 1, 2 | 0x10") {
		for _, invalid := range row {
			equal(t, passed(503, invalid), "", invalid)
		}
	}
}

// TestReadsOfTheGatewayOpenNoBreaker: failures.explain is shorter than the timeout of the upstream. An upstream that
// is slower than the first and faster than the second is called.
func TestReadsOfTheGatewayOpenNoBreaker(t *testing.T) {
	t.Parallel()
	g := newGate("read", 20)
	service := g.holdCalls(newService())
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v2("create").path() {
			panic(http.ErrAbortHandler) // an unknown outcome: the gateway reads the bill
		}
		service.ServeHTTP(w, r)
	})
	b := newGatewayTo(t, "v2", back, "failures: {explain: 20ms}")
	defer g.open()
	for range 20 {
		b.expect(v2("create"), unknown)
	}
	b.checkMetrics(`billbridge_upstream_errors_total{reason="timeout",upstream="up"} 20`, `billbridge_upstream_breaker_state{upstream="up"} 0`)
	g.open()
	b.expect(v2("read"), noSuchBill)
}

// TestRequestsOfOneAddressAreLimited: one source address has at most limits.address_connections requests in
// progress, unless it is trusted.
func TestRequestsOfOneAddressAreLimited(t *testing.T) {
	t.Parallel()
	for limits, status := range map[string]int{
		"address_connections: 2":                              503,
		"address_connections: 2, trusted: [192.0.2.0/24]":     503,
		"address_connections: 2, trusted: [127.0.0.0/8]":      200,
		"address_connections: 3":                              200,
		"in_flight: 2":                                        503,
		"in_flight: 2, trusted: [127.0.0.0/8, '::1/128']":     503,
		"in_flight: 10, address_connections: 1000, depth: 32": 200,
	} {
		g := newGate("read", 2)
		back := newBackend(t, g.holdCalls(newService()))
		b := newGatewayTo(t, "v2", back, "limits: {"+limits+"}")
		defer g.open()
		calling := g.holdTwoReads(t, b, "v2")
		b.send(legacy("create")).is(t, status)
		g.open()
		calling.Wait()
		for range 3 { // nothing is counted any more
			b.send(legacy("read")).is(t, 200)
		}
	}
}

// TestR04_BodiesOfCallbacksCount: callbacks of which a part has come use limits.memory too. When it is used up, the
// callback that has been arriving for the longest time gets 503 with Retry-After and is not stored; the upstream sends
// it again.
func TestR04_BodiesOfCallbacksCount(t *testing.T) {
	t.Parallel()
	r := newCallbackGatewayWith(t, "v2", "}\nlimits: {body: 512KiB, memory: 1MiB}\n")
	r.expect(legacy("create").with("callbackUrl", r.partner.url), success)
	_, path, _ := strings.Cut(r.addressAtUpstream(t, 1), ".example.com")
	r.useBudget(head(path, fmt.Sprintf("Content-Length: %d\r\n", 500<<10))+strings.Repeat(" ", 490<<10), 490<<10)
	r.checkMetric(`billbridge_callbacks_refused_total{reason="no_memory",upstream="up"} 1`)
	r.post(path, `{"apiKey":"demo-partner-key","billId":"`+demoBill+`","apprState":"F","apprPrice":"30000"}`).is(t, 200)
	r.nthCallback(1)
}
