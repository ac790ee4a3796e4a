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
	// The lines of traceparent and of tracestate, between &, and what reaches the upstream. T is callerTrace.
	words := strings.NewReplacer("T", callerTrace, "OTHER", callerTrace[:54]+"0", "LONG", "a="+strings.Repeat("x", 510), "CRLF", "\r\n", "NUL", "\x00", "SP", " ",
		"HEX", callerTrace[2:], "UPPER", strings.ToUpper(callerTrace), "NOTRACE", "00-"+strings.Repeat("0", 32)+callerTrace[35:], "NOSPAN", callerTrace[:36]+strings.Repeat("0", 16)+"-01")
	for _, row := range tableOf(t) {
		for i := range row {
			row[i] = words.Replace(row[i])
		}
		r := v2("read").request()
		for name, lines := range map[string]string{"Traceparent": row[0], "Tracestate": row[1]} {
			if lines != "" {
				r.Header[name] = strings.Split(lines, "&")
			}
		}
		b.ServeHTTP(httptest.NewRecorder(), r)
		got := back.last(t).header
		equal(t, strings.TrimSpace(got.Get("Traceparent")+" "+got.Get("Tracestate")), row[2], row)
		equal(t, got.Get("X-Evil"), "", row)
	}
	back.expectCalls(t, 20)
}
