package sandbox_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Random events change the service and the model. After each event all that both show is compared.
func TestRandomSequencesMatchTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		defer func() { _ = w.s.Close() }()
		call := func(op string) func(*rapid.T) { return func(t *rapid.T) { w.call(t, op) } }
		// The first actions are drawn more often.
		events := []struct {
			name string
			do   func(*rapid.T)
		}{
			{"create", call("create")},
			{"pay", w.pay},
			{"read", call("read")},
			{"cancel", call("cancel")},
			{"resend", call("resend")},
			{"notify", w.notify},
			{"destroy", call("destroy")},
			{"clock", w.clock},
			{"networks", w.networks},
			{"fail", w.fail},
			{"points", w.points},
			{"maintenance", w.maintenance},
		}
		t.Repeat(map[string]func(*rapid.T){"": w.compare, "event": func(t *rapid.T) {
			e := rapid.SampledFrom(events).Draw(t, "event")
			e.do(t)
		}})
	})
}

// A comparison is the service and its model.
type comparison struct {
	s       *sandbox.Service
	control http.Handler
	m       model
	calls   map[string]int
	numbers map[string]bool // the approval numbers so far
	last    string          // the snapshot after the last event
	refused string          // the refusals since then
}

func newWorld(t *rapid.T) *comparison {
	o := sandbox.Options{Clock: func() time.Time { return noon }, Transport: loopbackTransport{}}
	w := &comparison{m: model{minimum: "20000", now: noon, points: map[string]int{}}, calls: map[string]int{}, numbers: map[string]bool{}}
	if rapid.Bool().Draw(t, "production") {
		o.Environment, w.m.minimum = sandbox.Production, "100"
	}
	w.m.endCallbacks = rapid.Bool().Draw(t, "cancels and destroys are called back")
	o.CallbackCancelDestroy = w.m.endCallbacks
	w.s = sandbox.New(o)
	w.control = w.s.Control()
	w.points(t)
	return w
}

// A billPlace is a partner, merchant and id of a bill, which may exist.
type billPlace struct{ key, id string }

var places = []billPlace{
	{demoKey, billID},
	{demoKey, "청구서-7"},
	{"demo-nopoint-key", billID},
	{"demo-strict-key", billID},
	{"demo-notalk-key", billID},
	{"demo-nourl-key", "1"},
}

// place draws a place, mostly one with a bill in the state, or with none for "". Random places alone would rarely match.
func (w *comparison) place(t *rapid.T, state string) billPlace {
	var fit, rest []billPlace
	for _, p := range places {
		b := w.m.find(p.key, p.id)
		if b == nil && state == "" || b != nil && b.state == state {
			fit = append(fit, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(fit) == 0 || len(rest) > 0 && rapid.IntRange(0, 7).Draw(t, "elsewhere") == 7 {
		fit = rest
	}
	return rapid.SampledFrom(fit).Draw(t, "bill")
}

// A mistake is one mistake in a call.
type mistake struct {
	name string
	v    any
}

var (
	long      = strings.Repeat("가", 61)
	anyFlaws  = []mistake{{"apiKey", "no-such-key"}, {"apiKey", ""}, {"apiKey", strings.Repeat("k", 33)}, {"apiKey", "demo-removed-key"}, {"apiKey", "demo-expired-key"}, {"apiKey", "demo-nobill-key"}, {"member", "other"}, {"merchant", "other"}, {"merchant", ""}, {"member", long}, {"merchant", "demo-closed"}, {"billId", ""}, {"billId", omitted{}}, {"billId", json.RawMessage("7")}, {"billId", "ABCDEFGHIJ"}}
	endFlaws  = append([]mistake{{"price", "30001"}, {"price", omitted{}}, {"price", json.RawMessage("true")}, {"price", json.RawMessage(`"3만"`)}, {"price", json.RawMessage("-30000")}, {"price", json.RawMessage("30000")}, {"price", json.RawMessage("null")}}, anyFlaws...)
	makeFlaws = append([]mistake{{"billId", strings.Repeat("1", 21)}, {"billId", "bill.1"}, {"sendType", "MAIL"}, {"sendType", omitted{}}, {"sendType", json.RawMessage("1")}, {"phone", "02-123-4567"}, {"phone", json.RawMessage("1012345678")}, {"expireDt", "20260331"}, {"expireDt", "2026-02-30"}, {"expireDt", "2026-03-01"}, {"callbackUrl", "undefined/api/webhook"}, {"message", json.RawMessage("{}")}}, endFlaws...)
	flaws     = map[string][]mistake{"create": makeFlaws, "resend": anyFlaws, "read": anyFlaws, "destroy": endFlaws, "cancel": endFlaws}
)

// draw draws a call: mostly a valid one, sometimes with one mistake.
func (w *comparison) draw(t *rapid.T, op string) testCall {
	at := w.place(t, map[string]string{"resend": "W", "read": "F", "destroy": "W", "cancel": "F"}[op])
	q := newCall(rapid.SampledFrom(forms).Draw(t, "form"), op).with("apiKey", at.key).with("billId", at.id)
	pick := func(name string, values ...any) { q = q.with(name, rapid.SampledFrom(values).Draw(t, name)) }
	known := w.m.find(at.key, at.id)
	if known != nil {
		q.member, q.merchant = known.member, known.merchant
	}
	switch op {
	case "create":
		pick("price", "30000", "20000", "123456789012345678901234567890", "30001", "20000", "30000", "19999", "100", "99", "0")
		pick("phone", "01012345678", "010-1234-5678", "", omitted{}, json.RawMessage("null"))
		day := func(days int) string { return w.m.now.In(korea).AddDate(0, 0, days).Format("2006-01-02") }
		pick("expireDt", day(30), day(0), day(1), "", omitted{})
		pick("callbackUrl", "https://partner.example.com/cb", omitted{})
		pick("message", "납부 바랍니다", "\"<&>\\ 😀\n", omitted{})
		if q.form == "v2" {
			pick("sendType", "TALK", "URL")
			pick("tax", "2727", omitted{})
			pick("supplyPrice", "27273", omitted{})
			pick("pageRedirectUrl", "https://partner.example.com/done", omitted{})
		}
	case "destroy", "cancel":
		if known != nil {
			q = q.with("price", known.input["price"])
		}
		if op == "cancel" && q.form == "v2" {
			pick("cancelReason", "고객 요청", omitted{})
		}
	}
	if rapid.IntRange(0, 6).Draw(t, "flawed") == 6 {
		f := rapid.SampledFrom(flaws[op]).Draw(t, "flaw")
		q = q.with(f.name, f.v)
	}
	return w.sign(t, q, known)
}

// sign adds a hash to a call, mostly the right one.
func (w *comparison) sign(t *rapid.T, q testCall, known *modelBill) testCall {
	if q.bill["price"] == nil {
		return q
	}
	id, price, phone, other := fieldText(q, "billId"), fieldText(q, "price"), "", fieldText(q, "phone")
	if q.op == "create" {
		phone, other = other, ""
	} else if known != nil {
		other = known.input["phone"]
	}
	right := sign(id, phone, price)
	q = q.with("hash", right)
	if rapid.IntRange(0, 7).Draw(t, "signed wrong") == 7 {
		wrong := []any{sign(id, other, price), sign(id, phone, price+"0"), strings.ToUpper(right), "", omitted{}, json.RawMessage("7")}
		q = q.with("hash", rapid.SampledFrom(wrong).Draw(t, "hash"))
	}
	if digits, isText := q.bill["price"].(string); isText && rapid.Bool().Draw(t, "price of the other type") {
		other := digits // the document has a string in legacy and a number in v2
		if q.form == "v2" {
			other = `"` + digits + `"`
		}
		q = q.with("price", json.RawMessage(other))
	}
	return q
}

// call makes a call in either form, and compares code, reply and state with the model.
func (w *comparison) call(t *rapid.T, op string) {
	q := w.draw(t, op)
	code, body := w.post(t, q)
	if want := w.m.expectedCode(q); code != want {
		t.Fatalf("%s is answered with %s, not %s: %s", op, code, want, body)
	}
	if code != "0000" || op == "read" {
		w.refused = op + " (" + code + ")"
		return
	}
	got := flat(t, q.form, body)
	fresh, _ := got[spelled(q.form, "apprNum", "appr_num")].(string)
	w.m.do(q, fresh)
	b := w.m.find(q.key, fieldText(q, "billId"))
	view := map[string]any{}
	w.show(t, "/bills/"+b.id+"?partner="+b.key, &view)
	want := map[string]any{"code": "0000", spelled(q.form, "message", "msg"): "성공하였습니다."}
	for _, name := range replyFields[q.form+" "+op] {
		want[name] = map[string]any{
			"apikey": b.key, "member": b.member, "merchant": b.merchant, "billid": b.id, "hash": fieldText(q, "hash"), "shorturl": view["short_url"],
			"apprnum": fresh, "approriginnum": b.firstRead["appr_num"], "apprcanceldt": w.m.now.In(korea).Format("20060102150405"),
		}[strings.ToLower(strings.ReplaceAll(name, "_", ""))]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the reply to %s (-want +got):\n%s", op, diff)
	}
	if op == "cancel" {
		w.isFresh(t, fresh)
	}
	w.compareNewCallback(t)
}

// isFresh checks that an approval number is new.
func (w *comparison) isFresh(t *rapid.T, num string) {
	if num == "" || w.numbers[num] {
		t.Fatalf("the approval number %q is none, or was given before", num)
	}
	w.numbers[num] = true
}

func (w *comparison) post(t *rapid.T, q testCall) (code, body string) {
	path, request := q.encode()
	reply := httptest.NewRecorder()
	w.s.ServeHTTP(reply, httptest.NewRequest(http.MethodPost, path, strings.NewReader(request)))
	w.calls["bill."+q.op]++
	if reply.Code != http.StatusOK {
		t.Fatalf("%s: HTTP %d %s", path, reply.Code, reply.Body)
	}
	return codeOf(t, q.form, reply.Body.String()), reply.Body.String()
}

// compare compares all that the control API shows, and a read of every bill in both forms, with the model.
func (w *comparison) compare(t *rapid.T) {
	if diff := cmp.Diff(w.calls, w.s.Calls()); diff != "" {
		t.Fatalf("calls that were seen (-made +counted):\n%s", diff)
	}
	before, refused := w.last, w.refused
	w.last, w.refused = w.snapshot(), ""
	if refused != "" {
		if before != w.last {
			t.Fatalf("%s changed something:\n%s\n%s", refused, before, w.last)
		}
		return // the model has not changed either
	}
	var views []map[string]any
	w.show(t, "/bills", &views)
	if len(views) != len(w.m.bills) {
		t.Fatalf("there are %d bills, not %d", len(views), len(w.m.bills))
	}
	for i, b := range w.m.bills {
		w.compareView(t, b, views[i])
		if !w.m.maintenance { // during maintenance nothing can be read
			w.compareReads(t, b)
		}
	}
	var partners []struct {
		Key    string `json:"api_key"`
		Points int
	}
	w.show(t, "/partners", &partners)
	for _, p := range partners {
		if p.Points != w.m.points[p.Key] {
			t.Fatalf("%s has %d points, not %d", p.Key, p.Points, w.m.points[p.Key])
		}
	}
	w.compareCallbacks(t)
}

func (w *comparison) compareView(t *rapid.T, b *modelBill, view map[string]any) {
	want := map[string]any{
		"partner": b.key, "member": b.member, "merchant": b.merchant, "bill_id": b.id, "form": b.form, "state": b.state,
		"send_type": b.input["sendType"], "bill_issuer": b.input["billIssuer"], "product_name": b.input["productName"], "price": b.input["price"],
		"supply_price": b.input["supplyPrice"], "tax": b.input["tax"], "member_name": b.input["memberName"], "phone": b.input["phone"],
		"message": b.input["message"], "expire_dt": b.input["expireDt"], "callback_url": b.input["callbackUrl"],
		"page_redirect_url": b.input["pageRedirectUrl"], "messages": json.Number(strconv.Itoa(b.messages)),
	}
	got := maps.Clone(view)
	maps.DeleteFunc(got, func(name string, _ any) bool {
		_, known := want[name]
		return !known
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the tester's view of %s (-want +got):\n%s", b.id, diff)
	}
	var failed []string
	list, _ := view["failed_payments"].([]any)
	for _, f := range list {
		failed = append(failed, f.(map[string]any)["code"].(string))
	}
	if !slices.Equal(failed, b.failed) {
		t.Fatalf("payments failed with %v, not %v", failed, b.failed)
	}
	approval, paid := view["approval"].(map[string]any)
	if paid != (b.paid != nil) || paid && b.firstRead != nil && approval["approval_number"] != b.firstRead["appr_num"] {
		t.Fatalf("the approval is %v", approval)
	}
	cancel, cancelled := view["cancel"].(map[string]any)
	if cancelled != (b.gone != nil) || cancelled && (cancel["approval_number"] != b.gone.num || cancel["reason"] != b.gone.reason) {
		t.Fatalf("the cancel is %v", cancel)
	}
}

// compareReads reads a bill in both forms.
func (w *comparison) compareReads(t *rapid.T, b *modelBill) {
	got := map[string]string{}
	for _, form := range forms {
		var code string
		if code, got[form] = w.read(t, form, b); code != "0000" {
			t.Fatalf("a %s read of %s is refused with %s", form, b.id, code)
		}
	}
	if b.lastCompared != nil {
		if !maps.Equal(b.lastCompared, got) {
			t.Fatalf("nothing happened to %s, and it shows\n%v\nwhere it showed\n%v", b.id, got, b.lastCompared)
		}
		return
	}
	b.lastCompared = got
	v2, legacy := flat(t, "v2", got["v2"]), map[string]string{}
	for name, v := range flat(t, "legacy", got["legacy"]) {
		legacy[name], _ = v.(string)
	}
	if b.paid != nil && b.firstRead == nil {
		b.firstRead = maps.Clone(legacy)
		w.isFresh(t, legacy["appr_num"])
		if legacy["appr_origin_num"] != legacy["appr_num"] || (legacy["appr_cash_num"] == "") != (b.paid.class == "") {
			t.Fatalf("the approval of %s is %v", b.id, legacy)
		}
	}
	if diff := cmp.Diff(b.shown(), legacy); diff != "" {
		t.Fatalf("the legacy read of %s (-want +got):\n%s", b.id, diff)
	}
	want := map[string]any{"code": "0000", "message": "성공하였습니다."}
	for _, name := range approvalV2Only {
		v, known := v2[name]
		if !known || b.paid == nil && v != "" && v != nil {
			t.Fatalf("%s is %v", name, v)
		}
		want[name] = v
	}
	for _, p := range readFields {
		want[p.v2] = inV2(p.as, legacy[p.legacy])
	}
	if diff := cmp.Diff(want, v2); diff != "" {
		t.Fatalf("the v2 read of %s (-by the legacy one +got):\n%s", b.id, diff)
	}
}
