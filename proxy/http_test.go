package proxy_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Paths are matched as they were sent. Any other path is answered in the form of its prefix, also with a base path and
// with always-200. Another method on a documented path is a 405 with Allow and an envelope.
func TestR18_OnlyTheDocumentedPaths(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/partner", "/a.b/c"} {
		for status, want := range map[string]wantAnswer{"own": noSuchPath, "always-200": {200, "ERROR"}} {
			parallel(t, base+"/"+status, func(t *testing.T) {
				back := newBackend(t, replyWith(200, `{"code":"ERROR","message":"x","data":null}`))
				b := newGatewayTo(t, "v2", back, "base_path: "+base+"/", "failures: {status: "+status+"}")
				for form, paths := range map[string]string{
					"v2": "/ /bills /bill/ /Bill /bill/read/ ///bill /bill///read /./bill /x/../bill /%62ill " +
						"/bill%2Fread /bill;a=b /auth /if /IF/bill/read",
					"legacy": "/if/ /if/bill /if/bill/send/ /if///bill/send /if/bill/../bill/send " +
						"/if/bill/%73end /if/bill/create",
				} {
					for path := range strings.FieldsSeq(paths) {
						for _, method := range []string{"POST", "GET"} {
							t.Run(method+" "+path, func(t *testing.T) {
								got := b.do(method, base+path, newCall(form, "read").body())
								got.check(t, form, want)
								equal(t, got.header.Get("Location")+got.header.Get("Allow"), "")
							})
						}
					}
				}
				if base != "" {
					b.post("/bill/read", v2("read").body()).check(t, "v2", want)
				}
				for i := range 2 * len(operations) {
					q := newCall(forms[i%2], operations[i/2])
					for method := range strings.FieldsSeq("GET PUT PATCH DELETE OPTIONS TRACE post HEAD") {
						got := b.do(method, base+q.path(), q.body())
						equal(t, got.header.Get("Allow"), "POST", method, q.path())
						if got.is(t, map[string]int{"own": 405, "always-200": 200}[status]); method != "HEAD" {
							got.check(t, q.form, wantAnswer{got.status, "ERROR"})
						}
					}
				}
				back.expectCalls(t, 0)
			})
		}
	}
}

// The path in an upstream's url is put before the paths of the document.
func TestUpstreamPrefix(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"code":"BILL_003","msg":"x"}`))
	newGateway(t, oneUpstream("legacy", back.url+"/a%20b/partner/")).expect(v2("create"), noSuchBill)
	equal(t, back.first(t).target, "/a%20b/partner/if/bill/send")
	back.expectCalls(t, 1)
}

// JSON is recognised by its content type, or if there is none. Everything else, and any content coding, is refused
// with 415 and not sent.
func TestR17_ContentTypes(t *testing.T) {
	t.Parallel()
	for _, row := range tableOf(t) {
		for _, header := range row[1:] {
			for _, form := range forms {
				back := newBackend(t, newService())
				name, value, _ := strings.Cut(header, ": ")
				got := newGatewayTo(t, "v2", back).send(newCall(form, "create"), name, value)
				if row[0] == "taken" {
					got.check(t, form, success)
					back.expectCalls(t, 1)
				} else {
					got.check(t, form, wantAnswer{415, "VALIDATION_001"})
					back.expectCalls(t, 0)
				}
			}
		}
	}
}

// The id of the caller is used if it is valid, otherwise a new one. The answer, the upstream and the log have the same
// id.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	seen := map[string]bool{}
	for i, given := range [][]string{
		{"a-1_B.2:c"}, {strings.Repeat("x", 128)}, // the valid ones
		{strings.Repeat("x", 129)}, {""}, {"a b"}, {"a\"b"}, {"가"}, {"a\tb"}, {"a,b"}, {"one", "two"}, nil,
	} {
		var headers []string
		for _, id := range given {
			headers = append(headers, "X-Request-Id", id)
		}
		got := b.send(legacy("read"), headers...)
		id := got.header.Get("X-Request-Id")
		equal(t, len(given) > 0 && id == given[0], i < 2, given, id)
		equal(t, len(id) >= 5 && !seen[id], true, given, id)
		seen[id] = true
		for _, header := range []http.Header{got.header, b.back.last(t).header} {
			equal(t, strings.Join(header["X-Request-Id"], "|"), id)
		}
		checkText(t, b.logs.Next(t), `"id":"`+id+`"`)
	}
}

// Of the header of an upstream's reply only Retry-After reaches the caller. Keep-Alive is the gateway's own.
func TestHeadersOfAnswers(t *testing.T) {
	t.Parallel()
	answer := `{"code":"MAINTAINED_METHOD","message":"점검","data":null}`
	back := newBackend(t, replyWith(503, answer, "Retry-After", "120", "Set-Cookie", "a=b", "Server", "x", "X-Powered-By", "y",
		"Content-Type", "text/html", "Via", "1.1 z", "Connection", "close", "Keep-Alive", "timeout=7", "Location", "/elsewhere", "X-Request-Id", "theirs"))
	for _, form := range forms {
		b := newGatewayTo(t, "v2", back, "failures: {status: always-200}")
		got := b.send(newCall(form, "create"), "X-Request-Id", "mine")
		got.check(t, form, refused)
		got.header.Del("Date")
		want := http.Header{
			"Content-Type": {"application/json; charset=utf-8"}, "Retry-After": {"120"}, "X-Request-Id": {"mine"},
			"Content-Length": {strconv.Itoa(len(got.body))}, "Keep-Alive": {"timeout=115"},
		}
		equal(t, encode(got.header), encode(want), got.header, want)
	}
}

// The status and the envelope of an upstream reach the caller with any failures.status, which changes only the
// gateway's own refusals. Two statuses say when to call again.
func TestUpstreamStatusPassesThrough(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"own", "always-200"} {
		eachPair(t, func(t *testing.T, client, upstream string) {
			body := inForm(upstream, `{"code":"ERROR","message":"무엇","data":{"x":1}}`, `{"code":"ERROR","msg":"무엇"}`)
			for _, want := range []int{200, 201, 400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 502, 503, 504, 599} {
				b := newGatewayTo(t, upstream, newBackend(t, replyWith(want, body, "Retry-After", "7")), "failures: {status: "+how+"}")
				for _, op := range []string{"create", "read"} {
					got := b.send(newCall(client, op))
					equal(t, got.header.Get("Retry-After"), map[int]string{429: "7", 503: "7"}[want], want)
					if got.is(t, want, `"무엇"`); client == upstream {
						equal(t, got.body, body)
					} else {
						got.check(t, client, wantAnswer{want, "ERROR"})
					}
				}
			}
		})
	}
}

// ours are all headers that an upstream gets.
func ours(id string, length int) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"},
		"User-Agent": {"billbridge"}, "X-Request-Id": {id}, "Content-Length": {fmt.Sprint(length)},
	}
}

// Line breaks and NUL in any value of a body do not become headers.
func TestR22_NoBodyValueBecomesAHeader(t *testing.T) {
	t.Parallel()
	nasty := "a\r\nX-Evil: 1\r\n\r\nGET / HTTP/1.1\x00\n가"
	eachPair(t, func(t *testing.T, client, upstream string) {
		b := newBridge(t, upstream)
		for _, op := range operations {
			for _, field := range []string{"apiKey", "member", "merchant", "billId", "productName", "memberName", "phone", "message", "hash", "callbackUrl", "cancelReason"} {
				before := b.back.count()
				got := b.send(newCall(client, op).with(field, nasty))
				codeOf(t, client, got.body)
				calls := b.back.received()[before:]
				if len(calls) != 1 && (op != "read" || len(calls) != 2) { // a refused read is sent once more
					t.Fatalf("%s %s: the upstream saw %d calls", op, field, len(calls))
				}
				want := ours(got.header.Get("X-Request-Id"), len(calls[0].body))
				if op != "read" { // each write has a connection of its own
					want["Connection"] = []string{"close"}
				}
				if !maps.EqualFunc(calls[0].header, want, slices.Equal) {
					t.Errorf("%s %s: the upstream got %v", op, field, calls[0].header)
				}
				for name, values := range got.header {
					checkText(t, name+strings.Join(values, ""), "!Evil")
				}
			}
		}
	})
}

var subBusiness = map[string]string{
	"/auth/mapping": "mapping.register", "/read/mapping": "mapping.list", "/auth/mapping/status": "mapping.status",
	"/auth/merchant/mapping": "merchant.map", "/read/merchant": "merchant.list",
}

// Sub-business calls and replies pass byte for byte to a v2 upstream, also if the default upstream is legacy.
func TestSubBusinessCallsAreNotChanged(t *testing.T) {
	t.Parallel()
	request := "{ \"apiKey\" : \"demo-partner-key\",\n\t\"memberId\":\"m\",\"extra\":[1e3, {\"b\":\"\\u0041\"}] }\n"
	answer := " {\"data\":[{\"apiKey\":1.0,\"a\":\"\\u0041\"}],\r\n\"code\":\"0000\", \"message\":\"성공\"} "
	for _, config := range []string{
		"upstreams: {new: {form: v2, url: NEW}}\n",
		"upstreams: {old: {form: legacy, url: OLD}, new: {form: v2, url: NEW}}\nroute: {default: old}\n",
	} {
		fresh := newBackend(t, replyWith(200, answer))
		old := newBackend(t, replyWith(200, `{"code":"ERROR","msg":"x"}`))
		b := newGateway(t, strings.NewReplacer("NEW", fresh.url, "OLD", old.url).Replace(config))
		for path := range subBusiness {
			before := fresh.count()
			got := b.post(path, request)
			equal(t, fmt.Sprint(got.status, got.body), "200"+answer, path)
			call := fresh.last(t)
			equal(t, call.target+call.body, path+request)
			fresh.expectCalls(t, before+1)
		}
		old.expectCalls(t, 0)
	}
}

// A legacy upstream has no sub-business operations: the call is refused.
func TestSubBusinessWithoutAV2Upstream(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "legacy")
	for path := range subBusiness {
		b.post(path, `{"apiKey":"demo-partner-key"}`).check(t, "v2", wantAnswer{404, "PARTNER_001"})
	}
	b.back.expectCalls(t, 0)
}

// A request that the upstream's form cannot carry is refused with the code of the table. Nothing is sent.
func TestRequestThatCannotBeCarried(t *testing.T) { playFile(t) }
