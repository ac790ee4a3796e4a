package translate_test

import (
	"errors"
	"strings"
	"testing"

	"billbridge/translate"
)

// An overlay of one upstream says how this upstream writes its form. What it does not change passes byte for byte.
func TestAdapt(t *testing.T) {
	t.Parallel()
	adapt := func(table *translate.Table, form translate.Form, overlay string) *translate.Adapter {
		a, err := table.Adapt(form, translate.File{Name: "one.yaml", Data: []byte(overlay)})
		must(t, err)
		return a
	}
	v2 := adapt(shipped(), "v2", `
catalogue: [NO_BILL, {code: TWICE, means: exists}]
codes: [{v2: NO_BILL, legacy: BILL_003}]
operations:
  bill.create:
    v2: /invoice
    request:
      - {legacy: bill.price, v2: bill.amounts.total, new: true}
      - {legacy: bill.message, v2: bill.note, new: true}
      - {v2: bill.tax, remove: true}
      - {v2: bill.own, legacy: bill.own, new: true}
  bill.read: {reply: [{legacy: appr_state, v2: state.word, new: true, values: [{v2: PAID, legacy: F}], means: {PAID: paid, W: unpaid, C: cancelled, D: destroyed}}]}
callbacks: {callback.payment: {request: [{legacy: bill_id, v2: invoice.id, new: true}]}}
`)
	legacy := adapt(shipped(), "legacy", `
options: {exchange_on_send: true}
codes: [{v2: BILL_003, legacy: "9980"}]
operations: {bill.read: {reply: [{v2: apprPayType, legacy: appr_pay_type, as: digits, values: [{v2: 0, legacy: CASH}], no_value_while: null}]}}
`)
	lists := adapt(orderTable(t), "new", `
operations:
  order.add:
    request:
      - {old: rows, new: lines, each: [{old: nr, new: number, as: digits}, {old: what, new: title}, {old: size, new: size, values: [{old: "1", new: SMALL}, {old: "2", new: L}]}]}
`)
	for _, row := range []struct {
		a             *translate.Adapter
		message, from string
		want          string // "" if nothing changes
	}{
		{v2, "request bill.create", `{"apiKey":"k","bill":{"price":1,"message":null,"tax":"1","own":[1, 2],"x":7},"y":{}}`, `{"apiKey":"k","bill":{"amounts":{"total":1},"note":null,"own":[1, 2],"x":7},"y":{}}`},
		{v2, "request bill.create", `{"bill":null, "apiKey":"k"}`, `{"apiKey":"k","bill":null}`},
		{v2, "request bill.create", `{"bill":{}}`, `{"bill":{}}`},
		{v2, "request bill.create", `[1]`, ""},
		{v2, "request bill.create", `{"apiKey":"k","apiKey":"k"}`, ""},
		{v2, "request bill.cancel", `{ "apiKey": "k" }`, ""},
		{v2, "reply bill.read", `{"code":"0000","message":"m","data":{"state":{"word":"PAID"},"apprDt":"007"}}`, `{"data":{"apprDt":"007","apprState":"F"},"code":"0000","message":"m"}`},
		{v2, "reply bill.read", `{"code":"0000","data":{"state":{"word":"W"}}}`, `{"data":{"apprState":"W"},"code":"0000"}`},
		{v2, "reply bill.read", `{"code":"NO_BILL","message":"m","data":null}`, `{"code":"BILL_003","message":"m","data":null}`},
		{v2, "reply bill.create", `{"code":"TWICE","message":"m","data":null}`, `{"code":"BILL_001","message":"m","data":null}`},
		{v2, "callback", `{"invoice":{"id":"B1"},"apiKey":"k"}`, `{"apiKey":"k","billId":"B1"}`},
		{legacy, "reply bill.create", `{"code":"0000","msg":"m","member":"1","merchant":"2"}`, `{"member":"2","merchant":"1","code":"0000","msg":"m"}`},
		{legacy, "reply bill.read", `{"code":"9980","msg":"m"}`, `{"code":"BILL_003","msg":"m"}`},
		{legacy, "reply bill.read", `{"appr_pay_type":"CASH"}`, `{"appr_pay_type":"0"}`},
		{legacy, "request bill.read", `{"apikey":1}`, ""},
		{
			lists, "request order.add", `{"key":"k","order":{"no":"1","lines":[{"number":1,"item":{"name":"a","size":"S"}},{"number":2,"item":{"size":"L"},"z":0},null]}}`,
			`{"key":"k","order":{"no":"1"},"lines":[{"number":1,"title":"a","size":"SMALL"},{"number":2,"size":"L","z":0},null]}`,
		},
	} {
		kind, operation, _ := strings.Cut(row.message, " ")
		got := ""
		switch kind {
		case "request":
			out, err := row.a.Request(operation, []byte(row.from))
			must(t, err)
			got = string(out)
		case "reply":
			got = string(row.a.Reply(operation, []byte(row.from)))
		default:
			got = string(row.a.Callback([]byte(row.from)))
		}
		if row.want == "" {
			row.want = row.from
		}
		equal(t, got, row.want, row.message, row.from)
	}
	equal(t, v2.Path("bill.create")+legacy.Path("bill.create"), "/invoice/if/bill/send")
	equal(t, v2.Version("bill.cancel"), "")
	if v2.Version("bill.create") == "" {
		t.Error("the overlay does not change the version of a changed operation")
	}
	// SMALL is what the upstream writes for S: it has no word for SMALL.
	_, err := lists.Request("order.add", []byte(`{"order":{"lines":[{"item":{"size":"SMALL"}}]}}`))
	refusal, _ := errors.AsType[*translate.Refusal](err)
	if refusal == nil || refusal.Reason.String() != "has a value without a counterpart in new" {
		t.Error(err)
	}
}

// An overlay of an upstream adds nothing that the table does not have.
func TestAdaptRefuses(t *testing.T) {
	t.Parallel()
	for overlay, want := range map[string]string{
		"forms: {v2: {code: code, text: text, result: data, digits: number}, legacy: {code: code, text: msg, digits: string}}": "one.yaml:1:1: the overlay of an upstream cannot have forms, only operations, callbacks, common, catalogue, codes, options: write it into table.overlay",
		"bounds: enforce": "one.yaml:1:1: the overlay of an upstream cannot have bounds, only operations, callbacks, common, catalogue, codes, options: write it into table.overlay",
		"operations: {bill.x: {new: true, v2: /x, effect: read, request: [], reply: []}}":               "one.yaml:1:14: the overlay of an upstream cannot add bill.x: write it into table.overlay",
		"operations: {bill.create: {request: [{v2: bill.price, legacy: bill.price, absent: {v2: 2}}]}}": "one.yaml:1:1: bill.price: the overlay of an upstream cannot change each, list, pattern, shift, absent and null in values",
		"operations: {bill.create: {request: [{v2: bill.prise, loss: drop}]}}":                          "one.yaml:1:43: bill.create request has no path bill.prise; did you mean bill.price? To add it, write new: true",
	} {
		_, err := shipped().Adapt("v2", translate.File{Name: "one.yaml", Data: []byte(overlay)})
		if err == nil || err.Error() != want {
			t.Errorf("%s\n%v\nwant %s", overlay, err, want)
		}
	}
}
