package billing_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/sjson"
)

func builtIn(t *testing.T, overlays ...translate.File) *translate.Table {
	t.Helper()
	table, err := translate.Compile(32, billing.Table(), overlays...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// shown returns what Mask shows of each field.
func shown(e *translate.Explanation) map[string]string {
	values := map[string]string{}
	for _, f := range billing.Mask(e) {
		values[strings.TrimSpace(f.Source+" > "+f.Target)] = f.Before + " > " + f.After
	}
	return values
}

func TestMaskShowsBillsStatesCodesAmountsAndDates(t *testing.T) {
	t.Parallel()
	table := builtIn(t)
	created := table.Operation("bill.create").Translation("legacy", "v2").ExplainRequest([]byte(`{"apikey":"demo-partner-key","member":"m1","merchant":"s1",
		"bill":{"bill_id":"12345678900000000001","price":"20000","member_nm":"김하늘","phone":"01000000000","expire_dt":"2026-12-21","callbackURL":"http://a.example/cb","hash":"ab","message":"","product_nm":null},"01012345678":"x"}`))
	want := map[string]string{
		"apikey > apiKey": `"•••" > "•••"`, "member > member": `"•••" > "•••"`, "merchant > merchant": `"•••" > "•••"`,
		"bill.bill_id > bill.billId": `"12345678900000000001" > "12345678900000000001"`, "bill.price > bill.price": `"20000" > 20000`,
		"bill.member_nm > bill.memberName": `"•••" > "•••"`, "bill.phone > bill.phone": `"•••" > "•••"`, "bill.expire_dt > bill.expireDt": `"2026-12-21" > "2026-12-21"`,
		"bill.callbackURL > bill.callbackUrl": `"•••" > "•••"`, "bill.hash > bill.hash": `"•••" > "•••"`, "bill.message > bill.message": `"" > ""`, "bill.product_nm > bill.productName": `null > null`,
		"> bill.sendType": ` > "•••"`, "(unknown field) >": `"•••" > `,
	}
	if diff := cmp.Diff(want, shown(created)); diff != "" {
		t.Error(diff)
	}
	read := table.Operation("bill.read").Translation("legacy", "v2").ExplainReply([]byte(`{"apikey":"demo-partner-key","bill_id":"B1"}`), 200,
		[]byte(`{"code":"0000","message":"for 김하늘","data":{"apiKey":"demo-partner-key","billId":"B1","apprState":"F","apprDt":20261122101530,"apprPrice":"20000","apprPayType":1,"apprIssuer":"국민","apprIssuerNum":"4111-11**-****-1111","apprResCd":"demo-partner-key","apprMonthly":["3"],"x":{"a":1}}}`))
	want = map[string]string{
		"code >": `"0000" > `, "message >": `"•••" > `, "data.apiKey > apikey": `"•••" > "•••"`, "data.billId > bill_id": `"B1" > "B1"`, "data.apprState > appr_state": `"F" > "F"`,
		"data.apprDt > appr_dt": `20261122101530 > "20261122101530"`, "data.apprPrice > appr_price": `"20000" > "20000"`, "data.apprPayType > appr_pay_type": `1 > "1"`,
		"data.apprIssuer > appr_issuer": `"•••" > "•••"`, "data.apprIssuerNum > appr_issuer_num": `"•••" > "•••"`, "data.apprResCd > appr_res_cd": `"•••" > "•••"`,
		"data.apprMonthly > appr_monthly": `[•••] > [•••]`, "(unknown field) >": `{•••} > `,
	}
	if diff := cmp.Diff(want, shown(read)); diff != "" {
		t.Error(diff)
	}
}

var address = regexp.MustCompile("0x[0-9a-f]+")

// Mask shows none of these values, in whatever field of whatever message they are.
func TestMaskHidesPersonalDataInEveryField(t *testing.T) {
	t.Parallel()
	const key = "canary-key-81"
	values := []string{
		`"` + key + `"`, `"a` + key + `z"`, `"01012345678"`, `1012345678`, `"010-1234-5678"`, `"+82 10 1234 5678"`, `"김하늘"`, `"4111111111111111"`, `4111111111111111`, `"1111-2222-3333"`,
		`"eea898865fee0e09f10d70ca2feb88956330eee4380f039d6ac66fa58f6f0532"`, `["01012345678"]`, `{"01012345678":1}`, `"http://a.example/?phone=01012345678"`, `"\u0030101234"`,
	}
	secret := func(text string) bool {
		return slices.ContainsFunc([]string{key, "01012345678", "1012345678", "010-1234", "1234 5678", "김하늘", "1111", "eea898", "a.example", `0101234`}, func(s string) bool { return strings.Contains(text, s) })
	}
	for _, overlay := range []string{"unknown: {request: pass, reply: pass}", "bounds: enforce"} {
		table := builtIn(t, translate.File{Name: "o.yaml", Data: []byte(overlay)})
		check := func(where string, e *translate.Explanation) {
			// An address in memory may have the digits of a card.
			if shown := address.ReplaceAllString(fmt.Sprint(billing.Mask(e)), ""); secret(shown) {
				t.Fatalf("%s: %s", where, shown)
			}
		}
		set := func(doc, path, value string) []byte {
			out, err := sjson.SetRaw(doc, path, value)
			if err != nil {
				t.Fatal(err)
			}
			return []byte(out)
		}
		for _, value := range values {
			for _, o := range table.Operations {
				for _, f := range append(o.Fields(), translate.Field{Message: "request", From: "v2", To: "legacy", Source: "memo"}, translate.Field{Message: "reply", From: "legacy", To: "v2", Source: "msg"}) {
					t1, t2 := o.Translation(f.From, f.To), o.Translation(f.To, f.From)
					if f.Source == "" || t1 == nil {
						continue
					}
					where := o.Name + " " + f.Message + " " + f.Source + " " + value
					key1, key2 := map[translate.Form]string{"v2": "apiKey", "legacy": "apikey"}[f.From], map[translate.Form]string{"v2": "apiKey", "legacy": "apikey"}[f.To]
					if f.Message == "request" {
						check(where, t1.ExplainRequest(set(`{"`+key1+`":"`+key+`"}`, f.Source, value)))
						check(where, t1.ExplainRequest(set(`{"`+key1+`":"`+key+`","01012345678":2,"01012345678":2}`, f.Source, value)))
						continue
					}
					path := map[bool]string{true: "data.", false: ""}[f.From == "v2"] + f.Source
					for _, code := range []string{"0000", "BILL_001"} {
						check(where, t2.ExplainReply([]byte(`{"`+key2+`":"`+key+`"}`), 200, set(`{"code":"`+code+`"}`, path, value)))
					}
				}
			}
			for _, f := range table.Callback.Fields() {
				for _, to := range table.Forms() {
					check("callback "+f.Source, table.Callback.Explain(set(`{"apiKey":"`+key+`","apikey":"`+key+`"}`, f.Source, value), f.From, to))
				}
			}
		}
	}
}

// A key that a reply has in its own field hides the same text in all others, also without the request.
func TestMaskHidesTheKeyOfAReply(t *testing.T) {
	t.Parallel()
	read := builtIn(t).Operation("bill.read").Translation("legacy", "v2")
	want := map[string]string{"code >": `"0000" > `, "data.apiKey > apikey": `"•••" > "•••"`, "data.billId > bill_id": `"•••" > "•••"`, "data.apprState > appr_state": `"F" > "F"`}
	if diff := cmp.Diff(want, shown(read.ExplainReply(nil, 200, []byte(`{"code":"0000","data":{"apiKey":"KEY-1","billId":"KEY-1","apprState":"F"}}`)))); diff != "" {
		t.Error(diff)
	}
}

// An id of a bill has a letter, 20 characters, or the digits of a short number; anything else may be a phone or a card.
func TestMaskBill(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "1", "123456", "A-1", "_b", "12345678901234567890", "1234-5678-9012-34567", "Az09_-"} {
		if got := billing.MaskBill(id); got != id {
			t.Errorf("%q is shown as %q", id, got)
		}
	}
	for _, id := range []string{"1234567", "01012345678", "-", "12_34", "123456789012345678901", "a b", "결제", "A@", "A[", "A`", "a{", "A\n", strings.Repeat("a", 21)} {
		if got := billing.MaskBill(id); got != billing.Hidden {
			t.Errorf("%q is shown as %q", id, got)
		}
	}
}
