package proxy_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"pgregory.net/rapid"
)

// texts are values that a partner may write into a text field.
var texts = []string{
	`"3월 수강료"`, `"a"`, `""`, "null", "", `"\"<&>'\\ \/ 😀"`, `"\ud83d\ude00 \u0041\n\t\u0000"`, `"` + strings.Repeat("긴 글 ", 200) + `"`,
	`"{\"price\":1}"`, `"전화 10.0.0.1:8080"`,
}

// unusualValues are values that the document does not allow, or that the two forms treat differently. "bare" is the
// price of the bill as a number.
type unusualValues struct {
	ops, fields string
	raws        []string
}

func (o unusualValues) appliesTo(op string) bool { return o.ops == "any" || containsWord(o.ops, op) }

var unusual = []unusualValues{
	{"create destroy cancel", "price", []string{
		`"30002"`, "bare", "", "null", `""`, "true", "-30000", "30000.0", "3e4", `"3만"`, `" 30000"`, `"30,000"`, `"030000"`, `"\u0033\u0030000"`, "{}", "[30000]",
	}},
	{"create", "sendType", []string{`"URL"`, `"U\u0052L"`, `"MAIL"`, `""`, "", "null", "1", "{}"}},
	{"create", "tax supplyPrice", []string{`"2727"`, `""`, "null", "2727", "{}"}},
	{"create", "pageRedirectUrl", []string{`"https://partner.example.com/after"`, "", "7", "{}"}},
	{"cancel", "cancelReason", []string{`"다른 이유"`, `""`, "null", "7", "{}"}},
	{"create", "billId", []string{`"123456789012345678901"`, `"bill-1"`, `"bill_1"`}},
	{"create", "phone", []string{`"02-123-4567"`, "1012345678"}},
	{"create", "message phone memberName", []string{"7", "false", "{}", "[]"}},
	{"create", "message memberName", []string{`"\ud800"`}},
	{"create", "expireDt", []string{`"20261231"`, `"2026-02-30"`, "20261231"}},
	{"create destroy cancel", "hash", []string{`"0000"`, `""`, "", "null", "7", "{}"}},
	{"any", "apiKey", []string{`"no-such-key"`, `"demo-removed-key"`, `"` + strings.Repeat("k", 33) + `"`}},
	{"any", "member merchant", []string{`"other"`, `"` + strings.Repeat("가", 61) + `"`}},
	{"any", "apiKey member merchant billId", []string{`""`, "", "null", "7", "true", "{}", "[]"}},
	{"any", "billId", []string{`"ABCDEFGHIJ"`, `"A\u0042C"`}},
	{"any", "memo price2 legacy_only", []string{`"a field that nobody knows"`, `{"deep":[1]}`}},
	{"any", "bill", []string{"", "null", `"x"`, "[]"}},
	{"any", "body", []string{"x", "[]", `{"apiKey":"a","apiKey":"b","apikey":"a","apik\u0065y":"b"}`, `{"bill":`, "{} {}", "{\"member\":\"\xff\"}"}},
}

// unusualFields yields the unusual values of an operation with their fields.
func unusualFields(op string) iter.Seq2[string, string] {
	return func(yield func(field, raw string) bool) {
		for _, o := range unusual {
			for field := range strings.FieldsSeq(o.fields) {
				for _, raw := range o.raws {
					if o.appliesTo(op) && !yield(field, raw) {
						return
					}
				}
			}
		}
	}
}

// Every operation is called with every unusual value, between all forms. Each declared difference must occur.
func TestUnusualValues(t *testing.T) {
	t.Parallel()
	occurred := map[string]bool{}
	for _, client := range forms {
		for _, upstream := range forms {
			newLockstep := newComparisons(t, client, upstream)
			for _, op := range operations {
				for field, raw := range unusualFields(op) {
					l := newLockstep()
					for _, s := range []*sandbox.Service{l.direct, l.behindGateway} {
						prepareBill(t, s, stateBefore[op], demoBill)
					}
					l.wantCalls = l.upstreamCalls()
					difference := l.differenceFor(op, field, raw)
					occurred[difference.why] = true
					l.compareCall(t, usualCall(op).withUnusual(field, raw), difference)
					l.compareBills(t)
					l.close()
					if t.Failed() {
						t.Fatalf("%s from %s: %s with %s: %s", client, upstream, op, field, raw)
					}
				}
			}
		}
	}
	for _, d := range differences {
		if !occurred[d.why] {
			t.Errorf("no call has this declared difference: %s", d.why)
		}
	}
}

// usualCall returns a call without unusual values.
func usualCall(op string) rawCall {
	c := v2(op)
	q := rawCall{op, map[string]string{"apiKey": encode(c.key), "member": encode(c.member), "merchant": encode(c.merchant)}}
	for name, v := range c.bill {
		q.fields[name] = encode(v)
	}
	return q.signed()
}

// A difference is a declared one between a call through the gateway and the same call to the service itself.
type difference struct {
	why         string
	ops         string // empty: all
	from, to    string // forms of caller and upstream; empty: any two that differ
	field       string // one or more, v2 names
	raws        []string
	code        string                  // the gateway refuses with this code and sends nothing
	gatewayOnly bool                    // the service itself accepts the value
	sendInstead func(raw string) string // the value that the direct call has instead
}

// differences are all that are declared for calls.
var differences = []difference{
	// Intake checks, also between equal forms (design, Rules of translation).
	{why: "not one JSON object without duplicate names, in UTF-8", from: "any", field: "body", code: "VALIDATION_001"},
	{why: "a lone surrogate is not valid text; the service replaces it", from: "any", field: "message memberName", raws: []string{`"\ud800"`}, code: "VALIDATION_001", gatewayOnly: true},

	// Shapes: a mapped leaf is a scalar, a mapped parent an object.
	{why: "a key that is not a scalar, also between equal forms", from: "any", field: "apiKey", raws: []string{"{}", "[]"}, code: "PARTNER_002"},
	{why: "a value that the gateway uses and that is not a scalar, also between equal forms", from: "any", field: "member merchant billId", raws: []string{"{}", "[]"}, code: "VALIDATION_001"},
	{why: "an amount that is not a scalar, also between equal forms", ops: "create", from: "any", field: "price", raws: []string{"{}", "[30000]"}, code: "VALIDATION_001"},
	{why: "a leaf that is not a scalar", field: "hash phone message memberName", raws: []string{"{}", "[]"}, code: "VALIDATION_001"},
	{why: "a leaf that is not a scalar, also one that would be dropped", from: "v2", field: "tax supplyPrice pageRedirectUrl cancelReason", raws: []string{"{}"}, code: "VALIDATION_001"},
	{why: "a bill that is not an object", from: "v2", field: "bill", raws: []string{"null", `"x"`, "[]"}, code: "VALIDATION_001"},
	{why: "a bill that is not an object, where legacy has one", ops: "create", from: "legacy", field: "bill", raws: []string{"null", `"x"`, "[]"}, code: "VALIDATION_001"},

	// `as: digits`
	{why: "not a whole number in digits", field: "price", raws: []string{`""`, "true", "-30000", "30000.0", "3e4", `"3만"`, `" 30000"`, `"30,000"`, "{}", "[30000]"}, code: "VALIDATION_001"},
	{why: "digits that are not a JSON number; the service accepts them", field: "price", raws: []string{`"030000"`, `"\u0033\u0030000"`}, code: "VALIDATION_001", gatewayOnly: true},

	// Fields that legacy does not have.
	{why: "legacy cannot create a URL bill", from: "v2", to: "legacy", field: "sendType", raws: []string{`"URL"`, `"U\u0052L"`}, code: "BILL_010", gatewayOnly: true},
	{why: "a legacy upstream gets no send type", from: "v2", to: "legacy", field: "sendType", raws: []string{`"MAIL"`, `""`, "", "null", "1", "{}"}, code: "BILL_008"},
	{why: "a create without a bill has no send type, which the gateway checks first", ops: "create", from: "v2", to: "legacy", field: "bill", raws: []string{""}, code: "BILL_008", gatewayOnly: true},
	{why: "both change the charged amount", from: "v2", to: "legacy", field: "tax supplyPrice", raws: []string{`"2727"`}, code: "VALIDATION_001", gatewayOnly: true},
	{why: "both change the charged amount, and are strings", from: "v2", to: "legacy", field: "tax supplyPrice", raws: []string{"2727"}, code: "VALIDATION_001"},
	{why: "dropped, so its type does not matter", from: "v2", to: "legacy", field: "pageRedirectUrl cancelReason", raws: []string{"7"}, sendInstead: func(string) string { return "" }},
}

// differenceFor returns the declared difference for a value in a call.
func (l *comparison) differenceFor(op, field, raw string) difference {
	for _, d := range differences {
		pair := d.from == "any" || l.client != l.upstream && (d.from == "" || d.from == l.client)
		if pair && (d.ops == "" || containsWord(d.ops, op)) && containsWord(d.field, field) && (d.raws == nil || slices.Contains(d.raws, raw)) {
			d.field = field
			return d
		}
	}
	return difference{}
}

func containsWord(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// readDifferences are the declared differences of reads, by the form of the caller: the value that the service itself
// shows ("unpaid" for a bill that was never paid), and the value that the gateway shows instead.
var readDifferences = map[string]map[string]map[string]any{
	"legacy": {
		// No public document pairs the words of legacy with the numbers of v2, or the classes of a cash receipt with
		// words.
		"appr_pay_type":    {"unpaid": "", "SIMPLE_PAY": "0", "CARD_VAN": "1", "KEYIN": "2", "OFFLINE_CARD": "3", "OFFLINE_CASH": "4"},
		"appr_cash_trader": {"0": "PERSONAL", "1": "BUSINESS"},
	},
	"v2": {
		"apprPayType":    {"unpaid": nil, "0": "SIMPLE_PAY", "1": "CARD_VAN", "2": "KEYIN", "3": "OFFLINE_CARD", "4": "OFFLINE_CASH"},
		"apprCashTrader": {"PERSONAL": "0", "BUSINESS": "1"},
	},
}

// applyReadDifferences changes the reply of the service itself into the expected reply of the gateway.
func applyReadDifferences(client string, show map[string]any) {
	state := show[map[string]string{"v2": "apprState", "legacy": "appr_state"}[client]]
	for field, pairs := range readDifferences[client] {
		value := fmt.Sprint(show[field])
		if _, known := pairs["unpaid"]; known && (state == "W" || state == "D") {
			value = "unpaid"
		}
		if paired, known := pairs[value]; known {
			show[field] = paired
		}
	}
	if client == "v2" {
		for _, field := range v2Only { // legacy does not have them
			delete(show, field)
		}
	}
}

// removeStoredDifferences removes what the two services may store differently: the form of the create, and the fields
// that the table drops.
func removeStoredDifferences(client string, b *sandbox.Bill) {
	b.Form = ""
	if client != "v2" {
		return
	}
	b.PageRedirectURL = ""
	if b.Cancel != nil {
		cancel := *b.Cancel
		cancel.Reason = ""
		b.Cancel = &cancel
	}
}

// v2Only are the fields of a v2 read that a legacy upstream does not have.
var v2Only = []string{"apprCardMerchantNum", "dscTxNum", "cardType", "apprSign", "udItem"}

// result returns an answer as one flat map: for v2 the fields of data together with code and message.
func result(t rapid.TB, form, body string) map[string]any {
	t.Helper()
	m := fields(t, body)
	if form == "v2" {
		data, _ := m["data"].(map[string]any)
		delete(m, "data")
		maps.Copy(m, data)
	}
	return m
}
