package proxy

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// DisableKeepAlives makes every answer close its connection from now on, so that callers connect to another gateway.
func (g *Gateway) DisableKeepAlives() { g.noKeepAlives.Store(true) }

// setConnection says in an answer whether its connection stays open, and how long it may be idle. A client that obeys
// does not send on a connection that is just being closed. net/http may still add that the connection closes.
func (g *Gateway) setConnection(h http.Header, r *http.Request) {
	switch {
	case g.noKeepAlives.Load():
		h["Connection"] = []string{"close"}
	case r.ProtoMajor == 1 && !r.Close && h["Connection"] == nil:
		h["Keep-Alive"] = g.keepAlive
	}
}

// keepAlive returns the value of Keep-Alive for an idle timeout, or nil if that is too short for one. It is less than
// the timeout: the client begins to count later than the gateway, and its next request takes time.
func keepAlive(idle time.Duration) []string {
	if within := (idle - min(5*time.Second, idle/4)).Truncate(time.Second); within > 0 {
		return []string{fmt.Sprintf("timeout=%.0f", within.Seconds())}
	}
	return nil
}

// Drain gives bodies that are still being read [admission.PartialRequestTimeout] to arrive.
func (g *Gateway) Drain() { g.admission.Drain() }

// WithQueueTime returns a context for a request that waited in the socket before its connection was accepted. A
// write that waited too long is not sent: its caller may have given up.
func WithQueueTime(ctx context.Context, queueTime time.Duration) context.Context {
	return context.WithValue(ctx, queueTimeKey{}, queueTime)
}

type queueTimeKey struct{}
