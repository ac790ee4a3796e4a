package upstream

import (
	"net/http"
	"regexp"
	"strings"
)

// A Trace is the trace of a caller (W3C Trace Context), which the upstream gets unchanged. It is empty if the
// caller has sent no valid traceparent.
type Trace struct{ parent, state string }

// maxTraceState is the length of the longest tracestate that is passed on. Every participant should pass on so much
// (W3C Trace Context, 3.3.1.5).
const maxTraceState = 512

var traceParent = regexp.MustCompile("^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")

// TraceOf returns the trace of a request. A parent of zeros is not valid.
func TraceOf(h http.Header) Trace {
	parents := h["Traceparent"]
	if len(parents) != 1 || !traceParent.MatchString(parents[0]) ||
		strings.Trim(parents[0][3:35], "0") == "" || strings.Trim(parents[0][36:52], "0") == "" {
		return Trace{}
	}
	state := strings.Join(h["Tracestate"], ",") // the list may be in several lines
	unwritable := func(r rune) bool { return r < ' ' || r > '~' }
	if len(state) > maxTraceState || strings.ContainsFunc(state, unwritable) {
		state = ""
	}
	return Trace{parents[0], state}
}

// append appends the headers to the head of a request, each after a line break.
func (t *Trace) append(head []byte) []byte {
	if t.parent != "" {
		head = append(append(head, "\r\ntraceparent: "...), t.parent...)
	}
	if t.state != "" {
		head = append(append(head, "\r\ntracestate: "...), t.state...)
	}
	return head
}
