package proxy

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// keepAlives say in answers whether their connections stay open.
type keepAlives struct {
	closed  atomic.Bool // every answer closes its connection
	timeout []string    // Keep-Alive of the other answers, shared by them; nil for none
}

// within sets the idle timeout, unless it is too short for one. What callers get is less: they begin to count later
// than the gateway, and their next request takes time.
func (k *keepAlives) within(idle time.Duration) {
	if within := (idle - min(5*time.Second, idle/4)).Truncate(time.Second); within > 0 {
		k.timeout = []string{fmt.Sprintf("timeout=%.0f", within.Seconds())}
	}
}

// set says in an answer whether its connection stays open, and how long it may be idle. A client that obeys does not
// send on a connection that is just being closed. net/http may still add that the connection closes.
func (k *keepAlives) set(h http.Header, r *http.Request) {
	switch {
	case k.closed.Load():
		h["Connection"] = []string{"close"}
	case r.ProtoMajor == 1 && !r.Close && h["Connection"] == nil:
		h["Keep-Alive"] = k.timeout
	}
}
