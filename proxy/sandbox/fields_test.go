package sandbox_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

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
	r := start(t)
	refused := func(t *testing.T, path, body, field string) {
		t.Helper()
		code := map[string]string{"apiKey": "PARTNER_002", "apikey": "PARTNER_002", "bill.sendType": "BILL_008"}[field]
		switch {
		case code == "":
			code = `"VALIDATION_001"`
			has(t, body, "("+field+")", path, field)
		case path == "/auth/mapping", path == "/auth/merchant/mapping":
			code = "PARTNER_MAPPING_001" // a key that is not a string counts as missing
		}
		has(t, body, code, path, field)
	}
	for _, form := range forms {
		for _, op := range billOps {
			q := newCall(form, op)
			for _, name := range optional[form+" "+op] {
				q = q.with(name, "1")
			}
			path, body := q.encode()
			var root map[string]any
			must(t, json.Unmarshal([]byte(body), &root))
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
	equal(t, len(r.Bills()), 0, encode(r.Bills()))
}

// A field that the operation does not have is ignored, whatever its type, also if another operation has it.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	names := strings.Fields("memberId merchantId memberIdx temporaryMerchantCd businessNumber callbackUrl redirectUrl member merchant apiKey apikey bill billId bill_id sendType billIssuer bill_issuer productName " +
		"product_nm price supplyPrice tax memberName member_nm phone message expireDt expire_dt hash callbackURL pageRedirectUrl cancelReason another")
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
				r := start(t)
				r.prepare(on, "", "")
				path, body := newCall(form, op).encode()
				var root map[string]any
				must(t, json.Unmarshal([]byte(body), &root))
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
			if _, got := start(t).post(path, encode(call)); codeOf(t, "v2", got) != "0000" {
				t.Error(got)
			}
		})
	}
}
