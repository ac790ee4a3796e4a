package sandbox_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// The control API shows every field of a create as sent. The hash is not part of a bill: the reply repeats it.
func TestCreateStoresEveryField(t *testing.T) {
	t.Parallel()
	// By v2 name: the value that is sent, and the field in the control API.
	members := map[string]struct{ sent, shown string }{
		"billId": {"ABCDEFGHIJ0123456789", "bill_id"}, "sendType": {"URL", "send_type"},
		"billIssuer": {"한빛 학원 & Co", "bill_issuer"}, "productName": {"3월 \"수강료\"", "product_name"},
		"price": {"30001", "price"}, "supplyPrice": {"27274", "supply_price"}, "tax": {"2727", "tax"},
		"memberName": {"김하늘", "member_name"}, "phone": {"010-9876-5432", "phone"},
		"message": {"<납부> 바랍니다\n감사합니다", "message"}, "expireDt": {"2026-04-30", "expire_dt"}, "hash": {"", ""},
		"callbackUrl":     {"https://partner.example.com/cb?a=1&b=2", "callback_url"},
		"pageRedirectUrl": {"https://partner.example.com/done", "page_redirect_url"},
	}
	for form, want := range map[string]int{"v2": 14, "legacy": 10} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			r := start(t, sandbox.Options{})
			q := newCall(form, "create").with("member", "회원 1").with("merchant", "매장/1")
			shown := map[string]string{
				"partner": demoKey, "member": "회원 1", "merchant": "매장/1", "form": form, "state": "W",
				// Fields that the legacy form does not have are empty, and sendType is TALK.
				"send_type": "TALK", "supply_price": "", "tax": "", "page_redirect_url": "",
			}
			for name, m := range members {
				if name != "hash" {
					q = q.with(name, m.sent)
				}
				if m.shown != "" && (form == "v2" || legacyName[name] != "") {
					shown[m.shown] = m.sent
				}
			}
			_, body := q.encode()
			var sent struct{ Bill map[string]json.RawMessage }
			if err := json.Unmarshal([]byte(body), &sent); err != nil || len(sent.Bill) != want {
				t.Fatalf("%d members are sent, and the document has %d: %v", len(sent.Bill), want, err)
			}
			if reply, hash := r.must(q), sign(members["billId"].sent, members["phone"].sent, "30001"); !strings.Contains(reply, `"hash":"`+hash+`"`) {
				t.Errorf("no %s in %s", hash, reply)
			}
			_, body = r.ctl(http.MethodGet, "/bills/"+members["billId"].sent, "")
			var bill map[string]any
			if err := json.Unmarshal([]byte(body), &bill); err != nil {
				t.Fatal(err)
			}
			for name, value := range shown {
				if bill[name] != value {
					t.Errorf("%s: got %q, want %q", name, bill[name], value)
				}
			}
		})
	}
}

// The cancel reason of v2 is optional.
func TestCancelStoresItsReason(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"고객 변심", ""} {
		r := start(t, sandbox.Options{})
		r.createInState("F")
		q := newCall("v2", "cancel")
		if reason != "" {
			q = q.with("cancelReason", reason)
		}
		r.must(q)
		if b, err := r.Bill(demoKey, billID); err != nil || b.Cancel.Reason != reason {
			t.Errorf("%q: %v %+v", reason, err, b.Cancel)
		}
	}
}

// The lists show the fields of a registration. Only the sign-up page uses redirectUrl.
func TestRegistrationStoresEveryField(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{Partners: []sandbox.Partner{{Key: demoKey}}})
	_, body := r.post("/auth/mapping", `{"apiKey":"demo-partner-key","memberId":"회원","merchantId":"매장","businessNumber":"1112233333",`+
		`"callbackUrl":"https://partner.example.com/cb","redirectUrl":"https://partner.example.com/back"}`)
	if codeOf(t, "v2", body) != "0000" {
		t.Fatal(body)
	}
	_, list := r.post("/read/mapping", `{"apiKey":"demo-partner-key"}`)
	_, shown := r.ctl(http.MethodGet, "/partners", "")
	for want, in := range map[string]string{
		`"partnerMember":"회원","partnerMerchant":"매장"`: list, `"businessNumber":"1112233333"`: list,
		`"callback_url":"https://partner.example.com/cb"`: shown,
	} {
		if !strings.Contains(in, want) {
			t.Errorf("no %s in %s", want, in)
		}
	}
}

// optional are fields that the test calls do not have.
var optional = map[string][]string{
	"v2 create":              {"supplyPrice", "tax", "pageRedirectUrl"},
	"v2 cancel":              {"cancelReason"},
	"/auth/mapping":          {"businessNumber", "redirectUrl"},
	"/auth/merchant/mapping": {"memberIdx", "temporaryMerchantCd"},
}

// A field without its documented type is refused and named. A key and a send type have codes of their own.
func TestFieldsOfAWrongTypeAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	refused := func(t *testing.T, path, body, field string) {
		t.Helper()
		code := map[string]string{"apiKey": "PARTNER_002", "apikey": "PARTNER_002", "bill.sendType": "BILL_008"}[field]
		switch {
		case code == "":
			code = `"VALIDATION_001"`
			if !strings.Contains(body, "("+field+")") {
				t.Errorf("%s: the field %s is not named: %s", path, field, body)
			}
		case path == "/auth/mapping", path == "/auth/merchant/mapping":
			code = "PARTNER_MAPPING_001" // a key that is not a string counts as missing
		}
		if !strings.Contains(body, code) {
			t.Errorf("%s %s: got %s, want %s", path, field, body, code)
		}
	}
	for _, form := range forms {
		for _, op := range billOps {
			q := newCall(form, op)
			for _, name := range optional[form+" "+op] {
				q = q.with(name, "1")
			}
			path, body := q.encode()
			var root map[string]any
			if err := json.Unmarshal([]byte(body), &root); err != nil {
				t.Fatal(err)
			}
			inner, _ := root["bill"].(map[string]any)
			for _, at := range []struct {
				in     map[string]any
				prefix string
			}{{root, ""}, {inner, "bill."}} {
				for name, value := range at.in {
					if name == "bill" {
						continue
					}
					at.in[name] = []int{1}
					_, got := r.post(path, encode(root))
					refused(t, path, got, at.prefix+name)
					at.in[name] = value
				}
			}
		}
	}
	for path, call := range subBusiness {
		call = maps.Clone(call)
		for _, name := range optional[path] {
			call[name] = "1234567890"
		}
		for name, value := range call {
			call[name] = 1
			_, got := r.post(path, encode(call))
			refused(t, path, got, name)
			call[name] = value
		}
	}
	if len(r.Bills()) != 0 {
		t.Errorf("bills were made: %s", encode(r.Bills()))
	}
}

// A field that the operation does not have is ignored, whatever its type, also if another operation has it.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	names := []string{
		"memberId", "merchantId", "memberIdx", "temporaryMerchantCd", "businessNumber", "callbackUrl", "redirectUrl", "member", "merchant",
		"apiKey", "apikey", "bill", "billId", "bill_id", "sendType", "billIssuer", "bill_issuer", "productName", "product_nm", "price", "supplyPrice",
		"tax", "memberName", "member_nm", "phone", "message", "expireDt", "expire_dt", "hash", "callbackURL", "pageRedirectUrl", "cancelReason", "another",
	}
	crowd := func(object map[string]any, on string) {
		for _, name := range names {
			if _, has := object[name]; !has && !slices.Contains(optional[on], name) {
				object[name] = []int{1}
			}
		}
	}
	for _, form := range forms {
		for _, op := range billOps {
			on := form + " " + op
			t.Run(on, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{})
				r.prepare(on, "", "")
				path, body := newCall(form, op).encode()
				var root map[string]any
				if err := json.Unmarshal([]byte(body), &root); err != nil {
					t.Fatal(err)
				}
				inner, nested := root["bill"].(map[string]any)
				crowd(root, on)
				if nested {
					crowd(inner, on)
				}
				if _, got := r.post(path, encode(root)); codeOf(t, form, got) != "0000" {
					t.Error(got)
				}
			})
		}
	}
	for path, call := range subBusiness {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			call := maps.Clone(call)
			crowd(call, path)
			if _, got := start(t, sandbox.Options{}).post(path, encode(call)); codeOf(t, "v2", got) != "0000" {
				t.Error(got)
			}
		})
	}
}
