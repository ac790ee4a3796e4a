package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"billbridge/translate"
)

// Legacy clients take any text in appr_dt for a payment, and v2 clients any number other than 0. So the date of an unpaid bill in one
// form must not become a date in the other, in a read and in a callback.
func TestUnpaidBillDoesNotReadAsPaid(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		from, to translate.Form
		in, want string
	}{
		{"v2", "legacy", `0`, `""`},
		{"v2", "legacy", `"0"`, `""`},
		{"v2", "legacy", `""`, `""`},
		{"v2", "legacy", `null`, `null`},
		{"v2", "legacy", ``, ``},
		{"v2", "legacy", `20261121093015`, `"20261121093015"`},
		{"legacy", "v2", `""`, `0`},
		{"legacy", "v2", `"0"`, `0`},
		{"legacy", "v2", `0`, `0`},
		{"legacy", "v2", `null`, `null`},
		{"legacy", "v2", ``, ``},
		{"legacy", "v2", `"20261121093015"`, `20261121093015`},
	} {
		for _, field := range [][2]string{{"apprDt", "appr_dt"}, {"apprOriginDt", "appr_origin_dt"}} {
			for _, state := range []string{"W", "F", "C", "D"} {
				in, out := field[0], field[1]
				doc := `{"apiKey":"k","billId":"1","apprPayType":0,"apprState":"` + state + `"`
				if row.from == "legacy" {
					in, out = out, in
					doc = `{"apikey":"k","bill_id":"1","appr_pay_type":"0","appr_state":"` + state + `"`
				}
				if row.in != "" {
					doc += `,"` + in + `":` + row.in
				}
				doc += "}"
				for message, got := range map[string]map[string]json.RawMessage{
					"read": readOf(t, doc, row.from, row.to), "callback": callbackOf(t, doc, row.from, row.to),
				} {
					equal(t, string(got[out]), row.want, message, state, in, row.in, out)
					// 0 is a payment method, but not of a bill that nobody has paid.
					wanted := map[translate.Form]string{"legacy": `"0"`, "v2": "0"}[row.to]
					if message == "read" && (state == "W" || state == "D") {
						wanted = map[translate.Form]string{"legacy": `""`, "v2": "null"}[row.to]
					}
					equal(t, string(got["apprPayType"])+string(got["appr_pay_type"]), wanted, message, state)
				}
			}
		}
	}
}

// readOf returns the result of a read, translated to the other form. The upstream's result is doc.
func readOf(t *testing.T, doc string, from, to translate.Form) (result map[string]json.RawMessage) {
	t.Helper()
	request := map[translate.Form]string{"v2": `{"apiKey":"k","bill":{"billId":"1"}}`, "legacy": `{"apikey":"k","bill_id":"1"}`}[to]
	call := shipped().Operation("bill.read").Translation(to, from).Start()
	defer call.Release()
	if _, err := call.Request(nil, []byte(request)); err != nil {
		t.Fatal(err)
	}
	if from == "v2" {
		doc = `{"code":"0000","message":"ok","data":` + doc + `}`
	}
	out, err := call.Reply(nil, 200, []byte(doc))
	must(t, err)
	if to == "v2" {
		out = unmarshal(t, out)["data"]
	}
	return unmarshal(t, out)
}

// callbackOf returns a callback, translated to the other form.
func callbackOf(t *testing.T, doc string, from, to translate.Form) map[string]json.RawMessage {
	t.Helper()
	out, notice, err := shipped().Callback().Translate(nil, []byte(doc), from, to)
	if err != nil || notice.Recognised != translate.Translated {
		t.Fatalf("%s was %s: %v", doc, notice.Recognised, err)
	}
	return unmarshal(t, out)
}

func unmarshal(t *testing.T, doc []byte) (members map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(doc, &members); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	return members
}

// In a comparison of two backends all values for "unpaid" are alike, whatever the forms, and none is like a date.
func TestUnpaidFactsAreAlike(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"apprDt", "apprPayType"} {
		t.Run(field, func(t *testing.T) { unpaidFactsAreAlike(t, field) })
	}
}

func unpaidFactsAreAlike(t *testing.T, field string) {
	t.Helper()
	fact := func(form translate.Form, value string) (found translate.Fact) {
		call := shipped().Operation("bill.read").Translation("v2", form).Start()
		defer call.Release()
		reply := `{"code":"0000","message":"ok","data":{"apiKey":"k","billId":"1","apprState":"W","apprDt":` + value + `,"apprPayType":` + value + `}}`
		if form == "legacy" {
			reply = `{"apikey":"k","bill_id":"1","appr_state":"W","appr_dt":` + value + `,"appr_pay_type":` + value + `}`
		}
		if _, err := call.Request(nil, []byte(`{"apiKey":"k","bill":{"billId":"1"}}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := call.Reply(nil, 200, []byte(reply)); err != nil {
			t.Fatal(err)
		}
		for _, f := range call.Facts(true) {
			if f.Path == field {
				found = f
			}
		}
		return found
	}
	for _, a := range forms {
		for _, b := range forms {
			for _, x := range []string{`0`, `"0"`, `""`, `null`} {
				for _, y := range []string{`0`, `"0"`, `""`, `null`} {
					if !fact(a, x).Alike(fact(b, y)) {
						t.Errorf("%s of %s is not like %s of %s", x, a, y, b)
					}
				}
				if fact(a, x).Alike(fact(b, `"20261121093015"`)) {
					t.Errorf("%s of %s is like a value of %s", x, a, b)
				}
			}
		}
	}
}

// An overlay that replaces a date row for another reason does not make an unpaid bill look paid.
func TestReplacedDateRowKeepsEmpty(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "operations: {bill.read: {reply: [{v2: apprDt, legacy: appr_dt, as: digits, about: ours}]}}")
	call := table.Operation("bill.read").Translation("legacy", "v2").Start()
	defer call.Release()
	if _, err := call.Request(nil, []byte(`{"apikey":"k","member":"m","merchant":"s","bill_id":"B1"}`)); err != nil {
		t.Fatal(err)
	}
	got, err := call.Reply(nil, 200, []byte(`{"code":"0000","message":"ok","data":{"apiKey":"k","billId":"B1","apprState":"W","apprDt":0}}`))
	if err != nil || !strings.Contains(string(got), `"appr_dt":""`) {
		t.Errorf("%s, %v", got, err)
	}
}
