package proxy_test

import (
	"net"
	"net/http"
	"testing"
)

// A connection is closed if its header, body or next request takes longer than timeouts.header, body or idle.
func TestR15_SlowCallersAreDisconnected(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	q := legacy("read")
	sized := head(q.path(), "Content-Length: 10\r\n")
	for _, row := range [][4]string{
		{"nothing", "header: 50ms, body: 1h, idle: 1h", "", ""},
		{"half a header", "header: 50ms, body: 1h, idle: 1h", "POST /if/bill/read HTTP/1.1\r\nHost: a\r\n", ""},
		{"no body", "header: 2s, body: 50ms, idle: 1h", sized, "refused"},
		{"half a body", "header: 2s, body: 50ms, idle: 1h", sized + `{"a"`, "refused"},
		{"half a chunk", "header: 2s, body: 50ms, idle: 1h", head(q.path(), "Transfer-Encoding: chunked\r\n") + "a\r\n{", "refused"},
		{"idle after a call", "header: 1h, body: 1h, idle: 50ms", nextCall(q), "noSuchBill"},
	} {
		parallel(t, row[0], func(t *testing.T) {
			p := newProcessTo(t, "v2", back, "timeouts: {"+row[1]+"}")
			got := p.raw(false, row[2]) // returns when the connection is closed
			switch {
			case row[3] == "" && (len(got) == 0 || got[0].status == http.StatusRequestTimeout):
			case row[3] == "" || len(got) != 1:
				t.Errorf("%+v", got)
			default:
				got[0].check(t, "legacy", wantAnswers[row[3]])
			}
		})
	}
}

// An upstream that allows callers by their address sees upstreams.NAME.local_address.
func TestUpstreamsAreCalledFromTheLocalAddress(t *testing.T) {
	t.Parallel()
	from := make(chan string, 1)
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		from <- host
		newService().ServeHTTP(w, r)
	})
	b := newGateway(t, fewConnections(back.url, "local_address: 127.0.0.3"))
	b.expect(legacy("create"), success)
	equal(t, receive(t, from, "call"), "127.0.0.3")
}
