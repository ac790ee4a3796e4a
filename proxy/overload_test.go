package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/proxytest"
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
				q := newCall(client, "read")
				got := b.send(q)
				equal(t, got.status, 504, got)
			})
		}
		other()
		calling.Wait()
		b.checkMetrics(`billbridge_upstream_breaker_state{upstream="slow"} 2`)
		before := slow.count()
		for _, op := range operations {
			got := b.expect(newCall(client, op), refused)
			if after := got.header.Get("Retry-After"); after == "" || len(after) > 2 || !strings.Contains(got.body, "Nothing was sent: it is not possible now.") {
				t.Errorf("Retry-After %q, %s", after, got.body)
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
			q := newCall(client, "read")
			if got := b.send(q); got.status != 200 {
				t.Errorf("%+v", got)
			}
		})
		receive(t, g.reached, "call at the upstream")
	}
	return calling
}

// TestPartnerLimits: a partner over limits.partner gets 503 in its form, and nothing is sent. Other partners are not
// affected.
func TestPartnerLimits(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for _, upstream := range forms {
			for _, status := range []string{"own", "always-200"} {
				parallel(t, client+"/"+upstream+"/"+status, func(t *testing.T) {
					g := newGate("read", 2)
					back := newBackend(t, g.holdCalls(newService()))
					text := oneUpstream(upstream, back.url, "failures: {status: "+status+"}")
					b := newGateway(t, text+"limits: {partner: {in_flight: 2}}\n")
					defer g.open()
					calling := g.holdTwoReads(t, b, client)
					want := map[string]int{"own": 503, "always-200": 200}[status]
					wantOver := func(limit string) {
						t.Helper()
						got := b.expect(newCall(client, "create"), wantAnswer{want, "MAINTAINED_METHOD"})
						if got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "Nothing was sent") {
							t.Errorf("%v %s", got.header, got.body)
						}
						b.checkMetrics(fmt.Sprintf(`billbridge_requests_limited_total{limit=%q} 1`, limit))
					}
					wantOver("partner_in_flight")
					b.expect(newCall(client, "read").with("apiKey", "another-partner-key"), wantAnswer{200, "PARTNER_003"})
					g.open()
					calling.Wait()
					b.expect(newCall(client, "create"), success)

					b.Use(parse(t, text+"limits: {partner: {rate: 0.1, burst: 2}}\n"))
					b.expect(newCall(client, "read"), success)
					b.expect(newCall(client, "read"), success)
					before := back.count()
					wantOver("partner_rate")
					b.expect(newCall(client, "read").with("apiKey", "another-partner-key"), wantAnswer{200, "PARTNER_003"})
					back.expectCalls(t, before+1)
				})
			}
		}
	}
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
	for status, passed := range map[int]bool{200: false, 400: false, 429: true, 500: false, 502: false, 503: true} {
		back := newBackend(t, replyWith(status, `{"code":"MAINTAINED_METHOD","message":"x","data":null}`, "Retry-After", "7"))
		got := newGatewayTo(t, "v2", back).send(v2("create"))
		if (got.header.Get("Retry-After") == "7") != passed || got.status != status {
			t.Errorf("HTTP %d: %d, %v", status, got.status, got.header)
		}
	}
	for given, passed := range map[string]bool{
		"0": true, "1": true, "86400": true, "Sun, 22 Nov 2026 16:00:30 GMT": true,
		"86401": false, "-1": false, "+1": false, "1.5": false, "1e3": false, "99999999999999999999": false, "soon": false, "": false,
		"tomorrow 01000000000": false, "1, 2": false, "0x10": false,
	} {
		back := newBackend(t, replyWith(503, `{"code":"MAINTAINED_METHOD","message":"x","data":null}`, "Retry-After", given))
		got := newGatewayTo(t, "v2", back).send(v2("create"))
		want := ""
		if passed {
			want = given
		}
		equal(t, got.header.Get("Retry-After"), want, given)
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
		if got := b.send(legacy("create")); got.status != status {
			t.Errorf("%s: %d %s, want %d", limits, got.status, got.body, status)
		}
		g.open()
		calling.Wait()
		for range 3 { // nothing is counted any more
			if got := b.send(legacy("read")); got.status != 200 {
				t.Errorf("%s: then %d %s", limits, got.status, got.body)
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
	r.expect(legacy("create").with("callbackUrl", r.partner.url), success)
	address, err := url.Parse(r.addressAtUpstream(t, 1))
	must(t, err)
	header := "POST " + address.Path + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
	part := fmt.Sprintf(header, 500<<10) + strings.Repeat(" ", 490<<10)
	held := func() string { return r.metrics() }
	var open []net.Conn
	for n := range 2 {
		open = append(open, r.open(part))
		proxytest.Eventually(t, func() bool { return r.bodyBytes() == (n+1)*490<<10 }, held)
	}
	open = append(open, r.open(part))
	response, err := http.ReadResponse(bufio.NewReader(open[0]), nil)
	must(t, err)
	if response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" || !response.Close {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
	r.checkMetric(`billbridge_callbacks_refused_total{reason="no_memory",upstream="up"} 1`)
	for _, c := range open {
		_ = c.Close()
	}
	proxytest.Eventually(t, func() bool { return strings.Contains(held(), "billbridge_body_bytes 0\n") }, held)
	callback := `{"apiKey":"demo-partner-key","billId":"` + demoBill + `","apprState":"F","apprPrice":"30000"}`
	again := r.open(fmt.Sprintf(header+"%s", len(callback), callback))
	if response, err := http.ReadResponse(bufio.NewReader(again), nil); err != nil || response.StatusCode != 200 {
		t.Fatalf("%v %+v", err, response)
	}
	r.nthCallback(1)
}
