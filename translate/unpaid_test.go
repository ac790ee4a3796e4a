package translate_test

import (
	"testing"

	"billbridge/translate"
)

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

// In a comparison of two backends all values that stand for a missing field are like it, whatever the forms.
func TestFactsOfMissingAreAlike(t *testing.T) {
	t.Parallel()
	for _, values := range []string{`{old: "0", new: missing}, {old: "0", new: 0}`, `{old: "0", new: 0}, {old: "0", new: missing}`} {
		table := tableOf(t, "values", "operations: {put: {reply: {cod: {values: ["+values+"]}}}}")
		fact := func(client, upstream translate.Form, member string) (found translate.Fact) {
			call := table.Operation("put").Translation(client, upstream).Start()
			defer call.Release()
			_, err := call.Request(nil, []byte(`{}`))
			must(t, err)
			_, err = call.Reply(nil, 200, []byte(`{"rc":"00","rt":"x","code":"00","text":"x"`+member+`}`))
			must(t, err)
			for _, f := range call.Facts(true) {
				if f.Path == "cod" {
					found = f
				}
			}
			return found
		}
		for _, client := range []translate.Form{"old", "new"} {
			zero := fact("old", "old", `,"cod":"0"`)
			for _, none := range []string{``, `,"cod":0`} {
				if !zero.Alike(fact(client, "new", none)) {
					t.Errorf("%s: to %s new%s is not like old \"0\"", values, client, none)
				}
			}
			if zero.Alike(fact(client, "new", `,"cod":1`)) {
				t.Errorf("%s: to %s 1 is like \"0\"", values, client)
			}
		}
	}
}
