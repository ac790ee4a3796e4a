package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"billbridge/config"
)

// Oversized chunk extensions, headers and trailers end the connection, and nothing is forwarded.
func TestR14_FloodsAreRefused(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	p := newProcessTo(t, "v2", back)
	q := v2("create")
	body := q.body()
	long, short := strings.Repeat("x", 200_000), "X-Flood: "+strings.Repeat("x", 100)+"\r\n"
	with := func(headers string) string { return strings.Replace(nextCall(q), "\r\n", "\r\n"+headers, 1) }
	chunks := func(text string) string { return head(q.path(), "Transfer-Encoding: chunked\r\n") + text }
	var extensions strings.Builder
	for i := range len(body) {
		fmt.Fprintf(&extensions, "1;%s\r\n%c\r\n", long[:4000], body[i])
	}
	for name, sent := range map[string]string{
		"headers":          with(strings.Repeat(short, 1000)),
		"one header":       with("X-Flood: " + long + "\r\n"),
		"chunk extensions": chunks(extensions.String() + "0\r\n\r\n"),
		"one extension":    chunks(fmt.Sprintf("%x;%s\r\n%s\r\n0\r\n\r\n", len(body), long, body)),
		"trailers":         chunks(fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(body), body) + strings.Repeat(short, 10_000) + "\r\n"),
	} {
		for _, answer := range p.raw(false, sent) {
			equal(t, answer.status >= 400, true, name, answer.status, answer.body)
		}
	}
	back.expectCalls(t, 0)
}

// A connection is closed if its header, body or next request takes too long.
func TestR15_SlowCallersAreDisconnected(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	q := legacy("read")
	sized := head(q.path(), "Content-Length: 10\r\n")
	const soon = 50 * time.Millisecond
	header := config.Timeouts{Header: soon, Body: time.Hour, Idle: time.Hour, Write: time.Hour}
	body := config.Timeouts{Header: 2 * time.Second, Body: soon, Idle: time.Hour, Write: time.Hour}
	idle := config.Timeouts{Header: time.Hour, Body: time.Hour, Idle: soon, Write: time.Hour}
	for name, c := range map[string]struct {
		timeouts   config.Timeouts
		sent, want string
	}{
		"nothing":           {header, "", ""},
		"half a header":     {header, "POST /if/bill/read HTTP/1.1\r\nHost: a\r\n", ""},
		"no body":           {body, sized, "refused"},
		"half a body":       {body, sized + `{"a"`, "refused"},
		"half a chunk":      {body, head(q.path(), "Transfer-Encoding: chunked\r\n") + "a\r\n{", "refused"},
		"idle after a call": {idle, nextCall(q), "noSuchBill"},
	} {
		parallel(t, name, func(t *testing.T) {
			p := newProcessTo(t, "v2", back, timeouts(func(now *config.Timeouts) { *now = c.timeouts }))
			got := p.raw(false, c.sent) // returns when the connection is closed
			switch {
			case c.want == "" && (len(got) == 0 || got[0].status == http.StatusRequestTimeout):
			case c.want == "" || len(got) != 1:
				t.Errorf("%+v", got)
			default:
				got[0].check(t, "legacy", wantAnswers[c.want])
			}
		})
	}
}
