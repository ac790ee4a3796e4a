package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A soakBill is what a backend has of a bill. Key and price follow from the id, so that a value of another call is
// noticed.
type soakBill struct {
	id, callback string
	state        string
	creates      int // how many creates took effect
	notified     bool
}

// The id of a bill is PARTNER-FORM-NUMBER. Its price is 1000 and the number.
func soakID(partner int, form string, n int64) string {
	return fmt.Sprintf("%d-%s-%07d", partner, form[:1], n)
}
func soakKey(id string) string { return "soak-partner-" + id[:1] }
func soakForm(id string) string {
	if id[2] == 'v' {
		return "v2"
	}
	return "legacy"
}

func soakPrice(id string) int {
	n, _ := strconv.Atoi(id[4:])
	return 1000 + n
}

// A soakBook is a backend that keeps the book of what it did. It pays every third bill and sends the callback until
// it is taken.
type soakBook struct {
	form    string
	server  *httptest.Server
	client  *http.Client
	failing atomic.Bool // most calls go wrong

	mu        sync.Mutex
	bills     map[string]*soakBill
	writes    map[string]int // by X-Request-Id
	wrong     []string       // what must never happen
	faults    int
	paying    sync.WaitGroup
	callbacks int // that were taken
}

func newSoakBook(t *testing.T, form string) *soakBook {
	b := &soakBook{form: form, bills: map[string]*soakBill{}, writes: map[string]int{}, client: &http.Client{Transport: &http.Transport{}, Timeout: wireTimeout}}
	b.server = httptest.NewServer(b)
	t.Cleanup(func() { b.paying.Wait(); b.client.CloseIdleConnections(); b.server.Close() })
	return b
}

func (b *soakBook) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// soakFields are the fields of a call or a callback in both forms; price and state are texts of either type.
type soakFields struct {
	key, id, callback, price, state, code string
}

// soakRead reads the fields wherever one of the forms has them.
func soakRead(body []byte) (f soakFields, ok bool) {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	var root map[string]any
	if in.Decode(&root) != nil {
		return f, false
	}
	flat := map[string]any{}
	for _, level := range []any{root, root["bill"], root["data"]} {
		m, _ := level.(map[string]any)
		for name, value := range m {
			flat[strings.ToLower(strings.ReplaceAll(name, "_", ""))] = value
		}
	}
	text := func(names ...string) string {
		for _, name := range names {
			if v, found := flat[name]; found && v != nil {
				return fmt.Sprint(v)
			}
		}
		return ""
	}
	return soakFields{text("apikey"), text("billid"), text("callbackurl"), text("price", "apprprice"), text("apprstate"), text("code")}, true
}

// ServeHTTP answers one call. A fault is chosen before the call takes effect or after it.
func (b *soakBook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	f, ok := soakRead(body)
	if err != nil || !ok || len(f.id) < 5 || f.key != soakKey(f.id) || f.price != "" && f.price != fmt.Sprint(soakPrice(f.id)) {
		b.note("the %s backend got a call whose fields do not belong together: %s %v", b.form, body, err)
		return
	}
	fault := 0
	if b.failing.Load() && rand.IntN(10) < 6 {
		fault = 1 + rand.IntN(6)
	}
	op := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	b.mu.Lock()
	if fault > 0 {
		b.faults++
	}
	b.mu.Unlock()
	if op != "read" {
		b.mu.Lock()
		id := r.Header.Get("X-Request-Id")
		b.writes[id]++
		twice := b.writes[id] > 1
		b.mu.Unlock()
		if twice {
			b.note("the write %s was sent twice", id)
		}
	}
	switch fault {
	case 1: // not done, and no answer
		panic(http.ErrAbortHandler)
	case 2: // not done
		b.say(w, http.StatusInternalServerError, "ERROR", f.id, nil)
		return
	}
	answer := httptest.NewRecorder()
	b.do(answer, op, f)
	switch fault {
	case 3: // done, and no answer
		panic(http.ErrAbortHandler)
	case 4: // done, and half an answer
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		panic(http.ErrAbortHandler)
	case 5: // done, and a page
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>502</html>")
		return
	case 6: // done, and the answer comes when nobody waits any more
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer.Body.Bytes())
}

func (b *soakBook) do(w http.ResponseWriter, op string, f soakFields) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bill := b.bills[f.id]
	switch {
	case (op == "bill" || op == "send") && bill != nil:
		bill.creates++
		b.say(w, 200, "BILL_001", f.id, nil)
	case op == "bill" || op == "send":
		bill = &soakBill{id: f.id, callback: f.callback, state: "W", creates: 1}
		b.bills[f.id] = bill
		if soakPrice(f.id)%3 == 0 {
			b.paying.Go(func() { b.pay(bill) })
		}
		b.say(w, 200, "0000", f.id, bill)
	case bill == nil:
		b.say(w, 200, "BILL_003", f.id, nil)
	case op == "read":
		b.say(w, 200, "", f.id, bill)
	case op == "destroy" && bill.state == "W":
		bill.state = "D"
		b.say(w, 200, "0000", f.id, bill)
	default:
		b.say(w, 200, "BILL_002", f.id, nil)
	}
}

// say writes a reply in the form of the backend. The code "" is a read that shows the bill.
func (b *soakBook) say(w http.ResponseWriter, status int, code, id string, bill *soakBill) {
	w.WriteHeader(status)
	switch {
	case bill == nil && b.form == "legacy":
		fmt.Fprintf(w, `{"code":%q,"msg":"text"}`, map[string]string{"BILL_003": "9980", "BILL_001": "9800"}[code]+map[bool]string{true: code}[code != "BILL_003" && code != "BILL_001"])
	case bill == nil:
		fmt.Fprintf(w, `{"code":%q,"message":"text","data":null}`, code)
	case code == "":
		_, _ = io.WriteString(w, b.record(id, bill.state, "0000"))
	case b.form == "legacy":
		fmt.Fprintf(w, `{"code":"0000","msg":"ok","apikey":%q,"member":"m","merchant":"s","bill_id":%q,"hash":"h"}`, soakKey(id), id)
	default:
		fmt.Fprintf(w, `{"code":"0000","message":"ok","data":{"apiKey":%q,"member":"m","merchant":"s","billId":%q,"hash":"h"}}`, soakKey(id), id)
	}
}

// record is what a read shows of a bill, and without a code what a callback says.
func (b *soakBook) record(id, state, code string) string {
	if b.form == "legacy" {
		return fmt.Sprintf(`{"apikey":%q,"bill_id":%q,"appr_state":%q,"appr_price":"%d","appr_dt":"20261122101112"}`, soakKey(id), id, state, soakPrice(id))
	}
	data := fmt.Sprintf(`{"apiKey":%q,"billId":%q,"apprState":%q,"apprPrice":"%d","apprDt":20261122101112}`, soakKey(id), id, state, soakPrice(id))
	if code == "" {
		return data
	}
	return fmt.Sprintf(`{"code":%q,"message":"ok","data":%s}`, code, data)
}

// pay marks a bill paid, unless it was destroyed, and sends its callback until it is taken.
func (b *soakBook) pay(bill *soakBill) {
	b.mu.Lock()
	if bill.state != "W" {
		b.mu.Unlock()
		return
	}
	bill.state = "F"
	b.mu.Unlock()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for late := time.After(wireTimeout); ; {
		response, err := b.client.Post(bill.callback, "application/json", strings.NewReader(b.record(bill.id, "F", "")))
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode == 200 && strings.Contains(string(body), `"0000"`) {
				b.mu.Lock()
				bill.notified = true
				b.callbacks++
				b.mu.Unlock()
				return
			}
		}
		select {
		case <-again.C:
		case <-late:
			b.note("the callback of %s to %s is not taken: %v", bill.id, bill.callback, err)
			return
		}
	}
}

// A soakPartner is the server of all partners. It refuses some callbacks, which must come again.
type soakPartner struct {
	server *httptest.Server
	mu     sync.Mutex
	got    map[string]int // by bill
	wrong  []string
	calls  int
}

func newSoakPartner(t *testing.T) *soakPartner {
	p := &soakPartner{got: map[string]int{}}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	return p
}

func (p *soakPartner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f, ok := soakRead(body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	id := strings.TrimPrefix(r.URL.Path, "/paid/")
	inForm := len(f.id) > 4 && strings.Contains(string(body), map[string]string{"v2": `"billId"`, "legacy": `"bill_id"`}[soakForm(f.id)])
	if !ok || f.id != id || f.key != soakKey(id) || f.price != fmt.Sprint(soakPrice(id)) || f.state != "F" || !inForm {
		p.wrong = append(p.wrong, fmt.Sprintf("a callback to %s says %s", r.URL.Path, body))
	}
	if rand.IntN(10) == 0 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	p.got[id]++
	_, _ = io.WriteString(w, `{"code":"0000","msg":"성공하였습니다."}`)
}
