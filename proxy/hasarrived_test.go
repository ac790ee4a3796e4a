package proxy

import (
	"net"
	"net/http"
	"testing"
)

// A readConn is a connection whose request has been read.
type readConn struct {
	net.Conn
	asked int
}

func (c *readConn) RequestRead() bool { c.asked++; return true }

// Only a body of a known length in HTTP/1 can have arrived whole. For any other request the connection is not asked:
// net/http may be reading it in another goroutine.
func TestHasArrived(t *testing.T) {
	t.Parallel()
	c := new(readConn)
	for _, row := range []struct {
		version int
		length  int64
		want    bool
	}{{1, 5, true}, {1, 0, false}, {1, -1, false}, {2, 5, false}} {
		c.asked = 0
		r := (&http.Request{ProtoMajor: row.version, ContentLength: row.length}).WithContext(WithConn(t.Context(), c))
		if got := hasArrived(r); got != row.want || row.want != (c.asked > 0) {
			t.Errorf("HTTP/%d with length %d: %t, asked %d times", row.version, row.length, got, c.asked)
		}
	}
	if hasArrived(&http.Request{ProtoMajor: 1, ContentLength: 5}) {
		t.Error("a connection that cannot be asked has the body")
	}
}
