package translate_test

import (
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// With otherwise: null a word without a pair is null in the form with numbers, and is reported as dropped; with pass it
// passes. Neither is a mismatch, which would raise an alert. Digits, pairs, null and the form with text are as without it.
func TestOtherwiseMakesOnlyWordsNull(t *testing.T) {
	t.Parallel()
	compile := func(row string) *translate.Table {
		table, err := translate.Compile(32, billing.Table(), translate.File{Name: "o", Data: []byte(
			"operations: {bill.read: {reply: [{v2: apprPayType, legacy: appr_pay_type" + row + "}]}}\n",
		)})
		must(t, err)
		return table
	}
	const values = ", values: [{v2: 1, legacy: CARD_VAN}]"
	type row struct {
		otherwise, from, in, out, word string
	}
	for _, c := range []row{
		{", otherwise: null", "legacy", `"CARD_VAN"`, `null`, "CARD_VAN"},
		{", otherwise: null", "legacy", `"카드"`, `null`, "카드"},
		{", otherwise: null", "legacy", `"\u0043ARD2"`, `null`, "CARD2"},
		{", otherwise: null", "legacy", `"` + strings.Repeat("가", 50) + `"`, `null`, strings.Repeat("가", 40)},
		{", otherwise: null", "legacy", `""`, `null`, ""},
		{", otherwise: null", "legacy", `null`, `null`, "-"},
		{", otherwise: null", "legacy", `"3"`, `3`, "-"},
		{", otherwise: null", "legacy", `3`, `3`, "-"},
		{", otherwise: null", "legacy", `"03"`, `"03"`, "-"},
		{", otherwise: null", "legacy", `"-3"`, `"-3"`, "-"},
		{", otherwise: null", "legacy", `3.0`, `3.0`, "-"},
		{", otherwise: null", "legacy", `"1,000"`, `"1,000"`, "-"},
		{", otherwise: null", "legacy", `true`, `true`, "-"},
		{", otherwise: null", "legacy", `{}`, `{}`, "-"},
		{", otherwise: null" + values, "legacy", `"CARD_VAN"`, `1`, "-"},
		{", otherwise: null" + values, "legacy", `"KEYIN"`, `null`, "KEYIN"},
		{", otherwise: null" + values, "legacy", `"7"`, `"7"`, "-"},
		{", otherwise: null", "v2", `"CARD_VAN"`, `"CARD_VAN"`, "-"},
		{", otherwise: pass", "legacy", `"CARD_VAN"`, `"CARD_VAN"`, "-"},
		{", otherwise: pass", "legacy", `"3"`, `3`, "-"},
		{values, "legacy", `"KEYIN"`, `"KEYIN"`, "-"},
	} {
		table := compile(c.otherwise)
		source, target := "appr_pay_type", "apprPayType"
		if c.from == "v2" {
			source, target = target, source
		}
		to := translate.Form(map[string]string{"legacy": "v2", "v2": "legacy"}[c.from])
		check := func(what, out string, report translate.Report) {
			has(t, out, `"`+target+`":`+c.out+`,`, what, c)
			var words []string
			if c.word != "-" {
				words = []string{source + ": " + c.word}
			}
			chosen := c.word != "-" || c.out == `"CARD_VAN"` && c.from == "legacy"
			if !slices.Equal(report.Words, words) || slices.Contains(report.Dropped, source) != (c.word != "-") ||
				chosen && slices.Contains(report.Mismatched, source) {
				t.Errorf("%s: %+v: words %q, dropped %q, mismatched %q", what, c, report.Words, report.Dropped, report.Mismatched)
			}
		}
		call := table.Operation("bill.read").Translation(to, translate.Form(c.from)).Start()
		for _, again := range []string{"read", "read again"} { // the call is used again
			asked := map[translate.Form]string{"v2": `{"bill":{"billId":"1"}}`, "legacy": `{"bill_id":"1"}`}[to]
			if _, err := call.Request(nil, []byte(asked)); err != nil {
				t.Fatal(err)
			}
			reply := `{"bill_id":"1","appr_pay_type":` + c.in + `,"appr_state":"F"}`
			if c.from == "v2" {
				reply = `{"code":"0000","message":"","data":{"billId":"1","apprPayType":` + c.in + `,"apprState":"F"}}`
			}
			out, err := call.Reply(nil, 200, []byte(reply))
			must(t, err)
			check(again, string(out), call.Report)
		}
		call.Release()
		if c.word == "CARD_VAN" {
			fields := table.Operation("bill.read").Translation(to, translate.Form(c.from)).ExplainReply(
				[]byte(`{"bill":{"billId":"1"}}`), 200, []byte(`{"bill_id":"1","appr_pay_type":"CARD_VAN","appr_state":"F"}`)).Fields
			i := slices.IndexFunc(fields, func(f translate.ExplainedField) bool { return f.Source == source })
			if i < 0 || fields[i].Outcome != translate.OutcomeConverted || fields[i].After != "null" {
				t.Errorf("explained as %+v", fields)
			}
		}
		callback := `{"apikey":"k","bill_id":"1","appr_pay_type":` + c.in + `,"appr_state":"F"}`
		if c.from == "v2" {
			callback = `{"apiKey":"k","billId":"1","apprPayType":` + c.in + `,"apprState":"F"}`
		}
		out, notice, err := table.Callback().Translate(nil, []byte(callback), translate.Form(c.from), to)
		must(t, err)
		check("callback", string(out), notice.Report)
	}
	if table := compile(""); !slices.Equal(table.WordsWithoutPairs("legacy"), []string{"appr_pay_type"}) {
		t.Error(table.WordsWithoutPairs("legacy"))
	}
	for _, choice := range []string{", otherwise: null", ", otherwise: pass", values} {
		if words := compile(choice).WordsWithoutPairs("legacy"); words != nil {
			t.Errorf("%s: %q", choice, words)
		}
	}
}
