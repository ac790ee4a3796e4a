package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
)

// A gate holds calls before they reach a backend.
type gate struct {
	hold    atomic.Int32  // how many more calls to hold
	reached chan struct{} // one for each that is held
	release chan struct{}
	end     string // of the path: /read, /send
	once    sync.Once
}

// newGate returns a gate that opens when the test ends, because the gateway waits for the calls at its end.
func newGate(t testing.TB, end string, hold int32) *gate {
	g := &gate{reached: make(chan struct{}, 100), release: make(chan struct{}), end: end}
	g.hold.Store(hold)
	context.AfterFunc(t.Context(), g.open)
	return g
}

// open releases all calls.
func (g *gate) open() { g.once.Do(func() { close(g.release) }) }

// holdCalls holds calls whose path has this end. A caller that disconnects does not end them: the backend already has
// the call.
func (g *gate) holdCalls(service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, g.end) && g.hold.Add(-1) >= 0 {
			g.reached <- struct{}{}
			<-g.release
		}
		service.ServeHTTP(w, r)
	})
}

// holdOld puts the gate before the old backend.
func (g *gate) holdOld(backendName string, service http.Handler) http.Handler {
	if backendName == "old" {
		return g.holdCalls(service)
	}
	return service
}

// sendAndLeave sends a call; leave disconnects its caller. ended gets the error of the call when it has ended.
func (c *caller) sendAndLeave(q call) (leave context.CancelFunc, ended chan error) {
	c.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", c.url+q.path(), strings.NewReader(q.body()))
	must(c.t, err)
	r.Header.Set("Content-Type", "application/json")
	ended = make(chan error, 1)
	go func() {
		response, err := c.client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		ended <- err
	}()
	return leave, ended
}

// waitForLog waits for a line that contains all words.
func (p *process) waitForLog(words ...string) {
	p.t.Helper()
	for {
		line, missing := p.logs.Next(p.t), false
		for _, word := range words {
			missing = missing || !strings.Contains(line, word)
		}
		if !missing {
			return
		}
	}
}

// The old backend is slow to answer the gateway's probe, and the partner gives up. The partner destroys the bill, is
// told that it does not exist, and creates another one. The first create must not be sent after that.
func TestCreateIsNotSentAfterItsCallerLeft(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		g := newGate(t, "/read", 1)
		m := newRolloutWith(t, "new", g.holdOld, "")
		leave, ended := m.sendAndLeave(newCall(client, "create"))
		receive(t, g.reached, "the read at the old backend")
		leave()
		receive(t, ended, "the end of the call")
		play(m, `
log "status":499 | "operation":"bill.create" | the caller went away | "upstream":"none"
noSuchBill CLIENT destroy
success CLIENT create billId=ANOTHER0000000000001`, "CLIENT", client)
		g.open()
		play(m, `
noSuchBill CLIENT read
bills 0 1`, "CLIENT", client)
		equal(t, m.newCalls.writes(), 1)
	})
}

// A load balancer can hide that the partner has given up. A create that is older than SendWithin is refused, with
// this reason, and its bill has no owner.
func TestCreateIsNotSentAfterSendWithin(t *testing.T) {
	t.Parallel()
	late := func(t *testing.T, m *rolloutGateway, got answer) {
		t.Helper()
		got.check(t, "v2", refused, "Nothing was sent: it is not possible now.")
		play(m, `log "operation":"bill.create" | rollout: too late`)
		if o, err := m.owner(); err == nil && o.State != ledger.Released {
			t.Errorf("the ledger has %+v", o)
		}
		equal(t, m.oldCalls.writes()+m.newCalls.writes(), 0)
	}
	parallel(t, "a slow old backend", func(t *testing.T) {
		g := newGate(t, "/read", 1)
		m := newRolloutWith(t, "new", g.holdOld, sentWithin(100*time.Millisecond))
		late(t, m, m.send(v2("create")))
		g.open()
	})
	parallel(t, "a locked store", func(t *testing.T) {
		m := newRolloutWith(t, "old", noFront, sentWithin(100*time.Millisecond))
		release := holdStore(t, m)
		began, got := time.Now(), m.later(v2("create"))
		eventually(t, "time stands still", func() bool { return time.Since(began) > 300*time.Millisecond })
		release()
		late(t, m, receive(t, got, "the answer"))
		m.waitForOwner(func(o proxytest.Owner) bool { return o.State == ledger.Released })
	})
}

// holdStore blocks all other writers of the store until release.
func holdStore(t *testing.T, m *rolloutGateway) (release func()) {
	t.Helper()
	db := m.storeDB(t)
	_, err := db.Exec("BEGIN IMMEDIATE")
	must(t, err)
	return func() {
		_, err := db.Exec("ROLLBACK")
		must(t, err)
	}
}

// R44: while a create is in progress, through this gateway or another one, no call of the same bill is answered with
// the "no such bill" of its backend.
func TestR44_NoSuchBillDoesNotCountDuringACreate(t *testing.T) {
	t.Parallel()
	for stage, path := range map[string]string{"old": "/send", "new": "/bill", "drained": "/bill"} {
		for _, client := range forms {
			parallel(t, stage+"/"+client, func(t *testing.T) {
				g := newGate(t, path, 1)
				m := newRolloutWith(t, stage, func(backendName string, service http.Handler) http.Handler {
					if (backendName == "old") == (stage == "old") {
						return g.holdCalls(service)
					}
					return service
				}, "")
				created := g.held(&m.caller, newCall(client, "create"))
				for _, through := range []*process{m.process, newProcess(t, *m.text.Load())} {
					play(through, `
# the backend got it
502:MAINTAINED_METHOD CLIENT destroy,cancel,resend | the outcome of its create is unknown
refused CLIENT read | the outcome of its create is unknown`, "CLIENT", client)
				}
				g.open()
				receive(t, created, "the bill").check(t, client, success)
				m.expect(newCall(client, "destroy"), success)
			})
		}
	}
}

// R44: during a create the gateway probes the slow old backend. The caller, whose disconnect a load balancer hides,
// destroys or reads the bill through this gateway or another one, and gets the answer that it does not exist. Then
// the create is not sent.
func TestR44_CreateIsNotSentAfterNoSuchBillWasReported(t *testing.T) {
	t.Parallel()
	for _, through := range []string{"this gateway", "another"} {
		for _, op := range []string{"destroy", "read"} {
			for _, client := range forms {
				parallel(t, through+"/"+op+"/"+client, func(t *testing.T) {
					g := newGate(t, "/read", 1)
					m := newRolloutWith(t, "new", g.holdOld, "")
					other := m.process
					if through == "another" {
						other = newProcess(t, *m.text.Load())
					}
					created := g.held(&m.caller, newCall(client, "create"))
					other.expect(newCall(client, op), noSuchBill)
					g.open()
					receive(t, created, "the end of the create").check(t, client, refused, "Nothing was sent")
					m.expect(newCall(client, "create"), success) // a new create is sent
					equal(t, m.newCalls.writes(), 1)
				})
			}
		}
	}
}

// newHeldBackend returns a sandbox behind a gate.
func newHeldBackend(t testing.TB, end string, hold int32) (*gate, *backend) {
	t.Helper()
	g := newGate(t, end, hold)
	return g, newBackend(t, g.holdCalls(newService()))
}

// held sends a call and waits until the gate holds it.
func (g *gate) held(c *caller, q call) <-chan answer {
	c.t.Helper()
	got := c.later(q)
	receive(c.t, g.reached, "call at the backend")
	return got
}
