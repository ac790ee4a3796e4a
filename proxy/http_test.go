package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Paths are matched as they were sent. Any other path is answered in the form of its prefix, also with a base path and
// with always-200.
func TestR18_OnlyTheDocumentedPaths(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/partner", "/a.b/c"} {
		for _, status := range []string{"own", "always-200"} {
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
								got.check(t, form, wantAnswer{map[string]int{"own": 404, "always-200": 200}[status], "ERROR"})
								if got.header.Get("Location") != "" || got.header.Get("Allow") != "" {
									t.Errorf("%v", got.header)
								}
							})
						}
					}
				}
				if base != "" {
					b.post("/bill/read", v2("read").body()).check(t, "v2", wantAnswer{map[string]int{"own": 404, "always-200": 200}[status], "ERROR"})
				}
				back.expectCalls(t, 0)
			})
		}
	}
}

// Another method on a documented path is a 405 with Allow and an envelope.
func TestMethods(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		for status, want := range map[string]int{"own": 405, "always-200": 200} {
			back := newBackend(t, replyWith(200, "{}"))
			b := newGatewayTo(t, "v2", back, "failures: {status: "+status+"}")
			for _, op := range operations {
				for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "HEAD"} {
					q := newCall(form, op)
					got := b.do(method, q.path(), q.body())
					if method == "HEAD" {
						got.body = `{"code":"ERROR","message":"a","msg":"a","data":null}`
						if got.status != want || got.header.Get("Allow") != "POST" {
							t.Errorf("HEAD: %d %v", got.status, got.header)
						}
						continue
					}
					got.check(t, form, wantAnswer{want, "ERROR"})
					equal(t, got.header.Get("Allow"), "POST", method, q.path())
				}
			}
			back.expectCalls(t, 0)
		}
	}
}

// The path in an upstream's url is put before the paths of the document.
func TestUpstreamPrefix(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"code":"BILL_003","msg":"x"}`))
	b := newGateway(t, oneUpstream("legacy", back.url+"/a%20b/partner/"))
	b.expect(v2("create"), noSuchBill)
	if got := back.received(); len(got) != 1 || got[0].target != "/a%20b/partner/if/bill/send" {
		t.Errorf("%+v", got)
	}
}

// JSON is recognised by its content type, or if there is none. Everything else, and any content coding, is refused
// with 415 and not sent.
func TestR17_ContentTypes(t *testing.T) {
	t.Parallel()
	for status, headers := range map[int][]string{
		200: {
			"Content-Type: application/json", "Content-Type: application/json; charset=utf-8",
			"Content-Type: application/json;charset=EUC-KR", "Content-Type: Application/JSON ; a=\"b\"", "Content-Type: -", "Content-Encoding: identity",
		},
		415: {
			"Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded",
			"Content-Type: application/json, text/plain", "Content-Type: application/json+x",
			"Content-Type: application/jsonp", "Content-Type: json", "Content-Encoding: gzip",
			"Content-Encoding: identity, gzip",
		},
	} {
		for _, header := range headers {
			for _, form := range forms {
				back := newBackend(t, newService())
				b := newGatewayTo(t, "v2", back)
				name, value, _ := strings.Cut(header, ": ")
				code := map[int]string{200: "0000", 415: "VALIDATION_001"}[status]
				b.send(newCall(form, "create"), name, value).check(t, form, wantAnswer{status, code})
				if n := back.count(); (n == 1) != (status == 200) {
					t.Errorf("%s: the upstream got %d calls", header, n)
				}
			}
		}
	}
}

// The id of the caller is used if it is valid, otherwise a new one. The answer, the upstream and the log have the same
// id.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	b := newGatewayTo(t, "v2", back)
	seen := map[string]bool{}
	for _, row := range []struct {
		given []string
		kept  bool
	}{
		{[]string{"a-1_B.2:c"}, true},
		{[]string{strings.Repeat("x", 128)}, true},
		{[]string{strings.Repeat("x", 129)}, false},
		{[]string{""}, false},
		{[]string{"a b"}, false},
		{[]string{"a\"b"}, false},
		{[]string{"가"}, false},
		{[]string{"a\tb"}, false},
		{[]string{"a,b"}, false},
		{[]string{"one", "two"}, false},
		{nil, false},
	} {
		var headers []string
		for _, id := range row.given {
			headers = append(headers, "X-Request-Id", id)
		}
		got := b.send(legacy("read"), headers...)
		id := got.header.Get("X-Request-Id")
		if row.kept != (len(row.given) > 0 && id == row.given[0]) || len(id) < 5 || len(got.header["X-Request-Id"]) != 1 {
			t.Errorf("the id %q became %q", row.given, id)
		}
		if seen[id] {
			t.Errorf("two calls got the id %q", id)
		}
		seen[id] = true
		calls := back.received()
		if at := calls[len(calls)-1].header["X-Request-Id"]; len(at) != 1 || at[0] != id {
			t.Errorf("the upstream got %q, the caller %q", at, id)
		}
		if line := fields(t, b.logs.Next(t)); line["id"] != id {
			t.Errorf("the log has %v, the caller %q", line["id"], id)
		}
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
// gateway's own refusals.
func TestUpstreamStatusPassesThrough(t *testing.T) {
	t.Parallel()
	body := map[string]string{
		"v2":     `{"code":"ERROR","message":"무엇","data":{"x":1}}`,
		"legacy": `{"code":"ERROR","msg":"무엇"}`,
	}
	for _, how := range []string{"own", "always-200"} {
		for _, client := range forms {
			for _, upstream := range forms {
				var status atomic.Int64
				back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
					replyWith(int(status.Load()), body[upstream]).ServeHTTP(w, r)
				})
				b := newGatewayTo(t, upstream, back, "failures: {status: "+how+"}")
				for _, want := range []int{200, 201, 400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 502, 503, 504, 599} {
					status.Store(int64(want))
					for _, op := range []string{"create", "read"} {
						got := b.send(newCall(client, op))
						if client == upstream {
							if got.status != want || got.body != body[upstream] {
								t.Errorf("%s %d: %d %s", client, want, got.status, got.body)
							}
							continue
						}
						got.check(t, client, wantAnswer{want, "ERROR"})
						checkText(t, got.body, `"무엇"`)
					}
				}
			}
		}
	}
}
