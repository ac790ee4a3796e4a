package sandbox_test

import (
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// Some clients send a legacy price as a JSON number. Every operation accepts it and keeps its digits.
func TestLegacyPriceAsJSONNumber(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	const price = "123456789012345678901234567890" // a float cannot represent it
	call := func(path, id, inner string) {
		t.Helper()
		body := `{"apikey":"demo-partner-key","member":"m","merchant":"s",` + inner + `}`
		if _, reply := r.post(path, body); codeOf(t, "legacy", reply) != "0000" {
			t.Fatalf("%s of %s: %s", path, id, reply)
		}
	}
	for _, id := range []string{"CANCELLED", "DESTROYED"} {
		end := `"bill_id":"` + id + `","price":` + price + `,"hash":"` + sign(id, "", price) + `"`
		call("/if/bill/send", id, `"bill":{"bill_id":"`+id+`","phone":"01012345678","price":`+price+`,"hash":"`+sign(id, "01012345678", price)+`"}`)
		if b, err := r.Bill(demoKey, id); err != nil || b.Price != price {
			t.Errorf("%s: price %q, %v", id, b.Price, err)
		}
		if id == "DESTROYED" {
			call("/if/bill/destroy", id, end)
			continue
		}
		if err := r.Pay(demoKey, id); err != nil {
			t.Fatal(err)
		}
		call("/if/bill/cancel", id, end)
		if read := r.must(newCall("legacy", "read").with("billId", id).with("member", "m").with("merchant", "s")); !strings.Contains(read, `"appr_price":"`+price+`"`) {
			t.Errorf("the price is not a string of the same digits: %s", read)
		}
	}
}

// Bill ids with hyphens work in every operation, in both forms, on the bill's page and in the control API.
func TestBillIDsWithHyphens(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"DM-20260302-00000001", "1612400029-100000001", "-"} {
		for _, form := range forms {
			t.Run(form+"/"+id, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{})
				of := func(op string) testCall { return newCall(form, op).with("billId", id) }
				r.must(of("create"))
				if code, body := r.do(of("create")); code != "BILL_001" {
					t.Errorf("the same id again: %s", body)
				}
				r.must(of("resend"))
				b, err := r.Bill(demoKey, id)
				if err != nil {
					t.Fatal(err)
				}
				visit(t, "GET", b.ShortURL, nil).says(t, 200, id)
				r.runControl(controlStep{"POST", "/bills/" + id + "/pay", "", 200, `"bill_id":"` + id + `"`})
				if read := r.must(of("read")); !strings.Contains(read, `"`+id+`"`) {
					t.Errorf("the read shows another bill: %s", read)
				}
				r.must(of("cancel"))
				r.must(newCall(form, "create").with("billId", "OTHER"))
				r.must(newCall(form, "destroy").with("billId", "OTHER"))
			})
		}
	}
}
