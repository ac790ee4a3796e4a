package sandbox_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// This is the tester's side of the sequences: what happens to bills without a call of their partner.

// tell makes a request of the tester's side and returns its status.
func (w *world) tell(method, path, body string) (status int, answer string) {
	reply := httptest.NewRecorder()
	w.control.ServeHTTP(reply, httptest.NewRequest(method, path, strings.NewReader(body)))
	return reply.Code, reply.Body.String()
}

// show reads from the tester's side.
func (w *world) show(t *rapid.T, path string, into any) {
	status, body := w.tell(http.MethodGet, path, "")
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(into); err != nil || status != http.StatusOK {
		t.Fatalf("%s: HTTP %d, %v: %s", path, status, err, body)
	}
}

// event tells the service something that must be taken with a status. What is no request at all changes nothing.
func (w *world) event(t *rapid.T, path string, body any, want int) {
	status, answer := w.tell(http.MethodPost, path, encode(body))
	if status != want {
		t.Fatalf("%s is answered with %d, not %d: %s", path, status, want, answer)
	}
	if status == http.StatusBadRequest || status == http.StatusNotFound {
		w.refused = path
	}
}

// snapshot is everything that a refusal must leave as it was: bills, points, and callbacks but for their attempts,
// which go on by themselves.
func (w *world) snapshot() string {
	_, partners := w.tell(http.MethodGet, "/partners", "")
	text := encode(w.s.Bills()) + partners
	for _, c := range w.s.Callbacks() {
		text += c.Partner + c.BillID + c.URL + c.Body
	}
	return text
}

// A payment is a body of the tester's side.
type payment struct {
	Partner     string `json:"partner"`
	Method      string `json:"method"`
	Months      int    `json:"months"`
	CashReceipt string `json:"cash_receipt"`
	CashNumber  string `json:"cash_number"`
}

func (w *world) pay(t *rapid.T) {
	at := w.place(t, "W")
	p := payment{Partner: at.key, CashNumber: "01012345678"}
	p.Method = rapid.SampledFrom([]string{"", "CARD_VAN", "KEYIN", "KEYIN", "OFFLINE_CARD", "SIMPLE_PAY", "OFFLINE_CASH", "OFFLINE_CASH", "BARTER"}).Draw(t, "method")
	switch p.Method {
	case "SIMPLE_PAY", "OFFLINE_CASH":
		p.CashReceipt = rapid.SampledFrom([]string{"", "personal", "business", "self", "none"}).Draw(t, "receipt")
		p.Months = rapid.SampledFrom([]int{0, 0, 0, 0, 3}).Draw(t, "months")
	default:
		p.Months = rapid.SampledFrom([]int{0, 3, 12, 99, 100}).Draw(t, "months")
		p.CashReceipt = rapid.SampledFrom([]string{"", "", "", "", "self"}).Draw(t, "receipt")
	}
	b := w.m.find(at.key, at.id)
	told := p
	if p.Method == "" {
		p.Method = "CARD_VAN"
	}
	if p.CashReceipt == "" {
		p.CashNumber = ""
	}
	want := w.m.pay(b, p)
	w.event(t, "/bills/"+at.id+"/pay", told, want)
	w.compareNewNotice(t)
}

// compareNewNotice: a callback carries what a read shows, flat, in the form that the bill was made in (field notes, Callbacks).
func (w *world) compareNewNotice(t *rapid.T) {
	last := len(w.m.notices) - 1
	if last < 0 || w.m.notices[last].body != "" {
		return
	}
	list := w.notices(t)
	if len(list) != last+1 {
		t.Fatalf("%d callbacks, not %d", len(list), last+1)
	}
	n := w.m.notices[last]
	n.body = list[last].Body
	if w.m.maintenance {
		return
	}
	_, body := w.read(t, n.b.form, n.b)
	if n.b.form == "v2" {
		body = strings.TrimSuffix(body[strings.Index(body, `"data":`)+len(`"data":`):], "}")
	}
	if n.body != body {
		t.Fatalf("the callback carries %s\nand a read shows %s", n.body, body)
	}
}

func (w *world) fail(t *rapid.T) {
	at := w.place(t, "W")
	code := rapid.SampledFrom([]string{"PAYMENT_001", "PAYMENT_004", "BILL_004"}).Draw(t, "code")
	b := w.m.find(at.key, at.id)
	want := http.StatusOK
	switch {
	case b == nil:
		want = http.StatusNotFound
	case b.state != "W" || w.m.expired(b):
		want = http.StatusConflict
	default:
		b.failed, b.proved = append(b.failed, code), nil
	}
	w.event(t, "/bills/"+at.id+"/fail", map[string]string{"partner": at.key, "code": code}, want)
}

// notify sends a bill's callbacks again: those that there are, or none.
func (w *world) notify(t *rapid.T) {
	at := w.place(t, "F")
	want := http.StatusNotFound
	for _, n := range w.m.notices {
		if n.b == w.m.find(at.key, at.id) {
			want = http.StatusOK
		}
	}
	w.event(t, "/bills/"+at.id+"/notify", map[string]string{"partner": at.key}, want)
}

func (w *world) networks(t *rapid.T) {
	code := rapid.SampledFrom([]string{"0000", "PAYMENT_002", "BILL_004", "PAYMENT_001", "PAYMENT_004", "BILL_001"}).Draw(t, "code")
	count := rapid.IntRange(0, 2).Draw(t, "count")
	want := http.StatusOK
	switch code {
	case "0000":
		w.m.networks = nil
	case "BILL_001": // nothing that a network says
		want = http.StatusBadRequest
	default:
		for range max(count, 1) {
			w.m.networks = append(w.m.networks, code)
		}
	}
	w.event(t, "/networks", map[string]any{"code": code, "count": count}, want)
}

// clock goes on by a while, or to the second before or of the next midnight in Korea.
func (w *world) clock(t *rapid.T) {
	by := rapid.SampledFrom([]string{"1s", "1h", "before midnight", "midnight", "26h"}).Draw(t, "by")
	day := w.m.now.In(korea)
	midnight := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, korea)
	told := map[string]any{"advance": by}
	switch by {
	case "before midnight":
		midnight = midnight.Add(-time.Second)
		fallthrough
	case "midnight":
		w.m.now, told = midnight, map[string]any{"now": midnight}
	default:
		d, _ := time.ParseDuration(by)
		w.m.now = w.m.now.Add(d)
	}
	w.event(t, "/clock", told, http.StatusOK)
}

func (w *world) points(t *rapid.T) {
	w.m.points["demo-nopoint-key"] = rapid.SampledFrom([]int{2, 1, 0}).Draw(t, "points")
	w.event(t, "/points", map[string]any{"partner": "demo-nopoint-key", "points": w.m.points["demo-nopoint-key"]}, http.StatusOK)
}

// maintenance begins seldom and ends soon, so that most of a sequence is outside it.
func (w *world) maintenance(t *rapid.T) {
	w.m.maintenance = !w.m.maintenance && rapid.IntRange(0, 3).Draw(t, "begins") == 3
	w.event(t, "/maintenance", map[string]bool{"on": w.m.maintenance}, http.StatusOK)
}

type storedNotice struct {
	Partner string `json:"partner"`
	BillID  string `json:"bill_id"`
	State   string `json:"bill_state"`
	Body    string `json:"body"`
	URL     string `json:"url"`
}

func (w *world) notices(t *rapid.T) []storedNotice {
	var list []storedNotice
	w.show(t, "/callbacks", &list)
	return list
}

// compareNotices: one callback for each payment, and with the option for each cancel and destroy, which changes none
// of those before.
func (w *world) compareNotices(t *rapid.T) {
	list := w.notices(t)
	if len(list) != len(w.m.notices) {
		t.Fatalf("%d callbacks, not %d", len(list), len(w.m.notices))
	}
	for i, n := range w.m.notices {
		if want := (storedNotice{n.b.key, n.b.id, n.state, n.body, n.b.said["callbackUrl"]}); list[i] != want {
			t.Fatalf("the callback is %v, not %v", list[i], want)
		}
	}
}

// read reads a bill as its partner does.
func (w *world) read(t *rapid.T, form string, b *modelBill) (code, body string) {
	q := newAsk(form, "read").with("apiKey", b.key).with("billId", b.id)
	q.member, q.merchant = b.member, b.merchant
	return w.post(t, q)
}

// flat is a reply with the data of v2 beside its envelope, and with its numbers as they stand.
func flat(t *rapid.T, form, body string) map[string]any {
	m := map[string]any{}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if form == "v2" {
		data, _ := m["data"].(map[string]any)
		delete(m, "data")
		for name, v := range data {
			m[name] = v
		}
	}
	return m
}

func spelled(form, v2, legacy string) string {
	if form == "legacy" {
		return legacy
	}
	return v2
}
