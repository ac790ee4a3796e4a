package evidence_test

import (
	"fmt"
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
	const pairs = `operations: {bill.read: {reply: [{v2: apprPayType, legacy: appr_pay_type, as: digits, values: [{v2: 0, legacy: CARD_VAN}, {v2: 1, legacy: KEYIN}]},
  {v2: apprCashTrader, legacy: appr_cash_trader, values: [{v2: NONE, legacy: ""}, {v2: BUSINESS, legacy: "1"}]}]}}
codes: [{v2: BILL_003, legacy: "9980"}, {v2: BILL_002, legacy: "9802"}, {v2: ERROR, legacy: "9999"}]`
	v2Fails := func(code string) evidence.Answer {
		return answer("v2", `{"code":"`+code+`","message":"a","data":null}`)
	}
	legacyFails := func(code string) evidence.Answer { return answer("legacy", `{"code":"`+code+`","msg":"b"}`) }
	status := func(a evidence.Answer, status int) evidence.Answer { a.Status = status; return a }
	for _, test := range []struct {
		name    string
		a, b    evidence.Answer
		ignore  string
		want    evidence.Class
		differs string
	}{
		{name: "nothing but the least", a: v2(``), b: legacy(``), want: evidence.Same},
		{name: "a number and its digits, both documented so", a: v2(`,"apprDt":20261121030000`), b: legacy(`,"appr_dt":"20261121030000"`), want: evidence.Same},
		{name: "a number and its digits in one form", a: v2(`,"apprDt":20261121030000`), b: v2(`,"apprDt":"20261121030000"`), want: evidence.Same},
		{name: "a number and its digits in legacy", a: legacy(`,"appr_dt":20261121030000`), b: legacy(`,"appr_dt":"20261121030000"`), want: evidence.Same},
		{name: "digits that no float tells apart", a: v2(`,"apprDt":90071992547409921`), b: v2(`,"apprDt":"90071992547409920"`), want: evidence.Differs, differs: "apprDt exact 99999999999999999 99999999999999999"},
		{name: "an amount as a number", a: v2(`,"apprPrice":30000`), b: legacy(`,"appr_price":"30000"`), want: evidence.Same},
		{name: "an amount with zeros before it", a: v2(`,"apprPrice":30000`), b: legacy(`,"appr_price":"030000"`), want: evidence.Differs, differs: "apprPrice money 30000 030000"},
		{name: "an amount with a fraction", a: v2(`,"apprPrice":30000.0`), b: v2(`,"apprPrice":"30000"`), want: evidence.Differs, differs: "apprPrice money 30000.0 30000"},
		{name: "an amount with an exponent", a: v2(`,"apprPrice":3e4`), b: legacy(`,"appr_price":30000`), want: evidence.Differs, differs: "apprPrice money 9a9 30000"},
		{name: "another amount", a: legacy(`,"appr_price":"30000"`), b: legacy(`,"appr_price":"30001"`), want: evidence.Differs, differs: "apprPrice money 30000 30001"},
		{name: "digits with zeros before them", a: v2(`,"apprDt":30000`), b: v2(`,"apprDt":"030000"`), want: evidence.Differs, differs: "apprDt exact 30000 030000"},
		{name: "two digits of months", a: v2(`,"apprMonthly":"3"`), b: legacy(`,"appr_monthly":"03"`), want: evidence.Differs, differs: "apprMonthly other 3 03"},
		{name: "an amount that is missing", a: v2(`,"apprPrice":"1000"`), b: legacy(``), want: evidence.Differs, differs: "apprPrice money 1000 (missing)"},
		{name: "missing, null and empty", a: v2(`,"apprPrice":null,"apprNum":""`), b: legacy(`,"appr_price":"","appr_issuer":null`), want: evidence.Same},
		{name: "empty where there is one", a: v2(`,"apprPrice":null,"apprNum":""`), b: legacy(`,"appr_price":"1","appr_num":"2"`), want: evidence.Differs, differs: "apprPrice money (null) 1, apprNum exact (empty) 9"},
		{name: "no date, as each form writes it", a: v2(`,"apprDt":0`), b: legacy(`,"appr_dt":""`), want: evidence.Same},
		{name: "no date, with the types mixed", a: v2(`,"apprDt":"0","apprOriginDt":null`), b: legacy(`,"apprOriginDt":0`), want: evidence.Same},
		{name: "a date and none", a: v2(`,"apprDt":0`), b: legacy(`,"appr_dt":"20261121030000"`), want: evidence.Differs, differs: "apprDt exact (empty) 20261121030000"},
		{name: "a date that is a second later", a: v2(`,"apprDt":20261121030000`), b: legacy(`,"appr_dt":"20261121030001"`), want: evidence.Differs, differs: "apprDt exact 20261121030000 20261121030001"},
		{name: "a number of an approval that is missing", a: v2(`,"apprNum":"12345678"`), b: legacy(``), want: evidence.Differs, differs: "apprNum exact 99999999 (missing)"},
		{name: "the time and number of the original approval", a: v2(`,"apprOriginDt":20261121030000,"apprOriginNum":"1"`), b: legacy(`,"appr_origin_dt":"0","appr_origin_num":"2"`), want: evidence.Differs, differs: "apprOriginDt exact 20261121030000 (empty), apprOriginNum exact 9 9"},
		{name: "zeros are a number", a: v2(`,"apprDt":"00"`), b: legacy(`,"appr_dt":""`), want: evidence.Differs, differs: "apprDt exact 00 (empty)"},
		{name: "an amount of 0 and none", a: v2(`,"apprPrice":0`), b: legacy(`,"appr_price":""`), want: evidence.Differs, differs: "apprPrice money 0 (empty)"},
		{name: "an amount of 0 and another", a: v2(`,"apprPrice":0`), b: legacy(`,"appr_price":"20000"`), want: evidence.Differs, differs: "apprPrice money 0 20000"},
		{name: "an empty number and a word", a: v2(`,"apprDt":0`), b: legacy(`,"appr_dt":"x"`), want: evidence.Differs, differs: "apprDt exact (empty) a"},
		{name: "0 of a row that converts nothing", a: v2(`,"apprNum":0`), b: legacy(`,"appr_num":""`), want: evidence.Differs, differs: "apprNum exact 9 (empty)"},
		{name: "0 that the pairs give a meaning, unpaid", a: answer("v2", `{"billId":"1","apprState":"W","apprPayType":0}`), b: answer("legacy", `{"bill_id":"1","appr_state":"W","appr_pay_type":""}`), want: evidence.Same},
		{name: "0 that the pairs give a meaning, beside another, unpaid", a: answer("v2", `{"billId":"1","apprState":"W","apprPayType":0}`), b: answer("legacy", `{"bill_id":"1","appr_state":"W","appr_pay_type":"KEYIN"}`), want: evidence.Differs, differs: "apprPayType other 0 1"},
		{name: "0 that the pairs give a meaning, unpaid at one", a: answer("v2", `{"billId":"1","apprState":"W","apprPayType":0}`), b: legacy(``), want: evidence.Differs, differs: "apprState state W F"},
		{name: "0 that the pairs give a meaning", a: v2(`,"apprPayType":0`), b: legacy(``), want: evidence.Differs, differs: "apprPayType other 0 (missing)"},
		{name: "0 of the other form that the pairs give a meaning", a: v2(``), b: legacy(`,"appr_pay_type":"0"`), want: evidence.Differs, differs: "apprPayType other (missing) 0"},
		{name: "a pair of a value and nothing", a: v2(`,"apprCashTrader":"NONE"`), b: legacy(`,"appr_cash_trader":null`), want: evidence.Same},
		{name: "a pair of a value and nothing, beside another", a: v2(`,"apprCashTrader":"NONE"`), b: legacy(`,"appr_cash_trader":"1"`), want: evidence.Differs, differs: "apprCashTrader other NONE BUSINESS"},
		{name: "another state", a: v2(``), b: answer("legacy", `{"bill_id":"1","appr_state":"W"}`), want: evidence.Differs, differs: "apprState state F W"},
		{name: "spelled with escapes", a: v2(`,"apprIssuer":"\ud55c국"`), b: legacy(`,"appr_issuer":"한국"`), want: evidence.Same},
		{name: "names are masked", a: v2(`,"apprIssuer":"한국 Bank-7\u0007\u20ac"`), b: legacy(``), want: evidence.Differs, differs: "apprIssuer other aa aaaa-9?? (missing)"},
		{name: "true is no word", a: v2(`,"apprCardType":true`), b: v2(`,"apprCardType":"true"`), want: evidence.Differs, differs: "apprCardType other aaaa aaaa"},
		{name: "objects in another order", a: v2(`,"apprIssuer":{"a":1,"b":2}`), b: legacy(`,"appr_issuer":{"b":2, "a":1}`), want: evidence.Same},
		{name: "another object", a: v2(`,"apprIssuer":{"a":1}`), b: v2(`,"apprIssuer":{"a":2}`), want: evidence.Differs, differs: `apprIssuer other {"a":9} {"a":9}`},

		{name: "a pair", a: v2(`,"apprPayType":0`), b: legacy(`,"appr_pay_type":"CARD_VAN"`), want: evidence.Same},
		{name: "a pair, as text", a: v2(`,"apprPayType":"0"`), b: legacy(`,"appr_pay_type":"CARD_VAN"`), want: evidence.Same},
		{name: "the other pair", a: v2(`,"apprPayType":0`), b: legacy(`,"appr_pay_type":"KEYIN"`), want: evidence.Differs, differs: "apprPayType other 0 1"},
		{name: "without a pair, spelled like one", a: v2(`,"apprPayType":0`), b: legacy(`,"appr_pay_type":"0"`), want: evidence.Differs, differs: "apprPayType other 0 0"},
		{name: "both without a pair", a: v2(`,"apprPayType":7`), b: legacy(`,"appr_pay_type":"7"`), want: evidence.Same},
		{name: "pairs in one form", a: legacy(`,"appr_pay_type":"KEYIN"`), b: legacy(`,"appr_pay_type":"CARD_VAN"`), want: evidence.Differs, differs: "apprPayType other 1 0"},

		{name: "what only one form has", a: v2(`,"udItem":"x","cardType":"y"`), b: legacy(``), want: evidence.Same},
		{name: "what only this form has", a: v2(`,"udItem":"x"`), b: v2(`,"udItem":"y"`), want: evidence.Differs, differs: "udItem other a a"},
		{name: "a field that no row names", a: v2(`,"new":1`), b: v2(`,"new":2`), want: evidence.Same},
		{name: "another text", a: answer("v2", `{"code":"0000","message":"ok","data":{"billId":"1"}}`), b: answer("v2", `{"code":"0000","message":"fine","data":{"billId":"1"}}`), want: evidence.Same},
		{name: "noise", a: v2(`,"apprNum":"1","apprIssuer":"a"`), b: legacy(`,"appr_num":"2","appr_issuer":"b"`), ignore: "apprNum", want: evidence.Differs, differs: "apprIssuer other a a"},
		{name: "noise by whole names", a: v2(`,"apprNum":"1"`), b: legacy(`,"appr_num":"2"`), ignore: "appr", want: evidence.Differs, differs: "apprNum exact 9 9"},
		{name: "nothing but noise", a: v2(`,"apprNum":"1"`), b: legacy(`,"appr_num":"2"`), ignore: "apprNum", want: evidence.Same},
		{name: "another key", a: v2(`,"apiKey":"` + secretKey + `"`), b: legacy(`,"apikey":"2"`), want: evidence.Differs, differs: "apikey bill (requested) (another)"},
		{name: "a masked key", a: v2(`,"apiKey":"` + secretKey + `"`), b: legacy(`,"apikey":"k3***"`), want: evidence.Same},
		{name: "the key in another field", a: v2(`,"apprNum":"x` + secretKey + `x"`), b: legacy(``), want: evidence.Differs, differs: "apprNum exact (key) (missing)"},

		{name: "the same failure", a: v2Fails("PARTNER_006"), b: legacyFails("PARTNER_006"), want: evidence.Same},
		{name: "the same failure by a pair", a: v2Fails("BILL_002"), b: legacyFails("9802"), want: evidence.Same},
		{name: "another failure", a: v2Fails("PARTNER_006"), b: legacyFails("9802"), want: evidence.Differs, differs: "(code) code PARTNER_006 BILL_002"},
		{name: "a failure beside a success", a: v2(``), b: legacyFails("7777"), want: evidence.Differs, differs: "(code) code 0000 7777"},
		{name: "not there", a: v2(``), b: legacyFails("9980"), want: evidence.NotThere},
		{name: "not here", a: v2Fails("BILL_003"), b: legacy(``), want: evidence.NotThere},
		{name: "nowhere", a: v2Fails("BILL_003"), b: legacyFails("9980"), want: evidence.NotThere},
		{name: "nowhere, in one form", a: v2Fails("BILL_003"), b: v2Fails("BILL_003"), want: evidence.NotThere},
		{name: "another bill", a: v2(``), b: answer("legacy", `{"bill_id":"2","appr_state":"F"}`), want: evidence.NoAnswer},
		{name: "another bill in an envelope", a: answer("v2", `{"billId":"2"}`), b: legacy(``), want: evidence.NoAnswer},
		{name: "another bill from the one that is compared", a: legacy(``), b: answer("v2", `{"billId":"2"}`), want: evidence.Differs, differs: "billId bill (requested) (another)"},
		{name: "a bare body with another status", a: v2(``), b: status(legacy(``), 500), want: evidence.NoAnswer},
		{name: "a gateway's page", a: v2(``), b: answer("legacy", `<html>`), want: evidence.NoAnswer},
		{name: "nothing at all", a: v2(``), b: answer("v2", ``), want: evidence.NoAnswer},
		{name: "no such bill with another status", a: v2(``), b: status(legacyFails("BILL_003"), 500), want: evidence.NoAnswer},
		{name: "a success with another status", a: v2(``), b: status(answer("v2", `{"billId":"1","apprState":"F"}`), 404), want: evidence.NoAnswer},
		{name: "maintenance", a: v2(``), b: legacyFails("MAINTAINED_METHOD"), want: evidence.NoAnswer},
		{name: "an error by a pair", a: v2(``), b: legacyFails("9999"), want: evidence.NoAnswer},
		{name: "an error beside not found", a: v2Fails("ERROR"), b: legacyFails("9980"), want: evidence.NoAnswer},
	} {
		read := compileTable(t, pairs).Operation("bill.read")
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := evidence.CompareAnswers(read, test.a, test.b, []string{test.ignore})
			if got.Class != test.want || shownDifferences(got) != test.differs || got.Class != evidence.NoAnswer && got.Bill != "1" {
				t.Errorf("%+v, want %s %s", got, test.want, test.differs)
			}
			if strings.HasPrefix(test.name, "another bill") || test.name == "another key" {
				return // for these the class depends on the order
			}
			// In the other order the class is the same, with the values exchanged.
			back := evidence.CompareAnswers(read, test.b, test.a, []string{test.ignore})
			for i, d := range back.Differences {
				back.Differences[i].First, back.Differences[i].Second = d.Second, d.First
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
		all = append(all, fmt.Sprint(d.Path, " ", d.Kind, " ", d.First, " ", d.Second))
	}
	return strings.Join(all, ", ")
}

// An amount of 0 differs from a missing one, also if an overlay gives amounts as: digits.
func TestCompareKeepsAmountsStrict(t *testing.T) {
	t.Parallel()
	read := compileTable(t, `operations: {bill.read: {reply: [{v2: apprPrice, legacy: appr_price, as: digits}]}}`).Operation("bill.read")
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

// The table says which fields are shown unchanged: amounts, states, codes and dates. All other fields are masked, and also these
// if a backend puts another kind of value into them.
func TestExamplesShowNoPersonalData(t *testing.T) {
	t.Parallel()
	read := compileTable(t).Operation("bill.read")
	for text, want := range map[string]string{
		"20000": "20000", "200.5": "200.5", "1500000000": "9999999999", "HONGGILDONG": "aaaaaaaaaaa", "20261121030000": "20261121030000", "CARD_VAN": "CARD_VAN", "00": "00",
		"01000007777": "99999999999", "010-0000-7777": "999-9999-9999", "4518429900007731": "9999999999999999", "9001011000000": "9999999999999",
		"20269921030000": "99999999999999", "김하늘": "aaa", "HONG GILDONG": "aaaa aaaaaaa", "k3y": "a9a",
		"A_WORD_THAT_IS_FAR_TOO_LONG": "a_aaaa_aaaa_aa_aaa_aaa_aaaa", "010.0000.7777": "999.9999.9999", secretKey: "(key)",
	} {
		for _, f := range []struct{ v2, legacy string }{{"apprPrice", "appr_price"}, {"apprDt", "appr_dt"}, {"apprResCd", "appr_res_cd"}, {"apprPayType", "appr_pay_type"}} {
			got := evidence.CompareAnswers(read, v2(`,"`+f.v2+`":"`+text+`"`), legacy(`,"`+f.legacy+`":"Z"`), nil)
			if len(got.Differences) != 1 || got.Differences[0].First != want || got.Differences[0].Second != "Z" {
				t.Errorf("%s %s: %+v, want %s", f.v2, text, got, want)
			}
		}
		if text == secretKey {
			continue
		}
		for _, f := range []struct{ v2, legacy string }{{"apprIssuerNum", "appr_issuer_num"}, {"apprIssuer", "appr_issuer"}, {"apprNum", "appr_num"}, {"apprCashIssuanceNumber", "appr_cash_issuance_number"}} {
			got := evidence.CompareAnswers(read, v2(`,"`+f.v2+`":"`+text+`"`), legacy(`,"`+f.legacy+`":"Z"`), nil)
			if len(got.Differences) != 1 || strings.ContainsAny(got.Differences[0].First, "0123458가하늘") || got.Differences[0].Second != "a" {
				t.Errorf("%s %s: %+v shows it", f.v2, text, got)
			}
		}
	}
	// An amount has more digits than a code, and no more than a phone.
	for text, want := range map[string]string{"150000000": "150000000", "1012345678": "9999999999"} {
		if got := evidence.CompareAnswers(read, v2(`,"apprPrice":"`+text+`"`), legacy(`,"appr_price":"1"`), nil); len(got.Differences) != 1 || got.Differences[0].First != want {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
	// An overlay says which of its own fields have no personal data.
	overlaid := compileTable(t, `operations: {bill.read: {reply: [{v2: apprNum, legacy: appr_num, role: code, exact: null}, {v2: apprResCd, legacy: appr_res_cd}]}}`).Operation("bill.read")
	got := evidence.CompareAnswers(overlaid, v2(`,"apprNum":"123456","apprResCd":"1"`), legacy(`,"appr_num":"123457","appr_res_cd":"2"`), nil)
	if shownDifferences(got) != "apprNum other 123456 123457, apprResCd other 1 2" && shownDifferences(got) != "apprResCd other 1 2, apprNum other 123456 123457" {
		t.Errorf("%+v", got)
	}
}
