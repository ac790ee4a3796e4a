package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	"billbridge/proxy/sandbox"
)

// The backends of the rollout tests: sandboxes that record every write, and in which calls fail.

// A billRef identifies a bill.
type billRef struct{ partner, bill string }

// A fault is what goes wrong with a call at a backend.
type fault string

const (
	lost       fault = "lost"       // the connection is aborted before the call has an effect
	dropped    fault = "dropped"    // the connection is aborted after the effect, before the answer
	truncated  fault = "halved"     // the connection is aborted in the middle of the answer
	lateAnswer fault = "late"       // the answer comes after the gateway has given up
	lateEffect fault = "done later" // the effect comes after the gateway has given up
)

var faults = []fault{lost, dropped, truncated, lateAnswer, lateEffect}

// A backend is a sandbox that records its calls.
type backend struct {
	n          int // 0 for old, 1 for new
	name, form string
	url        string
	service    *sandbox.Service
	run        *rolloutRun
}

var backendNames = [2]string{"old", "new"}

func newBackend(t *testing.T, of *rolloutRun, n int, form string) *backend {
	t.Helper()
	var partners []sandbox.Partner
	for _, key := range partnerNames {
		partners = append(partners, sandbox.Partner{Key: key, Name: key})
	}
	s := &backend{n: n, name: backendNames[n], form: form, run: of, service: sandbox.New(sandbox.Options{Partners: partners, Transport: noCallbacks{}})}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); _ = s.service.Close() })
	s.url = server.URL
	return s
}

// noCallbacks sends no callback.
type noCallbacks struct{}

func (noCallbacks) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("callbacks go nowhere in this test")
}

// state returns the state of a bill, or "" if the backend does not have it.
func (s *backend) state(at billRef) string {
	b, err := s.service.Bill(at.partner, at.bill)
	if err != nil {
		return ""
	}
	return b.State
}

// do makes a call of the sandbox, and returns the answer and its code.
func (s *backend) do(path string, body []byte) (answer *httptest.ResponseRecorder, code string) {
	answer = httptest.NewRecorder()
	s.service.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	var said struct{ Code string }
	_ = json.Unmarshal(answer.Body.Bytes(), &said)
	return answer, said.Code
}

func (s *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the gateway was killed during the request, which does not count
	}
	v := s.run.arrive(s, r.Header.Get("X-Request-Id"), r.URL.Path, body)
	defer v.end(false)
	switch v.fault {
	case lost:
		panic(http.ErrAbortHandler)
	case lateEffect:
		<-r.Context().Done()
	}
	v.await(duringRead)
	v.await(beforeEffect)
	answer, code := s.do(r.URL.Path, body)
	if code == "0000" {
		v.recordEffect()
	}
	v.await(afterEffect)
	switch v.fault {
	case dropped, lateEffect:
		panic(http.ErrAbortHandler)
	case lateAnswer:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	// Before the answer is sent: afterwards the next create can arrive.
	v.end(v.fault == "" && code != "0000" && code != "BILL_001")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	if v.fault == truncated {
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(answer.Body.Bytes())
	_ = http.NewResponseController(w).Flush()
	v.await(afterAnswer)
}

// An arrival is a call that reached a backend.
type arrival struct {
	backend *backend
	call    *partnerCall
	write   bool
	fault   fault
	kill    *plannedKill // nil if no gateway is killed during this call
	ended   bool
}

// A plannedKill is a kill that waits for a call at a backend.
type plannedKill struct {
	through *gateway
	calls   int // the number of such calls before the kill
	when    killMoment
	due     chan struct{} // closed when the gateway is to be killed
	killed  chan struct{} // closed when it is killed
}

// A killMoment is the moment of a kill during a call.
type killMoment int

const (
	duringRead   killMoment = iota // while the gateway reads a bill to find its owner or the outcome of a write
	beforeEffect                   // before a write takes effect
	afterEffect                    // after a write took effect
	afterAnswer                    // after the answer
)

// await waits for the kill, if it is planned for this moment.
func (v *arrival) await(when killMoment) {
	if v.kill == nil || v.kill.when != when {
		return
	}
	close(v.kill.due)
	select {
	case <-v.kill.killed:
	case <-v.backend.run.t.Context().Done():
	}
}

// arrive checks a call that reached a backend: no write goes to a backend that is not the owner, and no create to a
// backend while the other one may have the bill.
func (m *rolloutRun) arrive(s *backend, id, path string, body []byte) *arrival {
	op := opOf(s.form, path)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.sent[id]
	if c == nil {
		m.t.Errorf("unknown call at the %s backend: %s %s", s.name, path, body)
		c = &partnerCall{}
	}
	v := &arrival{backend: s, call: c, fault: c.read[s.n], write: op != "read"}
	if v.write {
		m.writes.Add(1)
		v.fault = c.write
	}
	m.assignKill(v)
	if v.fault != "" {
		m.counts.faults++
	}
	m.note(c.at, "%s: %s arrived at the %s backend, fault %q", id, op, s.name, v.fault)
	if !v.write {
		return v
	}
	other := 1 - s.n
	if got := billRefOf(body); op != c.op || got != c.at {
		m.violation(c.at, "%s: the call is a %s of %v, but a %s of %v arrived at the %s backend", id, c.op, c.at, op, got, s.name)
	}
	if c.arrivals++; c.arrivals > 1 {
		m.violation(c.at, "%s: arrived at the backends %d times", id, c.arrivals)
	}
	if c.before[other] != "" {
		m.violation(c.at, "%s: the %s arrived at the %s backend, but the bill is at the other", id, op, s.name)
	}
	if op != "create" {
		return v
	}
	if open := m.creates(c.at); open[other].underWay > 0 || open[other].mayExist {
		m.violation(c.at, "%s: the create arrived at the %s backend after one at the other that may have created the bill", id, s.name)
	}
	m.creates(c.at)[s.n].underWay++
	return v
}

// assignKill assigns the planned kill to a call, if it is the one that the kill waits for.
func (m *rolloutRun) assignKill(v *arrival) {
	fits := v.write
	if m.nextKill != nil && m.nextKill.when == duringRead {
		fits = !v.write && v.call.op != "read"
	}
	if m.nextKill == nil || m.nextKill.through != v.call.through || !fits {
		return
	}
	if m.nextKill.calls--; m.nextKill.calls > 0 {
		return
	}
	v.kill, v.fault, m.nextKill = m.nextKill, "", nil // no other fault
}

func (v *arrival) recordEffect() {
	if !v.write {
		return
	}
	m := v.backend.run
	m.mu.Lock()
	defer m.mu.Unlock()
	v.call.effects++
	m.effectsOn(v.call.at)[v.call.op]++
	m.note(v.call.at, "%s: took effect at the %s backend", v.call.id, v.backend.name)
}

// end ends an arrival, once. certain is set if the answer says for certain that nothing was done.
func (v *arrival) end(certain bool) {
	m := v.backend.run
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.ended || !v.write {
		return
	}
	v.ended = true
	if v.call.op == "create" {
		open := m.creates(v.call.at)
		open[v.backend.n].underWay--
		open[v.backend.n].mayExist = open[v.backend.n].mayExist || !certain
	}
	m.writes.Done()
}

// The calls of bill operations.

var operations = []string{"create", "resend", "read", "destroy", "cancel"}

func operationPath(form, op string) string {
	switch {
	case form == "v2" && op == "create":
		return "/bill"
	case form == "v2":
		return "/bill/" + op
	case op == "create":
		return "/if/bill/send"
	}
	return "/if/bill/" + op
}

func opOf(form, path string) string {
	n := slices.IndexFunc(operations, func(op string) bool { return operationPath(form, op) == path })
	if n < 0 {
		return path
	}
	return operations[n]
}

// operationBody returns the body of a call with the amount 20000. With wrong, its hash is wrong.
func operationBody(form, op string, at billRef, merchant string, wrong bool) string {
	hash := sandbox.Hash(at.bill, "", "20000")
	if wrong {
		hash = sandbox.Hash(at.bill, "", "20001")
	}
	key, id, price := "apiKey", "billId", any(20000)
	if form == "legacy" {
		key, id, price = "apikey", "bill_id", "20000"
	}
	bill := map[string]any{id: at.bill}
	if op == "create" || op == "destroy" || op == "cancel" {
		bill["price"], bill["hash"] = price, hash
	}
	root := map[string]any{key: at.partner, "member": "m", "merchant": merchant}
	switch {
	case op == "create" && form == "v2":
		bill["sendType"] = "TALK"
		root["bill"] = bill
	case op == "create" || form == "v2":
		root["bill"] = bill
	default:
		for name, value := range bill {
			root[name] = value
		}
	}
	text, err := json.Marshal(root)
	if err != nil {
		panic(fmt.Sprint("a call that cannot be spelled: ", err))
	}
	return string(text)
}

// billRefOf returns the bill of a body in either form.
func billRefOf(body []byte) billRef {
	var in struct {
		V2     string `json:"apiKey"`
		Legacy string `json:"apikey"`
		ID     string `json:"bill_id"`
		Bill   struct {
			V2     string `json:"billId"`
			Legacy string `json:"bill_id"`
		} `json:"bill"`
	}
	_ = json.Unmarshal(body, &in)
	return billRef{in.V2 + in.Legacy, in.ID + in.Bill.V2 + in.Bill.Legacy}
}
