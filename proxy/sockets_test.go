package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func newSocket(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// dial opens a connection, which is closed at the end of the test, and sends text.
func dial(t testing.TB, address, text string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	_, _ = io.WriteString(c, text)
	return c.(*net.TCPConn)
}

// A create that arrived before the gateway started is sent only if its caller is still connected and SendWithin is
// not over. A caller that gave up may have created another bill. Reads are answered.
func TestWriteThatWaitedInTheSocketIsSentOnlyInTime(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports how long data waited in a socket")
	}
	for when, want := range map[string]wantAnswer{"gone": {}, "late": refused, "in time": success} {
		parallel(t, when, func(t *testing.T) {
			const calls = 20
			l, service := newSocket(t), newService()
			conns := make([]*net.TCPConn, calls)
			for n := range calls {
				q := legacy("create").with("billId", fmt.Sprintf("B%019d", n))
				if n%2 == 1 {
					q = legacy("read")
				}
				conns[n] = dial(t, l.Addr().String(), nextCall(q))
			}
			sent, text := time.Now(), anyPort+oneUpstream("v2", newBackend(t, service).url)
			if when == "late" { // SendWithin is over before the gateway starts
				text = strings.Replace(text, "}}", "}, other: {form: v2, url: \"http://127.0.0.1:1\"}}", 1) +
					"route: {default: up}\nrollout: {old: up, new: other, bills: shared}\n" + sentWithin(200*time.Millisecond)
				eventually(t, "the clock stands still", func() bool { return time.Since(sent) > 400*time.Millisecond })
			}
			if when == "gone" {
				for _, conn := range conns {
					_ = conn.Close()
				}
			}
			p := newProcessOnSockets(t, text, map[string]net.Listener{"listen": l})
			if when == "gone" {
				p.expect(v2("read"), noSuchBill) // then the earlier connections have been accepted
				p.stopAndWait()
				conns = nil
			}
			for n, conn := range conns {
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				must(t, err)
				body, _ := io.ReadAll(res.Body)
				got := answer{res.StatusCode, res.Header, string(body)}
				if n%2 == 1 {
					got.check(t, "legacy", noSuchBill)
					continue
				}
				if got.check(t, "legacy", want); when == "late" {
					checkText(t, got.body, "Nothing was sent: it is not possible now.")
				}
			}
			equal(t, len(service.Bills()), map[string]int{"in time": calls / 2}[when])
		})
	}
}

// A heldListener returns an accepted connection only after release.
type heldListener struct {
	net.Listener
	got, release chan struct{}
}

func (h heldListener) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err == nil {
		h.got <- struct{}{}
		<-h.release
	}
	return c, err
}

// The drain begins after the connection of a call is accepted and before it is served.
func TestDrainAnswersACallJustAccepted(t *testing.T) {
	t.Parallel()
	held := heldListener{newSocket(t), make(chan struct{}, 1), make(chan struct{})}
	p := newProcessOnSockets(t, anyPort+oneUpstream("v2", newBackend(t, newService()).url), map[string]net.Listener{"listen": held})
	got := make(chan []answer, 1)
	go func() { got <- p.raw(false, nextCall(legacy("create"))) }()
	receive(t, held.got, "connection")
	p.drain()
	close(held.release)
	answers := receive(t, got, "answer")
	if len(answers) != 1 {
		t.Fatalf("%d answers", len(answers))
	}
	answers[0].check(t, "legacy", success)
}

// 40 probes of /-/ready at the same time do not wait for each other. One after the other they would take 80 seconds.
func TestReadinessIsAnsweredWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	p := newProcess(t, *m.text.Load()+"ready: {store: reported}\n")
	release := holdStore(t, m)
	defer release()
	p.waitForAdmin("/-/ready?verbose", "cannot be written to")
	var probes sync.WaitGroup
	for range 40 {
		probes.Go(func() {
			p.admin("GET", "/-/ready").is(t, 200)
		})
	}
	probes.Wait()
}

// A caller that closes its sending direction at once, as some programs do, gets an answer to each call, also if the
// connection is accepted only after that.
func TestCallerThatHasClosedItsDirectionIsAnswered(t *testing.T) {
	t.Parallel()
	p := newProcessTo(t, "v2", newBackend(t, replyWith(200, `{"code":"ERROR","message":"x","data":null}`)))
	for range 20 {
		got, err := rawBytes(p.Address(), strings.Replace(nextCall(v2("read")), "\r\n", "\r\nConnection: close\r\n", 1))
		must(t, err)
		equal(t, strings.HasPrefix(got, "HTTP/1.1 "), true, got)
	}
}
