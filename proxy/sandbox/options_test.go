package sandbox_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// Each option, with a value that is not its default.
func TestOptionsChangeTheBehaviour(t *testing.T) {
	t.Parallel()
	has := func(t *testing.T, body, want string) {
		t.Helper()
		has(t, body, want)
	}
	t.Run("failure data", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{FailureData: `{"a":[1]}`})
		_, body := r.post("/bill/read", "{}")
		has(t, body, `"data":{"a":[1]}}`)
	})
	t.Run("legacy codes", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{LegacyCodes: map[string]string{"BILL_001": "9800", "BILL_003": "9980", "*": "9999"}})
		for _, step := range []struct {
			q    testCall
			want string
		}{
			{newCall("legacy", "read"), "9980"},
			{newCall("v2", "read"), "BILL_003"},
			{newCall("legacy", "create"), "0000"},
			{newCall("legacy", "create"), "9800"},
			{newCall("legacy", "destroy").with("hash", "00"), "9999"},
			{newCall("v2", "destroy").with("hash", "00"), "VALIDATION_002"},
		} {
			if code, _ := r.do(step.q); code != step.want {
				t.Errorf("%s %s: got %s, want %s", step.q.form, step.q.op, code, step.want)
			}
		}
	})
	t.Run("legacy send", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{SwapLegacySend: true, NoLegacyShortURL: true})
		body := r.must(newCall("legacy", "create"))
		has(t, body, `"member":"demo-store","merchant":"demo-member"`)
		lacks(t, body, "short")
		has(t, r.must(newCall("legacy", "destroy")), `"member":"demo-member","merchant":"demo-store"`)
	})
	t.Run("bill ids", func(t *testing.T) {
		t.Parallel()
		for _, row := range []struct {
			o        sandbox.Options
			id, want string
		}{
			{sandbox.Options{}, "a-b_c", "0000"},
			{sandbox.Options{}, "a-b c", "VALIDATION_001"},
			{sandbox.Options{BillIDs: sandbox.LettersOrDigits}, "a-b", "VALIDATION_001"},
			{sandbox.Options{BillIDs: sandbox.LettersOrDigits}, "aB1가", "0000"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty, Environment: sandbox.Production}, "ABCDEFGHI-1234567890", "VALIDATION_001"},
			{sandbox.Options{BillIDs: sandbox.AnyCharacters}, "a-b c", "0000"},
			{sandbox.Options{BillIDs: sandbox.AnyCharacters}, limit21, "BILL_007"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty}, billID, "0000"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty}, billID[:19], "VALIDATION_001"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty}, "ABCDEFGHIJ1234567890", "VALIDATION_001"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty, Environment: sandbox.Production}, "ABCDEFGHIJ1234567890", "0000"},
		} {
			if code, _ := start(t, row.o).do(newCall("v2", "create").with("billId", row.id)); code != row.want {
				t.Errorf("%q: got %s, want %s", row.id, code, row.want)
			}
		}
	})
	t.Run("global bill ids", func(t *testing.T) {
		t.Parallel()
		for global, want := range map[bool]string{false: "0000", true: "BILL_001"} {
			r := start(t, sandbox.Options{GlobalBillIDs: global})
			r.createInState("W")
			if code, _ := r.do(newCall("legacy", "create").with("apiKey", "demo-nourl-key")); code != want {
				t.Errorf("global %v: got %s, want %s", global, code, want)
			}
		}
	})
	t.Run("any store", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{AnyMerchant: true})
		r.createInState("W")
		r.must(newCall("legacy", "read").with("member", "other"))
	})
	t.Run("codes", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{DestroyRefused: "ERROR", WrongAmount: "PAYMENT_002"})
		r.createInState("F")
		if code, _ := r.do(newCall("v2", "destroy")); code != "ERROR" {
			t.Error(code)
		}
		if code, _ := r.do(newCall("v2", "cancel").with("price", "1")); code != "PAYMENT_002" {
			t.Error(code)
		}
	})
	t.Run("pay types", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{PayTypes: map[string]int{"CARD_VAN": 12}})
		r.createInState("F")
		has(t, r.must(newCall("v2", "read")), `"apprPayType":12,`)
	})
	t.Run("numbers when unpaid", func(t *testing.T) {
		t.Parallel()
		// The default is 0: a gateway that copies the number as text makes an unpaid bill look paid, and only 0 reveals
		// it.
		shown := map[sandbox.NumberWhenUnpaid]string{
			"": "0", sandbox.NullWhenUnpaid: "null", sandbox.EmptyWhenUnpaid: `""`, sandbox.OmitWhenUnpaid: "",
		}
		for numbers, raw := range shown {
			for _, asStrings := range []bool{false, true} {
				for _, state := range []string{"W", "D"} {
					r := start(t, sandbox.Options{NumbersWhenUnpaid: numbers, NumbersAsStrings: asStrings})
					r.createInState(state)
					var data map[string]json.RawMessage
					must(t, json.Unmarshal(dataOf(t, json.RawMessage(r.must(newCall("v2", "read")))), &data))
					shownAsNumber := raw
					if asStrings && numbers == sandbox.ZeroWhenUnpaid {
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
	t.Run("numbers as strings", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{NumbersAsStrings: true})
		r.createInState("F")
		has(t, r.must(newCall("v2", "read")), `"apprPayType":"1","apprCardType":"신용","apprDt":"20260302123456","apprOriginDt":"20260302123456",`)
		has(t, r.must(newCall("legacy", "read")), `"appr_pay_type":"CARD_VAN"`)
	})
	t.Run("mobile", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{Mobile: regexp.MustCompile(`^\+8210[0-9]{8}$`)})
		for _, form := range forms {
			for phone, want := range map[string]string{"+821012345678": "0000", "01012345678": "VALIDATION_004"} {
				if code, body := r.do(newCall(form, "create").with("billId", form).with("phone", phone)); code != want {
					t.Errorf("%s %s: got %s, want %s", form, phone, body, want)
				}
			}
		}
	})
	t.Run("hash", func(t *testing.T) {
		t.Parallel()
		for _, form := range forms {
			r := start(t, sandbox.Options{HashOf: func(text string) string { return "the sum of " + text }})
			for _, step := range []struct{ op, hash, want string }{
				{"create", sign(billID, "01012345678", "30000"), "VALIDATION_002"},
				{"create", "the sum of " + billID + ",01012345678,30000", "0000"},
				{"pay", "", ""},
				{"cancel", sign(billID, "", "30000"), "VALIDATION_002"},
				{"cancel", "the sum of " + billID + ",30000", "0000"},
			} {
				if step.op == "pay" {
					must(t, r.Pay(demoKey, billID))
					continue
				}
				if code, body := r.do(newCall(form, step.op).with("hash", step.hash)); code != step.want {
					t.Errorf("%s %s: got %s, want %s", form, step.op, body, step.want)
				}
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
		must(t, r.SetMaintenance(true))
		expect("legacy", "/if/bill/read", "{}", 422, "MAINTAINED_METHOD")
	})
	t.Run("numeric price only", func(t *testing.T) {
		t.Parallel()
		for strict, want := range map[bool]string{false: "0000", true: "VALIDATION_001"} {
			r := start(t, sandbox.Options{NumericPriceOnly: strict})
			body := `{"apiKey":"demo-partner-key","member":"m","merchant":"s","bill":{"billId":"B1","sendType":"TALK","price":"30000","hash":"` + sign("B1", "", "30000") + `"}}`
			_, reply := r.post("/bill", body)
			equal(t, codeOf(t, "v2", reply), want, strict, reply)
			r.must(newCall("v2", "create"))
			r.must(newCall("legacy", "create").with("billId", "LEGACY"))
		}
	})
	t.Run("string price only", func(t *testing.T) {
		t.Parallel()
		for strict, want := range map[bool]string{false: "0000", true: "VALIDATION_001"} {
			r := start(t, sandbox.Options{StringPriceOnly: strict})
			r.must(newCall("legacy", "create"))
			r.must(newCall("v2", "create").with("billId", "NUMBER"))
			q := newCall("legacy", "destroy").with("price", json.RawMessage("30000"))
			code, body := r.do(q)
			equal(t, code, want, strict, body)
			if strict {
				has(t, body, "(price)")
			}
		}
	})
	t.Run("any callback url", func(t *testing.T) {
		t.Parallel()
		for anyURL, want := range map[bool]string{false: "VALIDATION_001", true: "0000"} {
			r := start(t, sandbox.Options{AnyCallbackURL: anyURL})
			for _, form := range forms {
				if code, body := r.do(newCall(form, "create").with("billId", form).with("callbackUrl", "undefined/api/webhook")); code != want {
					t.Errorf("any URL %v, %s: got %s, want %s", anyURL, form, body, want)
				}
			}
			_, body := r.post("/auth/mapping", `{"apiKey":"demo-partner-key","memberId":"m","merchantId":"s","callbackUrl":"undefined/api/webhook"}`)
			equal(t, codeOf(t, "v2", body), want, anyURL, body)
			if _, body := r.post("/auth/mapping", `{"apiKey":"demo-partner-key","memberId":"m","merchantId":"s","callbackUrl":""}`); codeOf(t, "v2", body) != "VALIDATION_001" {
				t.Errorf("any URL %v, registration without an address: %s", anyURL, body)
			}
		}
	})
	t.Run("callback any 2xx", func(t *testing.T) {
		t.Parallel()
		for status, state := range map[int]string{204: "delivered", 201: "delivered", 200: "delivered", 302: "waiting", 500: "waiting"} {
			p := newPartner(t, answerWith(status, ""))
			r := start(t, sandbox.Options{CallbackAny2xx: true})
			r.must(newCall("v2", "create").with("callbackUrl", p.url))
			must(t, r.Pay(demoKey, billID))
			r.awaitCallback(billID, state, 1)
		}
	})
	t.Run("base url from the host", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{})
		var reply struct{ ShortURL string }
		if err := json.Unmarshal([]byte(r.must(newCall("legacy", "create"))), &reply); err != nil || !strings.HasPrefix(reply.ShortURL, r.url+"/b/") {
			t.Errorf("%v %q", err, reply.ShortURL)
		}
	})
}

func TestUnknownEnvironmentOrBillIDRuleIsRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]sandbox.Options{
		`environment: expected development or production but got: "prod"`: {Environment: "prod"},
		`bill ids: unknown rule "long"`:                                   {BillIDs: "long"},
	} {
		if err := o.Check(); err == nil || err.Error() != want {
			t.Error(err)
		}
	}
}
