package proxy_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// The trace of a caller, in the example of W3C Trace Context.
const callerTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A valid traceparent reaches the upstream unchanged, and tracestate with it. Neither reaches it otherwise, and nothing
// of a header becomes another one (R19, R22).
func TestTraceOfACallerIsPassedOn(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, stateBefore["read"], demoBill)
	back := newBackend(t, service)
	b := newGatewayTo(t, "v2", back)
	long := "a=" + strings.Repeat("x", 510)
	for _, row := range []struct{ parent, state, want string }{
		{"", "", ""},
		{"", "a=1", ""},
		{callerTrace, "", callerTrace},
		{strings.TrimSuffix(callerTrace, "1") + "0", "", strings.TrimSuffix(callerTrace, "1") + "0"},
		{callerTrace, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", callerTrace + " rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		{callerTrace, "a=1|b=2", callerTrace + " a=1,b=2"},
		{callerTrace, long, callerTrace + " " + long},
		{callerTrace, long + "x", callerTrace},
		{callerTrace, "a=1\r\nX-Evil: 1", callerTrace},
		{callerTrace, "a=\x00", callerTrace},
		{callerTrace, "a=카", callerTrace},
		{callerTrace + "|" + callerTrace, "a=1", ""},
		{"01" + callerTrace[2:], "a=1", ""},
		{strings.ToUpper(callerTrace), "", ""},
		{callerTrace + "-x", "", ""},
		{callerTrace[1:], "", ""},
		{" " + callerTrace, "", ""},
		{callerTrace + "\r\nX-Evil: 1", "", ""},
		{strings.Replace(callerTrace, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1), "", ""},
		{strings.Replace(callerTrace, "b7ad6b7169203331", strings.Repeat("0", 16), 1), "", ""},
	} {
		r := v2("read").request()
		for name, lines := range map[string]string{"Traceparent": row.parent, "Tracestate": row.state} {
			if lines != "" {
				r.Header[name] = strings.Split(lines, "|")
			}
		}
		b.ServeHTTP(httptest.NewRecorder(), r)
		got := back.last(t).header
		equal(t, strings.TrimSpace(got.Get("Traceparent")+" "+got.Get("Tracestate")), row.want, row)
		equal(t, got.Get("X-Evil"), "", row)
	}
	back.expectCalls(t, 20)
}
