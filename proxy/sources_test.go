package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// A farListener gives each accepted connection the next of its addresses, since a test machine has only one of IPv6.
type farListener struct {
	net.Listener
	from func(n int) string
	n    *atomic.Int64
}

type farConn struct {
	net.Conn
	from net.Addr
}

func (l farListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	at := netip.AddrPortFrom(netip.MustParseAddr(l.from(int(l.n.Add(1)-1))), 80)
	return farConn{c, net.TCPAddrFromAddrPort(at)}, nil
}

func (c farConn) RemoteAddr() net.Addr { return c.from }

// newFarProcess is a gateway whose n-th connection comes from the address from(n).
func newFarProcess(t *testing.T, text string, from func(n int) string) *process {
	t.Helper()
	return newProcessOnSockets(t, text, map[string]net.Listener{"listen": farListener{newSocket(t), from, new(atomic.Int64)}})
}

// open sends text on a new connection, which stays open until the test ends.
func (p *process) open(text string) *net.TCPConn {
	p.t.Helper()
	return dial(p.t, p.Address(), text)
}

// answeredWith reports whether the call on a connection has the answer of the upstream.
func answeredWith(c net.Conn, code string) bool {
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode == 200 && bytes.Contains(body, []byte(code))
}

var twoOfAnAddress = limits(func(l *config.Limits) { l.AddressConnections = 2 })

// In all, and for each source address that is not trusted. One machine can have a whole /64 network: its addresses have the
// connections of one address together. A connection that ends makes room for another.
func TestR15_ConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	// Limits, connections in all and of an address, the address of connection N, and how many of 6 are accepted by which limit. That of a
	// trusted proxy is not counted.
	for _, row := range tableOf(t) {
		parallel(t, row[0]+row[3]+row[5], func(t *testing.T) {
			p := newFarProcess(t, anyPort+oneUpstream("v2", back.url, "limits: {"+row[0]+"}", limits(func(l *config.Limits) {
				l.Connections, _ = strconv.Atoi(row[1])
				l.AddressConnections, _ = strconv.Atoi(row[2])
			})), func(n int) string { return strings.ReplaceAll(row[3], "N", fmt.Sprint(n+1)) })
			var open []net.Conn
			answered := func() bool { // a call on a new connection
				c := p.open(nextCall(v2("read")))
				if !answeredWith(c, "BILL_003") {
					return false
				}
				open = append(open, c)
				return true
			}
			for range 6 {
				answered()
			}
			equal(t, fmt.Sprint(len(open)), row[4])
			p.checkMetric("billbridge_connections " + row[4])
			p.checkMetric(fmt.Sprintf("billbridge_connections_refused_total{limit=%q} %d", row[5], 6-len(open)))
			_ = open[0].Close()
			proxytest.Eventually(t, answered, p.metrics)
		})
	}
}

// Behind a trusted proxy, the right-most address of X-Forwarded-For that is not one of the proxies is the source. Callers
// cannot choose it: the proxy adds the address that it sees. Without trusted_proxies the header is not read. What cannot be
// read closes a limit: all such calls are of one source, and the log has one line about them, with the value escaped.
// Package config has the spellings.
func TestR15_R20_SourceBehindATrustedProxy(t *testing.T) {
	t.Parallel()
	// Limits, the X-Forwarded-For of two calls in progress, the lines of that of a third call, and its status.
	for _, row := range tableOf(t) {
		g, back := newHeldBackend(t, "read", 2)
		b := newGatewayTo(t, "v2", back, "limits: {"+row[0]+"}", twoOfAnAddress)
		held := make(chan answer, 2)
		for from := range strings.SplitSeq(strings.ReplaceAll(row[1], "RLO", "\u202e"), " AND ") {
			go func() { held <- b.send(v2("read"), "X-Forwarded-For", from) }()
			receive(t, g.reached, "call at the upstream")
		}
		var forwarded []string
		for line := range strings.SplitSeq(row[2], " AND ") {
			if line != "" {
				forwarded = append(forwarded, "X-Forwarded-For", strings.TrimPrefix(line, "EMPTY"))
			}
		}
		equal(t, fmt.Sprint(b.send(legacy("create"), forwarded...).status), row[3], row)
		g.open()
		for range 2 {
			receive(t, held, "answer").is(t, 200)
		}
		for _, call := range back.received() {
			equal(t, len(call.header["X-Forwarded-For"]), 0)
		}
		const line = "the addresses of callers behind a trusted proxy cannot be read: they count as one source"
		if n := strings.Count(b.logs.String(), line); strings.Contains(row[1], "RLO") {
			equal(t, n, 1)
			checkText(t, b.logs.String(), line, `127.0.0.1 sent an X-Forwarded-For whose last address cannot be read: \"\\u202eunknown\"`)
		}
	}
}

// Who sends a partner's key, but has had no success with it, uses half of the partner's limits at most.
func TestR15_SourcesWithoutASuccessLeaveHalfOfAPartner(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		limits            string
		holds             bool // the backend holds the 6 calls of others
		answered, refused int  // of them
	}{
		"in progress": {"in_flight: 4", true, 4, 4},
		"rate":        {"rate: 0.1", false, 6, 3},
	} {
		parallel(t, name, func(t *testing.T) {
			service, release := newService(), make(chan struct{})
			prepareBill(t, service, stateBefore["read"], demoBill)
			back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				if row.holds && r.Header.Get("X-Request-Id") == "other" {
					<-release
				}
				service.ServeHTTP(w, r)
			})
			defer close(release)
			b := newGatewayTo(t, "v2", back, "limits: {trusted_proxies: [127.0.0.0/8], partner: {"+row.limits+"}}",
				limits(func(l *config.Limits) { l.Partner.Burst = 6 }))
			own := func() answer { return b.send(v2("read"), "X-Forwarded-For", "192.0.2.1") }
			own().check(t, "v2", success)
			none := v2("read").with("billId", "NOSUCHBILL0000000001")
			others, refused, began := make(chan answer, 6), 0, time.Now()
			for n := range 6 {
				go func() {
					others <- b.send(none, "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", n), "X-Request-Id", "other")
				}()
			}
			for range row.answered {
				if receive(t, others, "answer").status == 503 {
					refused++
				}
			}
			if refused != row.refused && (row.holds || time.Since(began) < 10*time.Second) { // one more after 20 s
				t.Errorf("%d calls of others are refused, want %d", refused, row.refused)
			}
			for range 2 {
				own().check(t, "v2", success)
			}
		})
	}
}

// A wrong token counts for the source of its request, also after a reload.
func TestSourceOfAWrongToken(t *testing.T) {
	t.Parallel()
	text := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0, token: a-right-token-of-the-admin}\n" + oneUpstream("v2", refusedURL)
	p := newProcess(t, text+"limits: {trusted_proxies: [127.0.0.1]}\n")
	guess := func(want string) {
		t.Helper()
		p.admin("GET", "/metrics", "Authorization", "Bearer a-wrong-token", "X-Forwarded-For", "2001:db8:1:2::3").is(t, 401)
		p.waitForLog(fmt.Sprintf(`"address":%q`, want))
	}
	guess("2001:db8:1:2::/64")
	p.text.Store(&text)
	p.admin("POST", "/-/reload", "Authorization", "Bearer a-right-token-of-the-admin").is(t, 200)
	guess("127.0.0.1")
}
