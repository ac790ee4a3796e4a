package evidence_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/rollout/evidence"
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
	if err != nil {
		t.Fatal(err)
	}
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
	v2Fails := func(code string) evidence.Answer {
		return answer("v2", `{"code":"`+code+`","message":"a","data":null}`)
	}
	legacyFails := func(code string) evidence.Answer { return answer("legacy", `{"code":"`+code+`","msg":"b"}`) }
	status := func(a evidence.Answer, status int) evidence.Answer { a.Status = status; return a }
	ignored := map[string]string{"noise": "apprNum", "noise by whole names": "appr", "nothing but noise": "apprNum"}
	for _, test := range []struct {
		name string
		a, b evidence.Answer
		want string // the differences, or the class
	}{
		{"nothing but the least", v2(``), legacy(``), "same"},
		{"a number and its digits, both documented so", v2(`,"apprDt":20261121030000`), legacy(`,"appr_dt":"20261121030000"`), "same"},
		{"a number and its digits in one form", v2(`,"apprDt":20261121030000`), v2(`,"apprDt":"20261121030000"`), "same"},
		{"a number and its digits in legacy", legacy(`,"appr_dt":20261121030000`), legacy(`,"appr_dt":"20261121030000"`), "same"},
		{"digits that no float tells apart", v2(`,"apprDt":90071992547409921`), v2(`,"apprDt":"90071992547409920"`), "apprDt exact ••• •••"},
		{"an amount as a number", v2(`,"apprPrice":30000`), legacy(`,"appr_price":"30000"`), "same"},
		{"an amount with zeros before it", v2(`,"apprPrice":30000`), legacy(`,"appr_price":"030000"`), "apprPrice money 30000 030000"},
		{"an amount with a fraction", v2(`,"apprPrice":30000.0`), v2(`,"apprPrice":"30000"`), "apprPrice money 30000.0 30000"},
		{"an amount with an exponent", v2(`,"apprPrice":3e4`), legacy(`,"appr_price":30000`), "apprPrice money ••• 30000"},
		{"another amount", legacy(`,"appr_price":"30000"`), legacy(`,"appr_price":"30001"`), "apprPrice money 30000 30001"},
		{"digits with zeros before them", v2(`,"apprDt":30000`), v2(`,"apprDt":"030000"`), "apprDt exact 30000 030000"},
		{"two digits of months", v2(`,"apprMonthly":"3"`), legacy(`,"appr_monthly":"03"`), "apprMonthly other 3 03"},
		{"an amount that is missing", v2(`,"apprPrice":"1000"`), legacy(``), "apprPrice money 1000 (missing)"},
		{"missing, null and empty", v2(`,"apprPrice":null,"apprNum":""`), legacy(`,"appr_price":"","appr_issuer":null`), "same"},
		{"empty where there is one", v2(`,"apprPrice":null,"apprNum":""`), legacy(`,"appr_price":"1","appr_num":"2"`), "apprPrice money (missing) 1, apprNum exact (missing) •••"},
		{"no date, as each form writes it", v2(`,"apprDt":0`), legacy(`,"appr_dt":""`), "same"},
		{"no date, with the types mixed", v2(`,"apprDt":"0","apprOriginDt":null`), legacy(`,"apprOriginDt":0`), "same"},
		{"a date and none", v2(`,"apprDt":0`), legacy(`,"appr_dt":"20261121030000"`), "apprDt exact (missing) 20261121030000"},
		{"a date that is a second later", v2(`,"apprDt":20261121030000`), legacy(`,"appr_dt":"20261121030001"`), "apprDt exact 20261121030000 20261121030001"},
		{"a number of an approval that is missing", v2(`,"apprNum":"12345678"`), legacy(``), "apprNum exact ••• (missing)"},
		{"the time and number of the original approval", v2(`,"apprOriginDt":20261121030000,"apprOriginNum":"1"`), legacy(`,"appr_origin_dt":"0","appr_origin_num":"2"`), "apprOriginDt exact 20261121030000 (missing), apprOriginNum exact ••• •••"},
		{"zeros are a number", v2(`,"apprDt":"00"`), legacy(`,"appr_dt":""`), "apprDt exact 00 (missing)"},
		{"an amount of 0 and none", v2(`,"apprPrice":0`), legacy(`,"appr_price":""`), "apprPrice money 0 (missing)"},
		{"an amount of 0 and another", v2(`,"apprPrice":0`), legacy(`,"appr_price":"20000"`), "apprPrice money 0 20000"},
		{"an empty number and a word", v2(`,"apprDt":0`), legacy(`,"appr_dt":"x"`), "apprDt exact (missing) •••"},
		{"0 of a row that converts nothing", v2(`,"apprNum":0`), legacy(`,"appr_num":""`), "apprNum exact ••• (missing)"},
		{"0 that the pairs give a meaning, unpaid", answer("v2", `{"billId":"1","apprState":"W","apprPayType":0}`), answer("legacy", `{"bill_id":"1","appr_state":"W","appr_pay_type":""}`), "same"},
		{"0 that the pairs give a meaning, beside another, unpaid", answer("v2", `{"billId":"1","apprState":"W","apprPayType":0}`), answer("legacy", `{"bill_id":"1","appr_state":"W","appr_pay_type":"KEYIN"}`), "apprPayType other 0 1"},
		{"0 that the pairs give a meaning, unpaid at one", answer("v2", `{"billId":"1","apprState":"W","apprPayType":0}`), legacy(``), "apprState state W F"},
		{"0 that the pairs give a meaning", v2(`,"apprPayType":0`), legacy(``), "apprPayType other 0 (missing)"},
		{"0 of the other form that the pairs give a meaning", v2(``), legacy(`,"appr_pay_type":"0"`), "apprPayType other (missing) 0"},
		{"a pair of a value and nothing", v2(`,"apprCashTrader":"NONE"`), legacy(`,"appr_cash_trader":null`), "same"},
		{"a pair of a value and nothing, beside another", v2(`,"apprCashTrader":"NONE"`), legacy(`,"appr_cash_trader":"1"`), "apprCashTrader other NONE BUSINESS"},
		{"another state", v2(``), answer("legacy", `{"bill_id":"1","appr_state":"W"}`), "apprState state F W"},
		{"spelled with escapes", v2(`,"apprIssuer":"\ud55c국"`), legacy(`,"appr_issuer":"한국"`), "same"},
		{"names are hidden", v2(`,"apprIssuer":"한국 Bank-7\u0007\u20ac"`), legacy(``), "apprIssuer other ••• (missing)"},
		{"true is no word", v2(`,"apprCardType":true`), v2(`,"apprCardType":"true"`), "apprCardType other ••• •••"},
		{"objects in another order", v2(`,"apprIssuer":{"a":1,"b":2}`), legacy(`,"appr_issuer":{"b":2, "a":1}`), "same"},
		{"another object", v2(`,"apprIssuer":{"a":1}`), v2(`,"apprIssuer":{"a":2}`), `apprIssuer other ••• •••`},

		{"a pair", v2(`,"apprPayType":0`), legacy(`,"appr_pay_type":"CARD_VAN"`), "same"},
		{"a pair, as text", v2(`,"apprPayType":"0"`), legacy(`,"appr_pay_type":"CARD_VAN"`), "same"},
		{"the other pair", v2(`,"apprPayType":0`), legacy(`,"appr_pay_type":"KEYIN"`), "apprPayType other 0 1"},
		{"without a pair, spelled like one", v2(`,"apprPayType":0`), legacy(`,"appr_pay_type":"0"`), "apprPayType other 0 0"},
		{"both without a pair", v2(`,"apprPayType":7`), legacy(`,"appr_pay_type":"7"`), "same"},
		{"pairs in one form", legacy(`,"appr_pay_type":"KEYIN"`), legacy(`,"appr_pay_type":"CARD_VAN"`), "apprPayType other 1 0"},

		{"what only one form has", v2(`,"udItem":"x","cardType":"y"`), legacy(``), "same"},
		{"what only this form has", v2(`,"udItem":"x"`), v2(`,"udItem":"y"`), "udItem other ••• •••"},
		{"a field that no row names", v2(`,"new":1`), v2(`,"new":2`), "same"},
		{"another text", answer("v2", `{"code":"0000","message":"ok","data":{"billId":"1"}}`), answer("v2", `{"code":"0000","message":"fine","data":{"billId":"1"}}`), "same"},
		{"noise", v2(`,"apprNum":"1","apprIssuer":"a"`), legacy(`,"appr_num":"2","appr_issuer":"b"`), "apprIssuer other ••• •••"},
		{"noise by whole names", v2(`,"apprNum":"1"`), legacy(`,"appr_num":"2"`), "apprNum exact ••• •••"},
		{"nothing but noise", v2(`,"apprNum":"1"`), legacy(`,"appr_num":"2"`), "same"},
		{"another key", v2(`,"apiKey":"` + secretKey + `"`), legacy(`,"apikey":"2"`), "apikey bill (requested) (another)"},
		{"a masked key", v2(`,"apiKey":"` + secretKey + `"`), legacy(`,"apikey":"k3***"`), "same"},
		{"the key in another field", v2(`,"apprNum":"x` + secretKey + `x"`), legacy(``), "apprNum exact (key) (missing)"},

		{"the same failure", v2Fails("PARTNER_006"), legacyFails("PARTNER_006"), "same"},
		{"the same failure by a pair", v2Fails("BILL_002"), legacyFails("9802"), "same"},
		{"another failure", v2Fails("PARTNER_006"), legacyFails("9802"), "(code) code PARTNER_006 BILL_002"},
		{"a failure beside a success", v2(``), legacyFails("7777"), "(code) code 0000 7777"},
		{"not there", v2(``), legacyFails("9980"), "not_there"},
		{"not here", v2Fails("BILL_003"), legacy(``), "not_there"},
		{"nowhere", v2Fails("BILL_003"), legacyFails("9980"), "not_there"},
		{"nowhere, in one form", v2Fails("BILL_003"), v2Fails("BILL_003"), "not_there"},
		{"another bill", v2(``), answer("legacy", `{"bill_id":"2","appr_state":"F"}`), "unclear"},
		{"another bill in an envelope", answer("v2", `{"billId":"2"}`), legacy(``), "unclear"},
		{"another bill from the one that is compared", legacy(``), answer("v2", `{"billId":"2"}`), "billId bill (requested) (another)"},
		{"a bare body with another status", v2(``), status(legacy(``), 500), "unclear"},
		{"a gateway's page", v2(``), answer("legacy", `<html>`), "unclear"},
		{"nothing at all", v2(``), answer("v2", ``), "unclear"},
		{"no such bill with another status", v2(``), status(legacyFails("BILL_003"), 500), "unclear"},
		{"a success with another status", v2(``), status(answer("v2", `{"billId":"1","apprState":"F"}`), 404), "unclear"},
		{"maintenance", v2(``), legacyFails("MAINTAINED_METHOD"), "unclear"},
		{"an error by a pair", v2(``), legacyFails("9999"), "unclear"},
		{"an error beside not found", v2Fails("ERROR"), legacyFails("9980"), "unclear"},
	} {
		read := compileTable(t, pairs).Operation("bill.read")
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ignore := []string{ignored[test.name]}
			got := evidence.CompareAnswers(read, test.a, test.b, ignore)
			shown := string(got.Class)
			if got.Class == evidence.Differs {
				shown = shownDifferences(got)
			}
			if shown != test.want || got.Class != evidence.NoAnswer && got.Bill != "1" {
				t.Errorf("%+v, want %s", got, test.want)
			}
			if strings.HasPrefix(test.name, "another bill") || test.name == "another key" {
				return // for these the class depends on the order
			}
			// In the other order the class is the same, with the values exchanged.
			back := evidence.CompareAnswers(read, test.b, test.a, ignore)
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
