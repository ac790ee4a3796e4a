package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// Options whose values or effects testdata/calls.txt cannot have; it has the others.
func TestOptionsChangeTheBehaviour(t *testing.T) {
	t.Parallel()
	t.Run("numbers when unpaid", func(t *testing.T) {
		t.Parallel()
		// The default is 0: a gateway that copies the number as text makes an unpaid bill look paid, and only 0 reveals
		// it.
		shown := map[string]string{"": "0", "zero": "0", "null": "null", "empty": `""`, "omit": ""}
		for numbers, raw := range shown {
			for _, asStrings := range []bool{false, true} {
				for _, state := range []string{"W", "D"} {
					r := start(t, sandbox.Options{NumbersWhenUnpaid: numbers, NumbersAsStrings: asStrings})
					r.createInState(state)
					var data map[string]json.RawMessage
					must(t, json.Unmarshal(dataOf(t, json.RawMessage(r.must(newCall("v2", "read")))), &data))
					shownAsNumber := raw
					if asStrings && raw == "0" {
						shownAsNumber = `"0"`
					}
					for _, name := range []string{"apprPayType", "apprDt", "apprOriginDt"} {
						equal(t, string(data[name]), shownAsNumber, numbers, asStrings, state, name)
						delete(data, name)
					}
					delete(data, "udItem") // null with every option
					shown := map[string]string{"apiKey": demoKey, "billId": billID, "apprState": state}
					for name, got := range data { // a string with every option
						equal(t, string(got), `"`+shown[name]+`"`, numbers, asStrings, state, name, got)
					}
					var legacy map[string]string
					must(t, json.Unmarshal([]byte(r.must(newCall("legacy", "read"))), &legacy))
					for _, name := range []string{"appr_dt", "appr_origin_dt", "appr_pay_type", "appr_price"} {
						if got, known := legacy[name]; got != "" || !known {
							t.Errorf("%q, %s: a legacy read shows %s %q", numbers, state, name, got)
						}
					}
				}
			}
		}
	})
	t.Run("hash", func(t *testing.T) {
		t.Parallel()
		for _, form := range forms {
			r := start(t, sandbox.Options{Sign: func(operation, form string, request []byte) (string, string, error) {
				if bytes.Contains(request, []byte("unreadable")) {
					return "", "", errors.New("no hash")
				}
				return "the text", operation + " in " + form, nil
			}})
			for _, step := range []struct{ op, hash, want string }{
				{"create", sign(billID, "01012345678", "30000"), "VALIDATION_002"},
				{"create", "unreadable", "VALIDATION_001"},
				{"create", "bill.create in " + form, "0000"},
				{"pay", "", ""},
				{"cancel", sign(billID, "", "30000"), "VALIDATION_002"},
				{"cancel", "bill.cancel in " + form, "0000"},
			} {
				if step.op == "pay" {
					must(t, r.Pay(demoKey, billID))
					continue
				}
				gives(t, step.want, form, step.op)(r.do(newCall(form, step.op).with("hash", step.hash)))
			}
		}
	})
	t.Run("failure status", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{FailureStatus: 422})
		expect := func(form, path, body string, status int, code string) {
			t.Helper()
			if got, reply := r.post(path, body); got != status || codeOf(t, form, reply) != code {
				t.Errorf("%s: got %d %s, want %d %s", path, got, reply, status, code)
			}
		}
		for _, form := range forms {
			path, body := newCall(form, "read").encode()
			expect(form, path, body, 422, "BILL_003")
			expect(form, path, "no JSON", 422, "VALIDATION_001")
			r.Fault(sandbox.Fault{Code: "PAYMENT_001"})
			expect(form, path, body, 422, "PAYMENT_001")
			r.Fault(sandbox.Fault{Skip: true, Status: 503}) // the status of a fault has precedence
			expect(form, path, body, 503, "ERROR")
			expect(form, path, strings.Repeat(" ", 1<<20+1), 413, "VALIDATION_001") // not a refusal of the interface
			expect(form, path+"/", "{}", 404, "ERROR")
			r.must(newCall(form, "create").with("billId", form))
			r.must(newCall(form, "read").with("billId", form))
		}
		expect("v2", "/read/mapping", "{}", 422, "PARTNER_002")
		expect("v2", "/read/mapping", `{"apiKey":"demo-partner-key"}`, 200, "0000")
		r.Fault(sandbox.Fault{Code: "MAINTAINED_METHOD"})
		expect("legacy", "/if/bill/read", "{}", 422, "MAINTAINED_METHOD")
	})
	t.Run("base url from the host", func(t *testing.T) {
		t.Parallel()
		r := start(t)
		var reply struct{ ShortURL string }
		if err := json.Unmarshal([]byte(r.must(newCall("legacy", "create"))), &reply); err != nil || !strings.HasPrefix(reply.ShortURL, r.url+"/b/") {
			t.Errorf("%v %q", err, reply.ShortURL)
		}
	})
}

func TestUnknownEnvironmentIsRefused(t *testing.T) {
	t.Parallel()
	err := sandbox.Options{Environment: "prod"}.Check()
	fails(t, `environment: expected development or production but got: "prod"`)(err)
}
