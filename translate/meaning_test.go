package translate_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// A meaning decides whether a bill may be created elsewhere, and whether a create counts as refused. So all of them are listed here.
func TestMeaningsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	want := []translate.CodeMeaning{
		{"ERROR", "", "unavailable"},
		{"PARTNER_001", "", "refused"},
		{"PARTNER_002", "", "caller_refused"},
		{"PARTNER_003", "", "caller_refused"},
		{"PARTNER_004", "", "caller_refused"},
		{"PARTNER_005", "", "caller_refused"},
		{"PARTNER_006", "", "caller_refused"},
		{"PARTNER_007", "", "caller_refused"},
		{"VALIDATION_001", "", "malformed"},
		{"VALIDATION_002", "", "refused"},
		{"VALIDATION_004", "", "refused"},
		{"PAYMENT_003", "", "refused"},
		{"PAYMENT_004", "", "refused"},
		{"PAYMENT_005", "", "refused"},
		{"BILL_001", "", "exists"},
		{"BILL_003", "", "not_found"},
		{"BILL_007", "", "refused"},
		{"BILL_008", "", "refused"},
		{"BILL_009", "", "refused"},
		{"BILL_010", "", "refused"},
		{"MAINTAINED_METHOD", "", "unavailable"},
		{"9980", "legacy", "not_found"},
	}
	equal(t, shipped().Meanings(), want)
}

func TestMeans(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		overlay string
		form    translate.Form
		code    string
		means   translate.Meaning
		not     translate.Meaning
	}{
		"of the catalogue":                      {"", "v2", "BILL_003", translate.NotFound, translate.Refused},
		"of the catalogue, in the other form":   {"", "legacy", "BILL_003", translate.NotFound, translate.Refused},
		"of one form":                           {"", "legacy", "9980", translate.NotFound, translate.Exists},
		"of one form, in the other":             {"", "v2", "9980", "", translate.NotFound},
		"unknown":                               {"", "v2", "BILL_099", "", translate.NotFound},
		"none":                                  {"", "legacy", "", "", translate.NotFound},
		"by a pair":                             {`codes: [{v2: BILL_001, legacy: "9800"}]`, "legacy", "9800", translate.Exists, translate.NotFound},
		"a pair is for its form only":           {`codes: [{v2: BILL_001, legacy: "9800"}]`, "v2", "9800", "", translate.Exists},
		"added to a form":                       {`catalogue: [{code: "9800", form: legacy, means: exists}]`, "legacy", "9800", translate.Exists, translate.NotFound},
		"added to the meaning in the catalogue": {`catalogue: [{code: PARTNER_003, form: legacy, means: not_found}]`, "legacy", "PARTNER_003", translate.NotFound, translate.Refused},
		"keeps the meaning in the catalogue":    {`catalogue: [{code: PARTNER_003, form: legacy, means: not_found}]`, "legacy", "PARTNER_003", translate.CallerRefused, translate.Refused},
		"added to one form, used in the other":  {`catalogue: [{code: PARTNER_003, form: legacy, means: not_found}]`, "v2", "PARTNER_003", translate.CallerRefused, translate.NotFound},
		"removed":                               {`catalogue: [{code: "9980", form: legacy}]`, "legacy", "9980", "", translate.NotFound},
		"a code that an overlay repeats stays":  {`catalogue: [BILL_003]`, "legacy", "BILL_003", translate.NotFound, translate.Refused},
		"new in the catalogue":                  {`catalogue: [{code: BILL_011, means: refused}]`, "legacy", "BILL_011", translate.Refused, translate.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := overlaid(t, row.overlay)
			if row.means != "" && !table.Means(row.form, row.code, translate.Malformed, row.means) {
				t.Errorf("%s of %s does not mean %s", row.code, row.form, row.means)
			}
			if table.Means(row.form, row.code, row.not) {
				t.Errorf("%s of %s means %s", row.code, row.form, row.not)
			}
		})
	}
}

// paidInLegacy is an overlay for a legacy backend with a word of its own for a paid bill.
const paidInLegacy = "operations: {bill.read: {reply: [{v2: apprState, legacy: appr_state, " +
	"values: [{v2: F, legacy: PAID}, {v2: W, legacy: W}, {v2: C, legacy: C}, {v2: D, legacy: D}]}]}}"

// A value without a pair is unusable if the other form has it for something: a client would take it for that.
func TestWordOfTheOtherFormIsUnusable(t *testing.T) {
	t.Parallel()
	table := overlaid(t, paidInLegacy)
	for state, row := range map[string]struct{ from, want string }{
		"F":    {"legacy", "unusable reply: appr_state has a value without a counterpart in v2"},
		"PAID": {"v2", "unusable reply: apprState has a value without a counterpart in legacy"},
		"X":    {"legacy", ""},
		"W":    {"legacy", ""},
	} {
		for _, client := range table.Forms() {
			upstream, want := translate.Form(row.from), row.want
			if client == upstream {
				want = "" // the client knows the words of its form
			}
			call := table.Operation("bill.read").Translation(client, upstream).Start()
			_, err := call.Request(nil, []byte(map[translate.Form]string{
				"v2": `{"apiKey":"k","bill":{"billId":"b"}}`, "legacy": `{"apikey":"k","bill_id":"b"}`,
			}[client]))
			must(t, err)
			body := `{"code":"0000","msg":"ok","apikey":"k","bill_id":"b","appr_state":"` + state + `"}`
			if upstream == "v2" {
				body = `{"code":"0000","message":"ok","data":{"apiKey":"k","billId":"b","apprState":"` + state + `"}}`
			}
			_, err = call.Reply(nil, 200, []byte(body))
			if fmt.Sprint(err) != fmt.Sprint(cmp.Or(want, "<nil>")) {
				t.Errorf("%s from %s to %s: %v", state, upstream, client, err)
			}
			call.Release()
		}
	}
	callback := table.Callback()
	const callbackBody = `{"apikey":"k","bill_id":"b","appr_state":"F"}`
	out, notice, err := callback.Translate(nil, []byte(callbackBody), "legacy", "v2")
	must(t, err)
	if string(out) != callbackBody || notice.Recognised != translate.Unrecognised {
		t.Errorf("the callback is %s: %s", notice.Recognised, out)
	}
	out, notice, err = callback.Translate(nil, []byte(strings.Replace(callbackBody, `"F"`, `"PAID"`, 1)), "legacy", "v2")
	must(t, err)
	equal(t, string(notice.Recognised)+" "+string(out), `translated {"apiKey":"k","billId":"b","apprState":"F"}`)
}

// The meaning of a state ends a bill in the ledger, and decides whether a comparison counts. It must not depend on the spelling.
func TestMeaningOfAState(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ overlay, state, value, means string }{
		"paid":                      {"", `"F"`, "F", "paid"},
		"escaped":                   {"", `"\u0046"`, "F", "paid"},
		"unknown":                   {"", `"X"`, "X", ""},
		"a number has no meaning":   {"", `5`, "", ""},
		"empty":                     {"", `""`, "", ""},
		"replaced without means":    {"operations: {bill.read: {reply: [{v2: apprState, legacy: appr_state}]}}", `"D"`, "D", "destroyed"},
		"replaced with other means": {"operations: {bill.read: {reply: [{v2: apprState, legacy: appr_state, means: {W: unpaid, X: paid, D: destroyed, C: cancelled}}]}}", `"X"`, "X", "paid"},
		"another value in one form": {paidInLegacy, `"PAID"`, "PAID", "paid"},
		"the same value in both":    {paidInLegacy, `"W"`, "W", "unpaid"},
		"a value of the other form": {paidInLegacy, `"F"`, "F", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := overlaid(t, row.overlay)
			call := table.Operation("bill.read").Translation("legacy", "legacy").Start()
			defer call.Release()
			if _, err := call.Request(nil, []byte(`{"apikey":"k","bill_id":"b"}`)); err != nil {
				t.Fatal(err)
			}
			// With an envelope, so that it is a success in any state.
			body := `{"code":"0000","msg":"ok","apikey":"k","bill_id":"b","appr_state":` + row.state + `}`
			if _, err := call.Reply(nil, 200, []byte(body)); err != nil || !call.Succeeded() {
				t.Fatal(err)
			}
			if value, means := call.ReplyValue("state"), call.ReplyMeaning("state"); value != row.value || means != row.means {
				t.Errorf("%q means %q", value, means)
			}
			for _, f := range call.Facts(false) {
				if f.Role == "state" && f.Means != row.means {
					t.Errorf("the fact means %q", f.Means)
				}
			}
			// Without an envelope, only a state with a meaning makes it a success.
			withoutEnvelope := `{"apikey":"k","bill_id":"b","appr_state":` + row.state + `}`
			if _, err := call.Reply(nil, 200, []byte(withoutEnvelope)); (err == nil) != (row.means != "") {
				t.Errorf("without an envelope: %v", err)
			}
		})
	}
}

func TestStateAfterADestroyAndACancel(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string][2]string{
		"bill.destroy": {"D", "destroyed"}, "bill.cancel": {"C", "cancelled"}, "bill.create": {}, "bill.resend": {}, "bill.read": {},
	} {
		if value, means := shipped().Operation(operation).Sets(billing.State); value != want[0] || means != want[1] {
			t.Errorf("%s sets %q, which means %q", operation, value, means)
		}
	}
}
