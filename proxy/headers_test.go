package proxy_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// ours are all headers that an upstream gets.
func ours(id string, length int) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"},
		"User-Agent": {"billbridge"}, "X-Request-Id": {id}, "Content-Length": {fmt.Sprint(length)},
	}
}

// Whatever headers a caller sends, or names in Connection, the upstream gets only those of the gateway, and the Host of
// the config. The names are those of RFC 9110 7.6.1 and others that proxies are known to mishandle.
func TestR19_R20_R21_R28_Headers(t *testing.T) {
	t.Parallel()
	corpus := proxytest.ReadFile(t, "testdata/headers-hop-by-hop/standard_hop_by_hop.txt")
	names := append(strings.Fields(string(corpus)),
		"X-Request-Id", "Content-Type", "Content-Length", "User-Agent", "Accept", "Accept-Encoding", "Authorization", "Cookie",
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X_Forwarded_For", "Forwarded", "X-Real-Ip", "X-Original-Url",
		"X-Http-Method-Override", "Idempotency-Key", "X-Idempotency-Key", "Expect", "Range", "If-None-Match", "Via", "Host_", "Traceparent")
	back := newBackend(t, replyWith(200, `{"code":"BILL_003","message":"x","data":null}`))
	b := newGateway(t, oneUpstream("v2", back.url))
	host := strings.TrimPrefix(back.url, "http://")
	for _, form := range forms {
		q := newCall(form, "read")
		plain := []string{"Host: evil.example", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(q.body()))}
		for _, name := range names {
			for how, lines := range map[string][]string{
				"as a token":          {"Connection: close, " + name},
				"as a token, in caps": {"Connection: close, " + strings.ToUpper(name)},
				"as a header":         {"Connection: close", name + ": evil"},
				"as both":             {"Connection: close, " + name, name + ": evil"},
			} {
				if how == "as a header" || how == "as both" {
					switch name {
					case "Transfer-Encoding", "Content-Length", "Content-Type", "Expect", "Connection", "Trailer":
						continue // these change the request itself: TestR10, TestR17
					}
				}
				t.Run(strings.Join([]string{form, name, how}, "/"), func(t *testing.T) {
					b.t = t
					before := len(back.received())
					text := "POST " + q.path() + " HTTP/1.1\r\n" + strings.Join(append(plain, lines...), "\r\n") + "\r\n\r\n" + q.body()
					got := b.raw(false, text)
					if len(got) != 1 {
						t.Fatalf("%d answers", len(got))
					}
					got[0].check(t, form, 200, "BILL_003")
					calls := back.received()
					if len(calls) != before+1 {
						t.Fatalf("the upstream got %d calls", len(calls)-before)
					}
					call := calls[before]
					id := got[0].header.Get("X-Request-Id")
					if want := ours(id, len(call.body)); !maps.EqualFunc(call.header, want, slices.Equal) {
						t.Errorf("the upstream got %v, want %v", call.header, want)
					}
					if call.host != host {
						t.Errorf("Host is %q", call.host)
					}
				})
			}
		}
	}
}

// The gateway reads the body itself and sends no Expect.
func TestR28_ExpectIsNotForwarded(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	b := newGateway(t, oneUpstream("v2", back.url))
	b.send(newCall("legacy", "create"), "Expect", "100-continue").check(t, "legacy", 200, "0000")
	if got := back.received(); len(got) != 1 || got[0].header.Get("Expect") != "" {
		t.Errorf("%+v", got)
	}
}

// Line breaks and NUL in any value of a body do not become headers.
func TestR22_NoBodyValueBecomesAHeader(t *testing.T) {
	t.Parallel()
	nasty := "a\r\nX-Evil: 1\r\n\r\nGET / HTTP/1.1\x00\n가"
	for _, client := range forms {
		for _, upstream := range forms {
			service := newService()
			back := newBackend(t, service)
			b := newGateway(t, oneUpstream(upstream, back.url))
			for _, op := range operations {
				for _, field := range []string{"apiKey", "member", "merchant", "billId", "productName", "memberName", "phone", "message", "hash", "callbackUrl", "cancelReason"} {
					before := len(back.received())
					got := b.send(newCall(client, op).with(field, nasty))
					codeOf(t, client, got.body)
					calls := back.received()[before:]
					if len(calls) != 1 {
						t.Fatalf("%s %s: the upstream saw %d calls", op, field, len(calls))
					}
					if want := ours(got.header.Get("X-Request-Id"), len(calls[0].body)); !maps.EqualFunc(calls[0].header, want, slices.Equal) {
						t.Errorf("%s %s: the upstream got %v", op, field, calls[0].header)
					}
					for name, values := range got.header {
						if strings.Contains(name+strings.Join(values, ""), "Evil") {
							t.Errorf("%s %s: the caller got %v", op, field, got.header)
						}
					}
				}
			}
		}
	}
}
