package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// A lie is what a backend says that is not so.
type lie struct {
	op     string // of the calls that it is told to; "" for all
	state  string // the true state of the bills that the lie is about; "" for any
	once   bool   // of each bill it is told first, and not again
	turns  bool   // and every second time
	later  bool   // two minutes after a payment and later: before, a copy of the data may be behind
	again  int    // of a bill that was read so often before
	undone bool   // the write is acknowledged, and the backend does nothing
	tell   func(r *said)
}

// A said is a reply.
type said struct {
	form   string
	status int
	header http.Header
	all    map[string]any
	fields map[string]any // the part of all with the fields of the operation
}

// name is the name of a field in the form of the reply.
func (r *said) name(v2 string) string {
	special := map[string]string{"catId": "appr_cat_id", "apiKey": "apikey", "shortUrl": "shortURL", "message": "msg"}
	switch {
	case r.form == "v2":
		return v2
	case special[v2] != "":
		return special[v2]
	}
	snake := ""
	for _, c := range v2 {
		if c >= 'A' && c <= 'Z' {
			snake += "_"
		}
		snake += strings.ToLower(string(c))
	}
	return snake
}

// put replaces a field that the reply has, in its type.
func (r *said) put(v2, text string) {
	name := r.name(v2)
	if _, number := r.fields[name].(json.Number); number {
		r.fields[name] = json.Number(text)
	} else if _, ok := r.fields[name]; ok {
		r.fields[name] = text
	}
}

// wrong replaces digits of fields by others, which are the same each time.
func wrong(fields ...string) func(r *said) {
	return func(r *said) {
		for _, f := range fields {
			text := fmt.Sprint(r.fields[r.name(f)])
			if last := len(text) - 1; last > 0 {
				r.put(f, text[:last]+string('0'+(text[last]-'0'+1)%10))
			}
		}
	}
}

func put(pairs ...string) func(r *said) {
	return func(r *said) {
		for i := 0; i < len(pairs); i += 2 {
			r.put(pairs[i], pairs[i+1])
		}
	}
}

var unpaid = put("apprState", "W", "apprPrice", "", "apprNum", "", "apprDt", "0")

// further are values of a payment that are not exact.
var further = put("apprMonthly", "12", "catId", "9999999999", "apprIssuer", "국민카드", "apprIssuerCd", "99")

// lies are those that a backend tells in replies, by name.
var lies = map[string]lie{
	"amount":         {op: "read", state: "F", tell: put("apprPrice", "31000")},
	"number":         {op: "read", state: "F", tell: wrong("apprNum")},
	"time":           {op: "read", state: "F", tell: wrong("apprDt", "apprOriginDt")},
	"number missing": {op: "read", state: "F", tell: put("apprNum", "")},
	"unpaid as paid": {op: "read", state: "W", once: true, again: 1, tell: func(r *said) {
		put("apprState", "F", "apprPrice", "30000", "apprNum", "30000000", "apprDt", "20261129120000")(r)
	}},
	"paid as unpaid":       {op: "read", state: "F", later: true, tell: unpaid},
	"just paid, as unpaid": {op: "read", state: "F", tell: unpaid},
	"paid as cancelled":    {op: "read", state: "F", tell: put("apprState", "C")},
	"cancel not done":      {op: "cancel", state: "F", undone: true},
	"destroy not done":     {op: "destroy", state: "W", undone: true},
	"create not done":      {op: "create", undone: true},
	"number of the cancel": {op: "cancel", state: "F", tell: wrong("apprNum")},
	"time of the cancel":   {op: "cancel", state: "F", tell: wrong("apprCancelDt")},
	"member and merchant": {op: "create", tell: func(r *said) {
		a, b := r.name("member"), r.name("merchant")
		r.fields[a], r.fields[b] = r.fields[b], r.fields[a]
	}},
	"months, terminal and issuer": {op: "read", state: "F", tell: further},
	"the same by turns":           {op: "read", state: "F", turns: true, tell: further},
	"link":                        {op: "create", tell: put("shortUrl", "https://elsewhere.example.com/1")},
	"link missing":                {op: "create", tell: put("shortUrl", "")},
	"text and header": {tell: func(r *said) {
		r.header.Set("Server", "another")
		if name := r.name("message"); r.all[name] != nil {
			r.all[name] = "다른 말"
		}
	}},
	"HTTP 201":             {tell: func(r *said) { r.status = 201 }},
	"HTTP 500 of a read":   {op: "read", tell: func(r *said) { r.status = 500 }},
	"HTTP 500 of a create": {op: "create", tell: func(r *said) { r.status = 500 }},
}

// A liar is a backend that lies.
type liar struct {
	*sandbox.Service
	t    *testing.T
	form string
	lie  *lie
	also bool               // callbacks lie, too
	told func(nth int) bool // of the occasions for the lie; nil for none
	rng  *rand.Rand
	now  func() time.Time

	mu        sync.Mutex
	occasions map[string]int // for each lie
	lies      int            // that it has told
	of        map[string]int // for each bill of which it has lied, its reads by then
	reads     map[string]int // by bill
}

// occasion reports whether a lie can be told in the reply to a call.
func (l *lie) occasion(op string, of sandbox.Bill, reads int, now time.Time) bool {
	return (l.op == "" || l.op == op) && (l.state == "" || l.state == of.State) && (op != "create" || of.State == "") &&
		reads >= l.again && !(l.later && now.Sub(of.Approval.At) < 2*time.Minute)
}

// lying counts an occasion, and reports whether the backend lies.
func (b *liar) lying(op, id string, of sandbox.Bill) (lying bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, l := range lies {
		if l.occasion(op, of, b.reads[id], b.now()) {
			b.occasions[name]++
		}
	}
	if op == "read" {
		defer func() { b.reads[id]++ }()
	}
	if _, had := b.of[id]; b.lie == nil || had && b.lie.once || !b.lie.occasion(op, of, b.reads[id], b.now()) {
		return false
	}
	b.occasions["this"]++
	if lying = b.told(b.occasions["this"] - 1); lying {
		b.lies++
		b.of[id] = b.reads[id] + 1
	}
	return lying
}

// seen reports whether a bill of which the backend has lied was read again, or not only read.
func (b *liar) seen() bool {
	for id, reads := range b.of {
		if bill, _ := b.Bill(demoKey, id); b.reads[id] > reads || b.lie.op != "read" || bill.State != b.lie.state {
			return true
		}
	}
	return false
}

func (b *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	op, asked := "read", fields(b.t, string(body))
	for _, o := range operations {
		if r.URL.Path == (call{form: b.form, op: o}).path() {
			op = o
		}
	}
	of := asked
	if nested, ok := asked["bill"].(map[string]any); ok {
		of = nested
	}
	id, _ := of[inForm(b.form, "billId", "bill_id")].(string)
	bill, _ := b.Bill(demoKey, id) // else without a state
	lying, answer := b.lying(op, id, bill), httptest.NewRecorder()
	if lying && b.lie.undone {
		_, _ = io.WriteString(answer, b.acknowledgement(asked, of))
	} else {
		b.Service.ServeHTTP(answer, r)
	}
	s := &said{form: b.form, status: answer.Code, header: answer.Header(), all: fields(b.t, answer.Body.String())}
	s.fields = s.all
	if b.form == "v2" {
		s.fields, _ = s.all["data"].(map[string]any)
	}
	if lying && b.lie.tell != nil {
		b.lie.tell(s)
	}
	sent := encode(s.all)
	maps.Copy(w.Header(), s.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(sent)))
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, sent)
}

// acknowledgement is the reply to a write that is not done.
func (b *liar) acknowledgement(asked, of map[string]any) string {
	if b.form == "v2" {
		return encode(map[string]any{"code": "0000", "message": "ok", "data": map[string]any{
			"apiKey": asked["apiKey"], "member": asked["member"], "merchant": asked["merchant"], "billId": of["billId"], "hash": of["hash"],
			"shortUrl": "https://pay.example.com/1", "apprNum": "30009999", "apprOriginNum": "", "apprCancelDt": "20261129120000",
		}})
	}
	return encode(map[string]any{
		"code": "0000", "msg": "ok", "apikey": asked["apikey"], "member": asked["member"], "merchant": asked["merchant"], "bill_id": of["bill_id"],
		"hash": of["hash"], "shortURL": "https://pay.example.com/1", "appr_num": "30009999", "appr_origin_num": "", "appr_cancel_dt": "20261129120000",
	})
}
