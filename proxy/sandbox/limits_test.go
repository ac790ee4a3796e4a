package sandbox_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"billbridge/proxy/proxytest"
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
	bills := []string{}
	for _, form := range forms {
		for _, op := range billOps {
			bills = append(bills, form+" "+op)
		}
	}
	groups := map[string][]string{
		"bills": bills, "creates": {"v2 create", "legacy create"}, "all": slices.Concat(bills, slices.Sorted(maps.Keys(subBusiness))),
	}
	equal(t, len(groups["all"]), 15, "operations")
	demo := sandbox.Merchant{MemberID: "demo-member", MerchantID: "demo-store"}
	stores := []sandbox.Merchant{demo}
	for _, n := range []int{0, 1, 60, 61} { // also past the limit, so that only the limit can refuse them
		for _, name := range valuesOf(fmt.Sprintf("x*%d 가*%d", n, n)) {
			stores = append(stores, sandbox.Merchant{MemberID: name, MerchantID: demo.MerchantID}, sandbox.Merchant{MemberID: demo.MemberID, MerchantID: name})
		}
	}
	partners := []sandbox.Partner{{Key: demoKey, Merchants: stores}}
	for _, n := range []int{32, 33} {
		partners = append(partners, sandbox.Partner{Key: strings.Repeat("k", n), Merchants: stores})
	}
	for _, row := range proxytest.Rows(t, "testdata/rows/limits.txt") {
		field, code, o := row[0], row[4], sandbox.Options{Partners: partners, Environment: sandbox.Environment(row[5])}
		var operations []string
		for name := range strings.FieldsSeq(row[1]) {
			if groups[name] == nil {
				groups[name] = []string{name}
			}
			operations = append(operations, groups[name]...)
		}
		for _, on := range operations {
			t.Run(field+"/"+code+"/"+on, func(t *testing.T) {
				t.Parallel()
				for _, value := range valuesOf(row[2]) {
					r := start(t, o)
					r.prepare(on, field, value)
					gives(t, "0000", value)(r.callWith(on, field, value))
				}
				r := start(t, o)
				r.prepare(on, "", "")
				_, mapped := r.ctl("GET", "/partners", "")
				before := encode(r.Bills()) + mapped
				for _, value := range valuesOf(row[3]) {
					gives(t, code, value)(r.callWith(on, field, value))
				}
				if _, mapped = r.ctl("GET", "/partners", ""); encode(r.Bills())+mapped != before {
					t.Error("a refusal changed the store")
				}
			})
		}
	}
}

// valuesOf returns the values of a cell: x*20 is x twenty times.
func valuesOf(cell string) (list []string) {
	for word := range strings.FieldsSeq(cell) {
		letter, times, repeated := strings.Cut(word, "*")
		if n, err := strconv.Atoi(times); repeated && err == nil {
			word = strings.Repeat(letter, n)
		}
		list = append(list, word)
	}
	return list
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
