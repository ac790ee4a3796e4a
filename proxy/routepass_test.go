package proxy_test

import (
	"fmt"
	"strconv"
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
	for _, row := range tableOf(t) {
		path, target, reply, kind := row[0], row[1], row[2], row[3]
		parallel(t, path, func(t *testing.T) {
			status, err := strconv.Atoi(row[4])
			must(t, err)
			back := newBackend(t, replyWith(status, reply, "Content-Type", kind))
			b := newGateway(t, twoUpstreams(back.url, back.url, "[/if/read/open, /cash-receipt/]"))
			key, upstream, client := "apiKey", "new", "v2"
			if strings.HasPrefix(path, "/if/") {
				key, upstream, client = "apikey", "old", "legacy"
			}
			body := `{ "` + key + `":"demo-partner-key", "price": 20000.00, "memo":"가\uac00", "z":{"a":[1e2]} }`
			got := b.post("/partner"+path, body)
			equal(t, fmt.Sprint(got.status, got.body, got.header["Content-Type"]), fmt.Sprint(status, reply, []string{kind}))
			call := back.first(t)
			back.expectCalls(t, 1)
			equal(t, call.method+call.target+call.body, "POST"+target+body)
			b.checkMetrics(fmt.Sprintf(`billbridge_requests_total{client=%q,code=%q,operation="pass",status="%d",upstream=%q} 1`, client, row[5], status, upstream))
			checkText(t, b.logs.Next(t), `"operation":"pass"`, `"partner":"5f7b2ed74a97"`)
		})
	}
}

// Passed paths have the intake checks of all calls, and a prefix does not reach other paths.
func TestPassedPathsHaveIntakeChecks(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"code":"0000"}`))
	b := newGateway(t, twoUpstreams(back.url, back.url, "[/if/, /cash-receipt/issue]")+"limits: {body: 1KiB}\n")
	for _, row := range tableOf(t) { // a server may treat the last ones as paths of the table
		if len(row) == 1 {
			row = append(row, "{}", "application/json", "404:ERROR")
		}
		method, path, _ := strings.Cut(row[0], " ")
		words := strings.NewReplacer("DEEP", strings.Repeat("[", 40)+strings.Repeat("]", 40), "LONG", strings.Repeat("b", 1024))
		got := b.do(method, path, words.Replace(row[1]), "Content-Type", row[2])
		form := map[bool]string{true: "legacy", false: "v2"}[strings.Contains(path, "/if/")] // also outside of the base path
		t.Run(row[0], func(t *testing.T) { got.check(t, form, wantOf(row[3])) })
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
