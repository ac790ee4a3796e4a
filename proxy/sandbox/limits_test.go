package sandbox_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

var billOps = []string{"create", "resend", "read", "destroy", "cancel"}

// stateBefore is the state from which a bill operation succeeds.
var stateBefore = map[string]string{"resend": "W", "read": "W", "destroy": "W", "cancel": "F"}

// subBusiness are successful calls of the sub-business operations.
var subBusiness = map[string]map[string]any{
	"/auth/mapping":          {"apiKey": demoKey, "memberId": "demo-member", "merchantId": "demo-store", "callbackUrl": "https://partner.example.com/cb"},
	"/read/mapping":          {"apiKey": demoKey},
	"/auth/mapping/status":   {"apiKey": demoKey, "member": "demo-member", "merchant": "demo-store"},
	"/auth/merchant/mapping": {"apiKey": demoKey, "memberId": "demo-member", "merchantId": "demo-store"},
	"/read/merchant":         {"apiKey": demoKey},
}

// A value at a limit is accepted, and one past it has the code of the limit, on every operation it applies to ("Limits").
// Characters are counted, not bytes.
func TestLimits(t *testing.T) {
	t.Parallel()
	of := func(n int) []string { return []string{strings.Repeat("x", n), strings.Repeat("가", n)} }
	key := func(n int) []string { return []string{strings.Repeat("k", n)} } // a key cannot have Korean letters
	creates := []string{"v2 create", "legacy create"}
	var bills []string
	for _, form := range forms {
		for _, op := range billOps {
			bills = append(bills, form+" "+op)
		}
	}
	const status, register = "/auth/mapping/status", "/auth/mapping"
	all := slices.Concat(bills, slices.Sorted(maps.Keys(subBusiness)))
	if len(all) != 15 {
		t.Fatalf("%d operations", len(all))
	}
	rows := []struct {
		field    string
		on       []string
		at, past []string
		code     string // of a value past the limit
		env      sandbox.Environment
	}{
		{field: "apiKey", on: all, at: key(32), past: key(33), code: "PARTNER_002"},
		{field: "memberId", on: []string{register}, at: of(30), past: of(31), code: "VALIDATION_001"},
		{field: "merchantId", on: []string{register}, at: of(30), past: of(31), code: "VALIDATION_001"},
		{field: "member", on: append(bills, status), at: of(60), past: of(61), code: "VALIDATION_001"},
		{field: "merchant", on: append(bills, status), at: of(60), past: of(61), code: "VALIDATION_001"},
		{field: "member", on: []string{status}, at: of(1), past: of(0), code: "VALIDATION_001"},
		{field: "merchant", on: []string{status}, at: of(1), past: of(0), code: "VALIDATION_001"},
		{field: "billId", on: creates, at: append(of(20), "12345678901234567890"), past: append(of(21), "123456789012345678901"), code: "BILL_007"},
		{
			field: "businessNumber", on: []string{register}, at: []string{"1234567890", "0000000000"}, code: "PARTNER_MAPPING_002",
			past: []string{"123456789", "12345678901", "ABCDEFGHIJ", "123-45-678", "가나다라마바사아자차", "１２３４５６７８９０"},
		},
		{field: "price", on: creates, at: []string{"100"}, past: []string{"99"}, code: "PAYMENT_003", env: sandbox.Production},
		{field: "price", on: creates, at: []string{"20000"}, past: []string{"19999", "100"}, code: "PAYMENT_005", env: sandbox.Development},
		{field: "price", on: creates, past: []string{"99"}, code: "PAYMENT_003", env: sandbox.Development},
	}
	demo := sandbox.Merchant{MemberID: "demo-member", MerchantID: "demo-store"}
	stores := []sandbox.Merchant{demo}
	for _, n := range []int{0, 1, 60, 61} { // also past the limit, so that only the limit can refuse them
		for _, name := range of(n) {
			stores = append(stores, sandbox.Merchant{MemberID: name, MerchantID: demo.MerchantID}, sandbox.Merchant{MemberID: demo.MemberID, MerchantID: name})
		}
	}
	partners := []sandbox.Partner{{Key: demoKey, Merchants: stores}}
	for _, n := range []int{32, 33} {
		partners = append(partners, sandbox.Partner{Key: key(n)[0], Merchants: stores})
	}
	for _, row := range rows {
		for _, on := range row.on {
			t.Run(row.field+"/"+row.code+"/"+on, func(t *testing.T) {
				t.Parallel()
				for _, value := range row.at {
					r := start(t, sandbox.Options{Partners: partners, Environment: row.env})
					r.prepare(on, row.field, value)
					gives(t, "0000", value)(r.callWith(on, row.field, value))
				}
				r := start(t, sandbox.Options{Partners: partners, Environment: row.env})
				r.prepare(on, "", "")
				_, mapped := r.ctl("GET", "/partners", "")
				before := encode(r.Bills()) + mapped
				for _, value := range row.past {
					gives(t, row.code, value)(r.callWith(on, row.field, value))
				}
				if _, mapped = r.ctl("GET", "/partners", ""); encode(r.Bills())+mapped != before {
					t.Error("a refusal changed the store")
				}
			})
		}
	}
}

// callWith makes a call of an operation with another value of a field.
func (r *rig) callWith(on, field, value string) (code, body string) {
	r.t.Helper()
	if call, ok := subBusiness[on]; ok {
		call = maps.Clone(call)
		call[field] = value
		_, body = r.post(on, encode(call))
		return codeOf(r.t, "v2", body), body
	}
	form, op, _ := strings.Cut(on, " ")
	return r.do(newCall(form, op).with(field, value))
}

// prepare creates the bill for an operation, with the same value.
func (r *rig) prepare(on, field, value string) {
	r.t.Helper()
	_, op, _ := strings.Cut(on, " ")
	if stateBefore[op] == "" {
		return
	}
	q := newCall("v2", "create")
	if field != "" {
		q = q.with(field, value)
	}
	r.must(q)
	if stateBefore[op] == "F" {
		must(r.t, r.Pay(q.key, billID))
	}
}
