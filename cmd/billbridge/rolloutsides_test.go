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

// The two backends of a rollout: sandboxes that tell every write that reaches them, and in which calls go wrong.

// A spot names a bill of a partner.
type spot struct{ partner, bill string }

// A mishap is what goes wrong with one call at one side.
type mishap string

const (
	lost    mishap = "lost"       // the connection is cut before anything is done
	dropped mishap = "dropped"    // done, and cut before the answer
	halved  mishap = "halved"     // done, and cut in the middle of the answer
	late    mishap = "late"       // done, and the answer comes when nobody waits for it any more
	later   mishap = "done later" // nobody waits any more when it is done
)

var mishaps = []mishap{lost, dropped, halved, late, later}

// A side is a backend of which every call can be told from every other.
type side struct {
	n          int // its place among the sides
	name, form string
	url        string
	service    *sandbox.Service
	of         *moving
}

var sideNames = [2]string{"old", "new"}

func newSide(t *testing.T, of *moving, n int, form string) *side {
	t.Helper()
	var partners []sandbox.Partner
	for _, key := range movers {
		partners = append(partners, sandbox.Partner{Key: key, Name: key})
	}
	s := &side{n: n, name: sideNames[n], form: form, of: of, service: sandbox.New(sandbox.Options{Partners: partners, Transport: nobodyCalledBack{}})}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); _ = s.service.Close() })
	s.url = server.URL
	return s
}

// nobodyCalledBack carries no callback anywhere.
type nobodyCalledBack struct{}

func (nobodyCalledBack) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("callbacks go nowhere in this test")
}

// state is that of a bill, "" if the side has none.
func (s *side) state(at spot) string {
	b, err := s.service.Bill(at.partner, at.bill)
	if err != nil {
		return ""
	}
	return b.State
}

// do has the service take a call, and tells whether it said that a write was done.
func (s *side) do(path string, body []byte) (answer *httptest.ResponseRecorder, code string) {
	answer = httptest.NewRecorder()
	s.service.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	var said struct{ Code string }
	_ = json.Unmarshal(answer.Body.Bytes(), &said)
	return answer, said.Code
}

func (s *side) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // its gateway was killed while it sent: there is no call
	}
	v := s.of.arrive(s, r.Header.Get("X-Request-Id"), r.URL.Path, body)
	defer v.end(false)
	switch v.mishap {
	case lost:
		panic(http.ErrAbortHandler)
	case later:
		<-r.Context().Done()
	}
	v.await(asking)
	v.await(beforeIt)
	answer, code := s.do(r.URL.Path, body)
	if code == "0000" {
		v.takesEffect()
	}
	v.await(afterIt)
	switch v.mishap {
	case dropped, later:
		panic(http.ErrAbortHandler)
	case late:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	// Before anybody can know of it: then the next create may already be somewhere.
	v.end(v.mishap == "" && code != "0000" && code != "BILL_001")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	if v.mishap == halved {
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(answer.Body.Bytes())
	_ = http.NewResponseController(w).Flush()
	v.await(answered)
}

// A visit is a call that reached a side.
type visit struct {
	side   *side
	call   *sending
	write  bool
	mishap mishap
	blow   *blow // nil: no gateway is killed over it
	ended  bool
}

// A blow is a kill that waits for its moment: a call that came through a gateway is at a side.
type blow struct {
	through *gateway
	calls   int // of that kind, until then
	when    moment
	due     chan struct{} // closed then
	struck  chan struct{} // closed when the gateway is dead
}

// A moment is when a gateway is killed, seen from a call that is at a side.
type moment int

const (
	asking   moment = iota // for a write the gateway reads the bill: whose it is, or what became of it
	beforeIt               // a write takes effect
	afterIt                // it took effect, if it does
	answered               // it was answered
)

// await waits for the kill that belongs to this moment of the visit, if there is one.
func (v *visit) await(when moment) {
	if v.blow == nil || v.blow.when != when {
		return
	}
	close(v.blow.due)
	select {
	case <-v.blow.struck:
	case <-v.side.of.t.Context().Done():
	}
}

// arrive holds a call that reached a side to the rules: no write comes where the bill is not, and no create where the other
// side may have made the bill.
func (m *moving) arrive(s *side, id, path string, body []byte) *visit {
	op := opOf(s.form, path)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.sent[id]
	if c == nil {
		m.t.Errorf("a call that nobody made came to the %s side: %s %s", s.name, path, body)
		c = &sending{}
	}
	v := &visit{side: s, call: c, mishap: c.read[s.n], write: op != "read"}
	if v.write {
		m.writing.Add(1)
		v.mishap = c.write
	}
	m.strike(v)
	if v.mishap != "" {
		m.sums.mishaps++
	}
	m.note(c.at, "%s: its %s came to the %s side, mishap %q", id, op, s.name, v.mishap)
	if !v.write {
		return v
	}
	other := 1 - s.n
	if got := spotOf(body); op != c.op || got != c.at {
		m.breach(c.at, "%s: it is a %s of %v, and a %s of %v came to the %s side", id, c.op, c.at, op, got, s.name)
	}
	if c.visits++; c.visits > 1 {
		m.breach(c.at, "%s: it came to the sides %d times", id, c.visits)
	}
	if c.before[other] != "" {
		m.breach(c.at, "%s: the %s came to the %s side, and the bill is at the other", id, op, s.name)
	}
	if op != "create" {
		return v
	}
	if open := m.creates(c.at); open[other].now > 0 || open[other].unsure {
		m.breach(c.at, "%s: the create came to the %s side after one at the other that may have made the bill", id, s.name)
	}
	m.creates(c.at)[s.n].now++
	return v
}

// strike gives the blow that waits to the visit if it is the one that it waits for.
func (m *moving) strike(v *visit) {
	fits := v.write
	if m.next != nil && m.next.when == asking {
		fits = !v.write && v.call.op != "read"
	}
	if m.next == nil || m.next.through != v.call.through || !fits {
		return
	}
	if m.next.calls--; m.next.calls > 0 {
		return
	}
	v.blow, v.mishap, m.next = m.next, "", nil // the kill is what goes wrong
}

func (v *visit) takesEffect() {
	if !v.write {
		return
	}
	m := v.side.of
	m.mu.Lock()
	defer m.mu.Unlock()
	v.call.effects++
	m.did(v.call.at)[v.call.op]++
	m.note(v.call.at, "%s: it took effect at the %s side", v.call.id, v.side.name)
}

// end ends a visit, once. It is certain if whoever asked is told for sure that nothing was done.
func (v *visit) end(certain bool) {
	m := v.side.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.ended || !v.write {
		return
	}
	v.ended = true
	if v.call.op == "create" {
		open := m.creates(v.call.at)
		open[v.side.n].now--
		open[v.side.n].unsure = open[v.side.n].unsure || !certain
	}
	m.writing.Done()
}

// What the calls of bills are made of.

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

// operationBody spells a call. Its amount is 20000; the hash is the one that fits, or it is wrong.
func operationBody(form, op string, at spot, merchant string, wrong bool) string {
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

// spotOf is the bill that a body of either form is about.
func spotOf(body []byte) spot {
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
	return spot{in.V2 + in.Legacy, in.ID + in.Bill.V2 + in.Bill.Legacy}
}
