package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"github.com/tidwall/gjson"
)

// extraReplies are the ways in which an upstream sends the refusal of a call a second time on the same connection.
var extraReplies = map[string]func(c *lockedConn, in *bufio.Reader, refusal string){
	"at once": func(c *lockedConn, _ *bufio.Reader, refusal string) { c.send(refusal) },
	"later": func(c *lockedConn, _ *bufio.Reader, refusal string) {
		time.AfterFunc(200*time.Microsecond, func() { c.send(refusal) })
	},
	"with the next call": func(c *lockedConn, in *bufio.Reader, refusal string) {
		if _, err := in.Peek(1); err == nil {
			c.send(refusal)
		}
	},
}

type lockedConn struct {
	mu sync.Mutex
	net.Conn
}

func (c *lockedConn) send(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c, text)
}

// newRepeatingGateway returns a gateway whose upstream refuses each call with a text that has its X-Request-Id, and then
// again.
func newRepeatingGateway(t *testing.T, again func(c *lockedConn, in *bufio.Reader, refusal string)) *gateway {
	return newGateway(t, oneUpstream("v2", "http://"+proxytest.Listen(t, func(conn net.Conn) {
		defer conn.Close()
		c, in := &lockedConn{Conn: conn}, bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			text := fmt.Sprintf(`{"code":"BILL_003","message":%q,"data":null}`, r.Header.Get("X-Request-Id"))
			reply := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			c.send(reply)
			again(c, in, reply)
		}
	})))
}

// countStale makes many calls and returns how many got the refusal of another one.
func countStale(b *gateway, calls int, ops ...string) (stale int64) {
	const callers = 8
	var calling sync.WaitGroup
	for n := range callers {
		calling.Go(func() {
			for i := range calls / callers {
				q, id := legacy(ops[i%len(ops)]), fmt.Sprintf("%s-%d-%d.", b.t.Name(), n, i)
				id = strings.NewReplacer("/", "-", " ", "-").Replace(id)
				if got := b.send(q, "X-Request-Id", id); !strings.Contains(got.body, id) {
					atomic.AddInt64(&stale, 1)
				}
			}
		})
	}
	calling.Wait()
	return stale
}

// An upstream sends the refusal of each call again. No write gets the refusal of another call. A read can, until the
// gateway has seen the first extra byte.
func TestR45_ExtraReplyAnswersNoOtherCall(t *testing.T) {
	t.Parallel()
	calls := proxytest.Size(160, 800)
	for name, again := range extraReplies {
		parallel(t, name, func(t *testing.T) {
			b := newRepeatingGateway(t, again)
			if n := countStale(b, calls, "create", "resend", "destroy", "cancel"); n > 0 {
				t.Errorf("%d of the writes got the reply to another call", n)
			}
			b = newRepeatingGateway(t, again)
			stale, counted := int64(0), `billbridge_upstream_extra_replies_total{upstream="up"} 0`
			eventually(t, "nothing is counted", func() bool {
				stale += countStale(b, 8, "read")
				return !strings.Contains(b.scrape(), counted)
			})
			t.Logf("%d reads got the reply to another call", stale)
			if n := countStale(b, calls, "read", "create"); n > 0 {
				t.Errorf("%d of the calls got the reply to another one", n)
			}
			equal(t, strings.Count(b.logs.String(), `"level":"WARN","msg":"the upstream has sent something that belongs to no call`), 1)
		})
	}
}

// A write has a connection of its own, and says so to the backend. Reads keep theirs. Package httpconn has who closes it.
func TestWritesHaveAConnectionEach(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	play(b, "has F\n"+strings.Repeat("noSuchBill v2 resend billId=NONE\nsuccess v2 read\n", 20))
	read := false
	for _, got := range b.back.received() {
		write := got.target == "/bill/resend"
		equal(t, got.first, write || !read, got.target)
		equal(t, got.header.Get("Connection") == "close", write)
		read = read || !write
	}
}

// In a rollout, a refusal decides where a bill is created. A probe, and a read whose refusal the ledger would record, have
// a connection on which no refusal of another call can arrive, as writes have.
func TestR44_RefusalsThatTheLedgerUsesComeOnNewConnections(t *testing.T) {
	t.Parallel()
	g := newGate(t, "/bill", 0)
	m := newRolloutWith(t, "new", func(_ string, service http.Handler) http.Handler { return g.holdCalls(service) }, "")
	m.expect(v2("create"), success)
	m.send(v2("create").with("billId", "LOST"), "X-Request-Id", "created").check(t, "v2", success)
	play(m, `
fault new {"operation":"bill.destroy","drop":true,"skip":true}
unknown v2 destroy billId=LOST`)
	g.hold.Store(1)
	held := make(chan answer, 1)
	go func() { held <- m.send(v2("create").with("billId", "HELD"), "X-Request-Id", "held") }()
	receive(t, g.reached, "create at the backend")
	for range 5 {
		m.expect(v2("read"), success)
		m.send(v2("read").with("billId", "HELD"))
		m.expect(legacy("read").with("billId", "NONE"), noSuchBill)
		m.send(v2("read").with("billId", "LOST"))
	}
	g.open()
	receive(t, held, "answer").check(t, "v2", success)
	again := 0
	for _, got := range append(m.oldCalls.received(), m.newCalls.received()...) {
		switch read := strings.HasSuffix(got.target, "/read"); {
		case read && slices.Contains([]string{"created", "held"}, got.header.Get("X-Request-Id")): // a comparison
		case !got.first && (!read || !strings.Contains(got.body, demoBill)):
			t.Errorf("%s of %s is not the first call on its connection", got.target, got.body)
		case !got.first:
			again++
		}
	}
	equal(t, again > 0, true, "reads of a bill whose owner is known that used a connection again")
}

// newReadBackend returns the URL of a v2 backend that shows each bill that it is asked for. after is called when it has
// replied: what it writes to c leaves together with the next reply, and the connection is closed if it returns false.
func newReadBackend(t *testing.T, after func(c *bufio.Writer, in *bufio.Reader) bool) string {
	return "http://" + proxytest.Listen(t, func(conn net.Conn) {
		defer conn.Close()
		in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			of := gjson.GetManyBytes(body, "apiKey", "bill.billId")
			text := fmt.Sprintf(`{"code":"0000","message":"ok","data":{"apiKey":%s,"billId":%s,"apprState":"W"}}`, of[0].Raw, of[1].Raw)
			_, _ = fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			if out.Flush() != nil || !after(out, in) {
				return
			}
		}
	})
}

// After a read a backend sends one refusal too many, so that all replies on the connection are late by one call. Each
// read gets its own answer, also if partners take turns, and from then on no connection is used twice.
func TestR45_OneExtraReplyDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"key-a"}, {"key-a", "key-b"}} {
		for _, form := range forms {
			parallel(t, fmt.Sprint(form, " ", len(keys)), func(t *testing.T) {
				var once sync.Once
				b := newGateway(t, oneUpstream("v2", newReadBackend(t, func(c *bufio.Writer, in *bufio.Reader) bool {
					if _, err := in.Peek(1); err == nil {
						once.Do(func() {
							const refusal = `{"code":"BILL_003","message":"none","data":null}`
							_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(refusal), refusal)
						})
					}
					return true
				})))
				for i := range 200 {
					key, id := keys[i%len(keys)], fmt.Sprint("BILL-", i)
					got := b.expect(newCall(form, "read").with("apiKey", key).with("billId", id), success)
					checkText(t, got.body, key, id)
				}
				checkText(t, b.scrape(), `!billbridge_upstream_extra_replies_total{upstream="up"} 0`)
				proxytest.Eventually(t, func() bool {
					return strings.Contains(b.logs.String(), `"level":"WARN","msg":"the upstream has sent something that belongs to no call`)
				}, b.logs.String)
			})
		}
	}
}
