package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// modelTimeout is the timeout of the upstreams. It is short, because many calls run into it.
const modelTimeout = 150 * time.Millisecond

// A fault is what goes wrong with one call at one backend. The faults of the sandbox hit whichever call comes next;
// these belong to a call, so that a run is reproducible however its calls overlap.
type fault string

const (
	noFault     fault = ""
	unreachable fault = "unreachable"      // no connection, nothing was sent
	lost        fault = "lost"             // not executed, and the connection is closed
	dropped     fault = "dropped"          // executed, and the connection is closed
	cut         fault = "cut"              // executed, and half of the reply is sent
	failed      fault = "ERROR"            // not executed
	maintenance fault = "maintenance"      // not executed
	htmlPage    fault = "page"             // executed, and HTTP 500 with a page of HTML
	oddStatus   fault = "odd status"       // executed, and the correct body with HTTP 500
	late        fault = "late"             // executed, and the reply comes after the timeout
	later       fault = "done later"       // executed after the timeout
	slow        fault = "slow"             // executed, and the reply comes shortly before the timeout
	otherBill   fault = "of another bill"  // not executed, and a success that names another bill
	otherKey    fault = "with another key" // not executed, and a success with the key of another partner
)

var faults = []fault{unreachable, lost, dropped, cut, failed, maintenance, htmlPage, oddStatus, late, later, slow, slow, otherBill, otherKey}

// A modelBackend is a sandbox behind a socket.
type modelBackend struct {
	form    string
	url     string
	service *sandbox.Service
	model   *model
}

// billAt is a bill of a partner.
type billAt struct{ partner, id string }

// parseCall returns the operation and the bill of a call in the form of the backend.
func (s *modelBackend) parseCall(path string, body []byte) (op string, at billAt) {
	first := func(paths ...string) (text string) {
		for _, v := range gjson.GetManyBytes(body, paths...) {
			text += v.Str
		}
		return text
	}
	return s.operation(path), billAt{first("apiKey", "apikey"), first("bill_id", "bill.billId", "bill.bill_id")}
}

// state is the state of a bill, "" if the backend does not have it.
func (s *modelBackend) state(at billAt) string {
	b, err := s.service.Bill(at.partner, at.id)
	if err != nil {
		return ""
	}
	return b.State
}

func (s *modelBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	op, at := s.parseCall(r.URL.Path, body)
	v := s.model.checkArrival(s, r.Header.Get("X-Request-Id"), op, at)
	defer s.model.inFlight.add(-1)
	certain := false // whether the reply says that nothing was done
	defer func() { s.model.finishCall(v, certain) }()
	f := v.fault
	switch f {
	case lost:
		panic(http.ErrAbortHandler)
	case failed, maintenance, otherBill, otherKey:
		s.replyInstead(w, f, op, at)
		return
	case slow:
		time.Sleep(modelTimeout * 2 / 3)
	case later:
		time.Sleep(modelTimeout * 3 / 2) // longer than the gateway's timeout, which the backend cannot observe
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	s.service.ServeHTTP(answer, r)
	var said struct {
		Code  string
		State string `json:"appr_state"`
	}
	_ = json.Unmarshal(answer.Body.Bytes(), &said)
	if isWrite(op) && said.Code == "0000" {
		s.model.recordEffect(v)
	}
	status, sent := answer.Code, answer.Body.Bytes()
	switch f {
	case dropped:
		panic(http.ErrAbortHandler)
	case htmlPage:
		status, sent = 500, []byte("<html>something failed</html>")
	case oddStatus:
		status = 500
	case late:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	certain = (f == noFault || f == slow) && said.Code != "0000" && said.Code != "BILL_001"
	s.model.finishCall(v, certain) // before the reply is sent
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(sent)))
	w.WriteHeader(status)
	if f == cut {
		_, _ = w.Write(sent[:len(sent)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(sent)
}

// replyInstead answers a call that the sandbox does not get.
func (s *modelBackend) replyInstead(w http.ResponseWriter, f fault, op string, at billAt) {
	code := map[fault]string{failed: "ERROR", maintenance: "MAINTAINED_METHOD", otherBill: "0000", otherKey: "0000"}[f]
	switch f {
	case otherBill:
		at.id = "ANOTHER"
	case otherKey:
		at.partner = "another"
	}
	format := inForm(s.form, `{"code":%[1]q,"message":"a fault","data":null}`, `{"code":%[1]q,"msg":"a fault"}`)
	switch {
	case code != "0000":
	case s.form == "v2":
		format = `{"code":"0000","message":"a fault","data":{"apiKey":%[2]q,"billId":%[3]q,"apprState":"F"}}`
	case op == "read":
		format = `{"apikey":%[2]q,"bill_id":%[3]q,"appr_state":"F"}`
	case op == "resend": // its success in legacy names neither, so it would be a real success
		code = "ERROR"
	default:
		format = `{"code":"0000","msg":"a fault","apikey":%[2]q,"bill_id":%[3]q}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, format, code, at.partner, at.id)
}

// A backendCall is a call that reached a backend.
type backendCall struct {
	backend  *modelBackend
	id, op   string
	at       billAt
	fault    fault
	direct   bool // not through the gateway
	finished bool
}

// A replica is a gateway with its own router and its own connection to the store. It can die at any moment, as a
// process can.
type replica struct {
	gateway   *proxy.Gateway
	store     *store.Store
	router    *routing.Router
	server    *httptest.Server
	model     *model
	dead      atomic.Bool
	once      sync.Once
	stepsLeft atomic.Int64 // until it dies
}

var errDead = errors.New("the replica is dead")

func (r *replica) kill() {
	r.once.Do(func() {
		_ = r.store.Close() // first: a dead process writes nothing to the store
		r.dead.Store(true)
		r.gateway.Close()
	})
}

// step counts an event on the connections and returns errDead if the replica is dead.
func (r *replica) step() error {
	if r.model.stepsToBackup.Load() > 0 && r.model.stepsToBackup.Add(-1) == 0 {
		r.model.makeBackup(r.model.t)
		r.model.stepsToBackup.Store(-1)
	}
	if r.stepsLeft.Add(-1) == 0 {
		r.model.run.add("crashes")
		r.kill()
	}
	if r.dead.Load() {
		return errDead
	}
	return nil
}

func (r *replica) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	q.Body = &arrivalRecorder{ReadCloser: q.Body, model: r.model, id: q.Header.Get("X-Request-Id")}
	answer := httptest.NewRecorder()
	if !r.dead.Load() {
		r.gateway.ServeHTTP(answer, q)
	}
	if r.dead.Load() {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// An arrivalRecorder records when a replica has read the whole body of a call.
type arrivalRecorder struct {
	io.ReadCloser
	model *model
	id    string
}

func (a *arrivalRecorder) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF {
		a.model.mu.Lock()
		defer a.model.mu.Unlock()
		if c := a.model.byID[a.id]; c != nil {
			c.arrived = time.Now()
		}
	}
	return n, err
}

// call makes a call of a replica to a backend, with the faults of the model.
func (b *modelBackend) call(r *replica, c proxy.UpstreamCall, next func()) error {
	if err := r.step(); err != nil {
		return err
	}
	if r.model.faultOf(c.ID, b, b.operation(c.Path)) == unreachable {
		return errors.New("no connection")
	}
	r.model.recordCall(c.ID)
	r.model.inFlight.add(1)
	defer r.model.inFlight.add(-1)
	next()
	return r.step()
}

func (w *model) recordCall(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.byID[id]; c != nil && c.calledAt.IsZero() {
		c.calledAt = time.Now()
	}
}

// replicate starts another replica, which knows all decisions so far. A running replica learns of a change later, as
// replicas poll once a second. At most two run.
func (w *model) replicate(t rapid.TB) {
	r := &replica{model: w}
	r.stepsLeft.Store(1 << 40)
	var err error
	r.store, err = store.Open(bg, "sqlite:"+w.file())
	must(t, err)
	c, err := proxytest.ParseConfig(w.config)
	must(t, err)
	ahead := w.clock
	now := func() time.Time { return time.Now().Add(ahead) }
	_, err = r.store.Tick(bg, now())
	must(t, err)
	r.router, err = routing.New(bg, c, routing.Options{Store: r.store, Now: now})
	must(t, err)
	r.gateway, err = proxy.New(c, proxy.Options{Rollout: r.router, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	for i, name := range []string{"old", "new"} {
		r.gateway.WrapCalls(name, func(c proxy.UpstreamCall, next func()) error { return w.backends[i].call(r, c, next) })
	}
	r.server = httptest.NewServer(r)
	w.replicas = append(w.replicas, r)
	if len(w.replicas) > 2 {
		w.removeReplica(w.replicas[0])
	}
}

// removeReplica ends a replica, dead or not. No call of a partner is in progress.
func (w *model) removeReplica(r *replica) {
	w.replicas = slices.DeleteFunc(w.replicas, func(other *replica) bool { return other == r })
	w.client.CloseIdleConnections()
	r.server.Close()
	r.kill()
}

// stopReplicas ends all replicas and waits until no call is in progress.
func (w *model) stopReplicas() {
	for len(w.replicas) > 0 {
		w.removeReplica(w.replicas[0])
	}
	w.inFlight.waitForZero()
}

// An inFlightCount can be waited for until it is zero. Unlike a WaitGroup it may rise again meanwhile: comparisons
// start at any time.
type inFlightCount struct {
	*sync.Cond
	n int
}

func newInFlightCount() inFlightCount { return inFlightCount{Cond: sync.NewCond(&sync.Mutex{})} }

func (g *inFlightCount) add(n int) {
	g.L.Lock()
	defer g.L.Unlock()
	g.n += n
	g.Broadcast()
}

func (g *inFlightCount) waitForZero() {
	g.L.Lock()
	defer g.L.Unlock()
	for g.n > 0 {
		g.Wait()
	}
}

// drawFault returns noFault most of the time.
func drawFault(t *rapid.T, label string, oneIn int) fault {
	if drawInt(t, label+" fails", oneIn) != 1 {
		return noFault
	}
	return pick(t, label, faults...)
}

// bg is the context of what the model does: rapid has none.
var bg = context.Background()

// operation is that of a path.
func (s *modelBackend) operation(path string) string {
	for _, op := range operations {
		if path == (call{form: s.form, op: op}).path() {
			return op
		}
	}
	return "read"
}
