package sandbox_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// The control requests of random sequences: changes that are not calls of a partner.

// sendControl sends a control request and returns its status.
func (w *comparison) sendControl(method, path, body string) (status int, answer string) {
	reply := httptest.NewRecorder()
	w.control.ServeHTTP(reply, httptest.NewRequest(method, path, strings.NewReader(body)))
	return reply.Code, reply.Body.String()
}

// show decodes a response of the control API.
func (w *comparison) show(t *rapid.T, path string, into any) {
	status, body := w.sendControl(http.MethodGet, path, "")
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(into); err != nil || status != http.StatusOK {
		t.Fatalf("%s: HTTP %d, %v: %s", path, status, err, body)
	}
}

// event sends a control request and checks its status. An invalid request changes nothing.
func (w *comparison) event(t *rapid.T, path string, body any, want int) {
	status, answer := w.sendControl(http.MethodPost, path, encode(body))
	if status != want {
		t.Fatalf("%s is answered with %d, not %d: %s", path, status, want, answer)
	}
	if status == http.StatusBadRequest || status == http.StatusNotFound {
		w.refused = path
	}
}

// snapshot returns everything that a refusal must not change: bills, points and callbacks, without the attempts, which
// run in the background.
func (w *comparison) snapshot() string {
	_, partners := w.sendControl(http.MethodGet, "/partners", "")
	text := encode(w.s.Bills()) + partners
	for _, c := range w.s.Callbacks() {
		text += c.Partner + c.BillID + c.URL + c.Body
	}
	return text
}

// A payment is the body of a payment request.
type payment struct {
	Partner     string `json:"partner"`
	Method      string `json:"method"`
	Months      int    `json:"months"`
	CashReceipt string `json:"cash_receipt"`
	CashNumber  string `json:"cash_number"`
}

func (w *comparison) pay(t *rapid.T) {
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
	body := p
	if p.Method == "" {
		p.Method = "CARD_VAN"
	}
	if p.CashReceipt == "" {
		p.CashNumber = ""
	}
	want := w.m.pay(b, p)
	w.event(t, "/bills/"+at.id+"/pay", body, want)
	w.compareNewCallback(t)
}

// compareNewCallback checks that a new callback has the fields of a read, in the form of the bill (field notes,
// Callbacks).
func (w *comparison) compareNewCallback(t *rapid.T) {
	last := len(w.m.callbacks) - 1
	if last < 0 || w.m.callbacks[last].body != "" {
		return
	}
	list := w.callbacks(t)
	if len(list) != last+1 {
		t.Fatalf("%d callbacks, not %d", len(list), last+1)
	}
	n := w.m.callbacks[last]
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

func (w *comparison) fail(t *rapid.T) {
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
		b.failed, b.lastCompared = append(b.failed, code), nil
	}
	w.event(t, "/bills/"+at.id+"/fail", map[string]string{"partner": at.key, "code": code}, want)
}

// notify sends the callbacks of a bill again, if it has any.
func (w *comparison) notify(t *rapid.T) {
	at := w.place(t, "F")
	want := http.StatusNotFound
	for _, n := range w.m.callbacks {
		if n.b == w.m.find(at.key, at.id) {
			want = http.StatusOK
		}
	}
	w.event(t, "/bills/"+at.id+"/notify", map[string]string{"partner": at.key}, want)
}

func (w *comparison) networks(t *rapid.T) {
	code := rapid.SampledFrom([]string{"0000", "PAYMENT_002", "BILL_004", "PAYMENT_001", "PAYMENT_004", "BILL_001"}).Draw(t, "code")
	count := rapid.IntRange(0, 2).Draw(t, "count")
	want := http.StatusOK
	switch code {
	case "0000":
		w.m.networks = nil
	case "BILL_001": // not a code of card networks
		want = http.StatusBadRequest
	default:
		for range max(count, 1) {
			w.m.networks = append(w.m.networks, code)
		}
	}
	w.event(t, "/networks", map[string]any{"code": code, "count": count}, want)
}

// clock advances the clock by a random time, or to the second before or of the next midnight in Korea.
func (w *comparison) clock(t *rapid.T) {
	by := rapid.SampledFrom([]string{"1s", "1h", "before midnight", "midnight", "26h"}).Draw(t, "by")
	day := w.m.now.In(korea)
	midnight := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, korea)
	body := map[string]any{"advance": by}
	switch by {
	case "before midnight":
		midnight = midnight.Add(-time.Second)
		fallthrough
	case "midnight":
		w.m.now, body = midnight, map[string]any{"now": midnight}
	default:
		d, _ := time.ParseDuration(by)
		w.m.now = w.m.now.Add(d)
	}
	w.event(t, "/clock", body, http.StatusOK)
}

func (w *comparison) points(t *rapid.T) {
	w.m.points["demo-nopoint-key"] = rapid.SampledFrom([]int{2, 1, 0}).Draw(t, "points")
	w.event(t, "/points", map[string]any{"partner": "demo-nopoint-key", "points": w.m.points["demo-nopoint-key"]}, http.StatusOK)
}

// maintenance begins rarely and ends soon, so that most of a sequence is outside it.
func (w *comparison) maintenance(t *rapid.T) {
	w.m.maintenance = !w.m.maintenance && rapid.IntRange(0, 3).Draw(t, "begins") == 3
	w.event(t, "/maintenance", map[string]bool{"on": w.m.maintenance}, http.StatusOK)
}

type storedCallback struct {
	Partner string `json:"partner"`
	BillID  string `json:"bill_id"`
	State   string `json:"bill_state"`
	Body    string `json:"body"`
	URL     string `json:"url"`
}

func (w *comparison) callbacks(t *rapid.T) []storedCallback {
	var list []storedCallback
	w.show(t, "/callbacks", &list)
	return list
}

// compareCallbacks checks that there is one callback for each payment, and with the option for each cancel and destroy.
func (w *comparison) compareCallbacks(t *rapid.T) {
	list := w.callbacks(t)
	if len(list) != len(w.m.callbacks) {
		t.Fatalf("%d callbacks, not %d", len(list), len(w.m.callbacks))
	}
	for i, n := range w.m.callbacks {
		if want := (storedCallback{n.b.key, n.b.id, n.state, n.body, n.b.input["callbackUrl"]}); list[i] != want {
			t.Fatalf("the callback is %v, not %v", list[i], want)
		}
	}
}

// read reads a bill as its partner.
func (w *comparison) read(t *rapid.T, form string, b *modelBill) (code, body string) {
	q := newCall(form, "read").with("apiKey", b.key).with("billId", b.id)
	q.member, q.merchant = b.member, b.merchant
	return w.post(t, q)
}

// flat returns the fields of a reply, those of v2 data included, with numbers as written.
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
