package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// twoUpstreams returns the config of a gateway with one upstream per form, each with a path prefix, and with passed
// paths.
func twoUpstreams(old, fresh, pass string) string {
	return fmt.Sprintf("base_path: /partner\nupstreams: {old: {form: legacy, url: %q}, new: {form: v2, url: %q}}\nroute: {default: new, pass: %s}\n",
		old+"/a", fresh+"/b", pass)
}

// Operations that are not in the document reach the upstream of their form unchanged, and so do their replies. The
// query string is dropped.
func TestPassedPathsAreNotChanged(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		path, target, reply, kind string
		status                    int
		code                      string
	}{
		{"/if/read/open", "/a/if/read/open", `{ "code" : "1010", "msg":"휴일" }`, "application/json", 200, "other"},
		{"/if/read/open?day=2026-11-22&x=%2F", "/a/if/read/open", `{"code":"0000"}`, "application/json;charset=UTF-8", 200, "0000"},
		{"/cash-receipt/issue", "/b/cash-receipt/issue", `{"code":"PAYMENT_001","message":"10.0.0.1 failed"}`, "application/json", 200, "PAYMENT_001"},
		{"/cash-receipt/read/2026", "/b/cash-receipt/read/2026", `[1.0, 2e3]`, "text/plain", 201, "none"},
		{"//cash-receipt/cancel", "/b/cash-receipt/cancel", `<html>no</html>`, "text/html", 404, "none"},
	} {
		parallel(t, row.path, func(t *testing.T) {
			back := newBackend(t, replyWith(row.status, row.reply, "Content-Type", row.kind))
			b := newGateway(t, twoUpstreams(back.url, back.url, "[/if/read/open, /cash-receipt/]"))
			key := map[bool]string{true: "apikey", false: "apiKey"}[strings.HasPrefix(row.path, "/if/")]
			body := `{ "` + key + `":"demo-partner-key", "price": 20000.00, "memo":"가\uac00", "z":{"a":[1e2]} }`
			got := b.post("/partner"+row.path, body)
			if got.status != row.status || got.body != row.reply || got.header.Get("Content-Type") != row.kind {
				t.Errorf("got %+v", got)
			}
			calls := back.received()
			if len(calls) != 1 || calls[0].target != row.target || calls[0].body != body || calls[0].method != http.MethodPost {
				t.Errorf("the upstream got %+v", calls)
			}
			upstream := map[bool]string{true: "old", false: "new"}[key == "apikey"]
			client := map[bool]string{true: "legacy", false: "v2"}[key == "apikey"]
			b.checkMetrics(fmt.Sprintf(`billbridge_requests_total{client=%q,code=%q,operation="pass",status="%d",upstream=%q} 1`, client, row.code, row.status, upstream))
			if line := fields(t, b.logs.Next(t)); line["operation"] != "pass" || line["partner"] != "5f7b2ed74a97" {
				t.Errorf("logged %v", line)
			}
		})
	}
}

// Passed paths have the intake checks of all calls, and a prefix does not reach other paths.
func TestPassedPathsHaveIntakeChecks(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"code":"0000"}`))
	b := newGateway(t, twoUpstreams(back.url, back.url, "[/if/, /cash-receipt/issue]")+"limits: {body: 1KiB}\n")
	for _, row := range []struct {
		method, path, body, kind string
		want                     wantAnswer
	}{
		{"GET", "/partner/if/read/open", "", "-", wantAnswer{405, "ERROR"}},
		{"POST", "/partner/if/read/open", "a=b", "application/x-www-form-urlencoded", wantAnswer{415, "VALIDATION_001"}},
		{"POST", "/partner/if/read/open", `{"a":1,"\u0061":2}`, "application/json", invalid},
		{"POST", "/partner/if/read/open", `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "application/json", invalid},
		{"POST", "/partner/if/read/open", `{"a":"` + strings.Repeat("b", 1024) + `"}`, "application/json", wantAnswer{413, "VALIDATION_001"}},
		{"POST", "/partner/read/open", `{}`, "application/json", noSuchPath},
		{"POST", "/if/read/open", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/cash-receipt/issue/", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/read/../bill/send", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/read/..;/bill/send", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/read/%2e%2e/bill/send", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/read/a%2Fb", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/read/./open", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/read////open", `{}`, "application/json", noSuchPath},
		// A server may treat these as paths of the table.
		{"POST", "/partner/if/bill/send/", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/bill/Send", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/bill/send.json", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/bill/SEND.do/", `{}`, "application/json", noSuchPath},
		{"POST", "/partner/if/bill/read.", `{}`, "application/json", noSuchPath},
	} {
		got := b.do(row.method, row.path, row.body, "Content-Type", row.kind)
		form := map[bool]string{true: "legacy", false: "v2"}[strings.Contains(row.path, "/if/")]
		if row.path == "/if/read/open" {
			form = "legacy" // also outside of the base path
		}
		t.Run(row.method+row.path, func(t *testing.T) { got.check(t, form, row.want) })
	}
	back.expectCalls(t, 0)
}

// A bill is translated even if route.pass contains its path.
func TestPathsOfTheTableAreTranslatedBelowAPassedPrefix(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	b := newGateway(t, fmt.Sprintf("upstreams: {old: {form: legacy, url: %q}, new: {form: v2, url: %q}}\nroute: {default: new, pass: [/if/bill/, /if/]}\n", refusedURL, back.url))
	b.expect(legacy("create"), success)
	if calls := back.received(); len(calls) != 1 || calls[0].target != "/bill" {
		t.Errorf("the upstream got %+v", calls)
	}
}

// A passed call without an answer may be a write, so its outcome is unknown.
func TestPassedCallWithoutAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	back := newBackend(t, aborts)
	b := newGateway(t, twoUpstreams(back.url, back.url, "[/cash-receipt/]"))
	b.post("/partner/cash-receipt/issue", `{"apiKey":"demo-partner-key"}`).check(t, "v2", unknown)
	back.expectCalls(t, 1)
}
