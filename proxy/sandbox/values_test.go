package sandbox_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"billbridge/proxy/sandbox"
)

// Each test value decides its operation in both forms, and no other.
func TestTestValuesDecideOneOperation(t *testing.T) {
	t.Parallel()
	if len(sandbox.TestValues()) < 8 {
		t.Fatalf("%+v", sandbox.TestValues())
	}
	for _, v := range sandbox.TestValues() {
		for _, form := range forms {
			t.Run(form+"/"+v.Field+" "+v.Value, func(t *testing.T) {
				t.Parallel()
				if !slices.Contains(sandbox.Catalogue(), v.Code) {
					t.Fatalf("the code %s does not exist", v.Code)
				}
				r := start(t)
				want := func(on string) string {
					if v.On == on {
						return v.Code
					}
					return "0000"
				}
				create := newCall(form, "create").with(v.Field, v.Value)
				gives(t, want("send"), "create")(r.do(create))
				if v.On == "send" {
					equal(t, len(r.Bills()), 0, "bills")
					url := newCall("v2", "create").with(v.Field, v.Value).with("sendType", "URL")
					if v.Field == "phone" {
						url = url.with("phone", "010-9999-"+v.Value[7:])
					}
					r.must(url) // no message is sent
					gives(t, v.Code, "resend")(r.do(newCall(form, "resend")))
				}
				paid := "0000"
				if b, err := r.PayWith("", billID, sandbox.Payment{}); err != nil {
					paid = err.Error()
					for _, f := range b.Failed {
						paid = f.Code
					}
				}
				equal(t, paid, want("payment"), "payment")
				if v.On == "payment" {
					return
				}
				price, _ := create.bill["price"].(string)
				gives(t, want("cancel"), "cancel")(r.do(newCall(form, "cancel").with("price", price)))
			})
		}
	}
}

// The control API and the page of an unpaid bill list the test values.
func TestTestValuesAreListed(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, body := r.ctl(http.MethodGet, "/values", "")
	var list []sandbox.TestValue
	must(t, json.Unmarshal([]byte(body), &list))
	equal(t, list, sandbox.TestValues())
	address := r.issue(newCall("v2", "create"))
	page := visit(t, http.MethodGet, address, nil)
	for _, v := range sandbox.TestValues() {
		page.says(t, 200, v.Value, v.Code)
	}
	must(t, r.Pay("", billID))
	lacks(t, visit(t, http.MethodGet, address, nil).body, sandbox.TestValues()[0].Value, "a paid bill")
}
