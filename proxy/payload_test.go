package proxy

import (
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
)

// TestR27_GivenUpAtTheConnection: a call ends either before its connection is found, and then no byte of it leaves, or
// not at all: one that is being sent is never cut off, which would leave its outcome unknown.
func TestR27_GivenUpAtTheConnection(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"given up", "connection"} {
		p := newPayload([]byte(`{}`))
		ours, theirs := net.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		if first == "given up" {
			p.giveUp(cancel, errGivenUp)
		}
		p.trace.GetConn("")
		p.trace.GotConn(httptrace.GotConnInfo{Conn: ours})
		if first == "connection" {
			p.giveUp(cancel, errGivenUp)
		}
		if p.sent() != (first == "connection") || (ctx.Err() == nil) != (first == "connection") || p.reusable() {
			t.Errorf("%s first: sent is %t, the context says %v, reusable is %t", first, p.sent(), ctx.Err(), p.reusable())
		}
		go func() { _, _ = ours.Write([]byte("{}")); _ = ours.Close() }()
		if got, _ := io.ReadAll(theirs); (len(got) > 0) != (first == "connection") {
			t.Errorf("%s first: %q was sent", first, got)
		}
	}
}
