package evidence_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/evidence"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/google/go-cmp/cmp"
)

// compileTable is the billing table with overlays.
func compileTable(t testing.TB, overlays ...string) *translate.Table {
	t.Helper()
	var files []translate.File
	for i, text := range overlays {
		files = append(files, translate.File{Name: fmt.Sprint("overlay-", i), Data: []byte(text)})
	}
	table, err := translate.Compile(32, billing.Table(), files...)
	must(t, err)
	return table
}

const (
	someone   = "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3a94a8fe5ccb19ba61c4c0873"
	secretKey = "k3y5ecret"
)

// answer is an answer to a read of bill 1. A v2 body that is no envelope is put into one.
func answer(form translate.Form, body string) evidence.Answer {
	a := evidence.Answer{Form: form, Status: 200, Body: []byte(body)}
	if form == "legacy" {
		a.Request = []byte(`{"apikey":"` + secretKey + `","member":"m","merchant":"s","bill_id":"1"}`)
		return a
	}
	a.Request = []byte(`{"apiKey":"` + secretKey + `","member":"m","merchant":"s","bill":{"billId":"1"}}`)
	if body != "" && !strings.HasPrefix(body, `{"code"`) {
		a.Body = []byte(`{"code":"0000","message":"ok","data":` + body + `}`)
	}
	return a
}

// answerIn is an answer of testdata/compare.txt.
func answerIn(cell string) evidence.Answer {
	form, body, _ := strings.Cut(strings.ReplaceAll(cell, "<key>", secretKey), " ")
	status := 200
	if first, more, _ := strings.Cut(body, " "); len(first) == 3 {
		status, _ = strconv.Atoi(first)
		body = more
	}
	of := map[string]func(string) evidence.Answer{"v2": v2, "legacy": legacy}[form]
	var a evidence.Answer
	switch {
	case body == "-":
		a = answer(translate.Form(form), "")
	case body == "," || strings.HasPrefix(body, `,"`):
		a = of(strings.TrimSuffix(body, ","))
	case strings.ContainsAny(body, "{<"):
		a = answer(translate.Form(form), body)
	case form == "v2":
		a = answer("v2", `{"code":"`+body+`","message":"a","data":null}`)
	default:
		a = answer("legacy", `{"code":"`+body+`","msg":"b"}`)
	}
	a.Status = status
	return a
}

// v2 and legacy are reads of bill 1 in state F with more fields.
func v2(more string) evidence.Answer { return answer("v2", `{"billId":"1","apprState":"F"`+more+`}`) }

func legacy(more string) evidence.Answer {
	return answer("legacy", `{"bill_id":"1","appr_state":"F"`+more+`}`)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const pairs = `
forms: {legacy: {codes: {"9980": BILL_003, "9802": BILL_002, "9999": ERROR}}}
operations:
  bill.read:
    reply:
      apprPayType: {values: [{v2: 0, legacy: CARD_VAN}, {v2: 1, legacy: KEYIN}]}
      apprCashTrader: {values: [{v2: NONE, legacy: ""}, {v2: BUSINESS, legacy: "1"}]}`
	ignored := map[string]string{"noise": "apprNum", "noise by whole names": "appr", "nothing but noise": "apprNum"}
	for _, cells := range proxytest.Rows(t, "testdata/compare.txt") {
		name, a, b, want := cells[0], answerIn(cells[1]), answerIn(cells[2]), cells[3]
		read := compileTable(t, pairs).Operation("bill.read")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ignore := []string{ignored[name]}
			got := evidence.CompareAnswers(read, a, b, ignore)
			shown := string(got.Class)
			if got.Class == evidence.Differs {
				shown = shownDifferences(got)
			}
			if shown != want || got.Class != evidence.NoAnswer && got.Bill != "1" {
				t.Errorf("%+v, want %s", got, want)
			}
			if strings.HasPrefix(name, "another bill") || name == "another key" {
				return // for these the class depends on the order
			}
			// In the other order the class is the same, with the values exchanged.
			back := evidence.CompareAnswers(read, b, a, ignore)
			for i, d := range back.Differences {
				back.Differences[i].Old, back.Differences[i].New = d.New, d.Old
			}
			if back.Class != got.Class || cmp.Diff(back.Differences, got.Differences) != "" {
				t.Errorf("in the other order: %+v, not %+v", back, got)
			}
			if strings.Contains(fmt.Sprint(got), secretKey) {
				t.Errorf("%+v shows the key", got)
			}
		})
	}
}

func shownDifferences(c evidence.Comparison) string {
	var all []string
	for _, d := range c.Differences {
		all = append(all, fmt.Sprint(d.Path, " ", d.Kind, " ", d.Old, " ", d.New))
	}
	return strings.Join(all, ", ")
}

// An amount of 0 differs from a missing one, also if an overlay gives amounts as: digits.
func TestCompareKeepsAmountsStrict(t *testing.T) {
	t.Parallel()
	read := compileTable(t, `operations: {bill.read: {reply: {apprPrice: {as: digits}}}}`).Operation("bill.read")
	for _, b := range []evidence.Answer{legacy(``), legacy(`,"appr_price":""`), legacy(`,"appr_price":null`), legacy(`,"appr_price":"20000"`)} {
		got := evidence.CompareAnswers(read, v2(`,"apprPrice":0`), b, nil)
		if len(got.Differences) != 1 || got.Differences[0].Kind != evidence.InMoney {
			t.Errorf("%s: %+v", b.Body, got)
		}
	}
}

// If a form does not have the operation, there is no answer to compare.
func TestOperationOfOneFormIsNotCompared(t *testing.T) {
	t.Parallel()
	list := compileTable(t).Operation("mapping.list")
	answer := func(form translate.Form) evidence.Answer {
		return evidence.Answer{Form: form, Request: []byte(`{"apiKey":"k"}`), Status: 200, Body: []byte(`{"code":"0000","message":"ok","data":[]}`)}
	}
	if got := evidence.CompareAnswers(list, answer("v2"), answer("legacy"), nil); got.Class != evidence.NoAnswer {
		t.Errorf("%+v", got)
	}
}

// Each field of a read that both forms have is compared: a change of it is reported. The fields are those of the table.
func TestEveryFieldIsCompared(t *testing.T) {
	t.Parallel()
	read := compileTable(t).Operation("bill.read")
	n := 0
	for _, f := range read.Fields() {
		if f.Message != "reply" || f.From != "legacy" || f.Class != translate.Exact || f.Source == "bill_id" || f.Source == "apikey" || f.Source == "appr_state" {
			continue // bill and key are compared with the request
		}
		n++
		for _, b := range []evidence.Answer{legacy(`,"` + f.Source + `":"2"`), v2(`,"` + f.Target + `":"2"`)} {
			got := evidence.CompareAnswers(read, legacy(`,"`+f.Source+`":"1"`), b, nil)
			if got.Class != evidence.Differs || len(got.Differences) != 1 || got.Differences[0].Path != f.Target {
				t.Errorf("%s: %+v", f.Source, got)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d fields", n)
	}
}

// The table says which fields are shown: amounts, states, codes and dates. All others are hidden, and also these if a backend puts
// another kind of value into them.
func TestExamplesShowNoPersonalData(t *testing.T) {
	t.Parallel()
	read := compileTable(t).Operation("bill.read")
	for text, shown := range map[string]string{
		"20000": "apprPrice apprDt apprResCd apprPayType", "00": "apprPrice apprDt apprResCd apprPayType", "150000000": "apprPrice apprDt",
		"20261121030000": "apprDt", "CARD_VAN": "apprResCd apprPayType", "200.5": "apprPrice", "1500000000": "", "HONGGILDONG": "", "01000007777": "",
		"010-0000-7777": "", "4518429900007731": "", "20269921030000": "", "김하늘": "", "HONG GILDONG": "", "k3y": "", "A_WORD_THAT_IS_FAR_TOO_LONG": "",
		"010.0000.7777": "", secretKey: "",
	} {
		for v2Name, legacyName := range map[string]string{
			"apprPrice": "appr_price", "apprDt": "appr_dt", "apprResCd": "appr_res_cd", "apprPayType": "appr_pay_type", "apprIssuerNum": "appr_issuer_num",
			"apprIssuer": "appr_issuer", "apprNum": "appr_num", "apprCashIssuanceNumber": "appr_cash_issuance_number",
		} {
			want := "•••"
			switch {
			case text == secretKey:
				want = "(key)"
			case slices.Contains(strings.Fields(shown), v2Name):
				want = text
			}
			got := evidence.CompareAnswers(read, v2(`,"`+v2Name+`":"`+text+`"`), legacy(`,"`+legacyName+`":"x"`), nil)
			if len(got.Differences) != 1 || got.Differences[0].Old != want || got.Differences[0].New != "•••" {
				t.Errorf("%s %s: %+v, want %s", v2Name, text, got, want)
			}
		}
	}
	// An overlay says which of its own fields have no personal data.
	overlaid := compileTable(t, `operations: {bill.read: {reply: {apprNum: {role: code}}}}`).Operation("bill.read")
	got := evidence.CompareAnswers(overlaid, v2(`,"apprNum":"123456","apprResCd":"1"`), legacy(`,"appr_num":"123457","appr_res_cd":"2"`), nil)
	if shownDifferences(got) != "apprNum other 123456 123457, apprResCd other 1 2" && shownDifferences(got) != "apprResCd other 1 2, apprNum other 123456 123457" {
		t.Errorf("%+v", got)
	}
}
