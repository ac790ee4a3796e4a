package proxy_test

import (
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// A refusedCall is a call that the service refuses by its own rules, or that the gateway refuses because an upstream of
// the other form could not see the error.
type refusedCall struct {
	name, code string
	ops        []string
	state      string // of the bill before the call
	edit       func(call) call
	only       string // the form in which the call is possible; empty: both
	byGateway  bool   // between different forms the gateway refuses it, and the upstream gets nothing
}

func withField(name string, v any) func(call) call {
	return func(q call) call { return q.with(name, v) }
}

func refusedCalls() []refusedCall {
	long := strings.Repeat("가", 61)
	return []refusedCall{
		{name: "no key", code: "PARTNER_002", ops: operations, edit: withField("apiKey", "")},
		{name: "unknown key", code: "PARTNER_003", ops: operations, edit: withField("apiKey", "nobody")},
		{name: "no contract", code: "PARTNER_006", ops: operations, edit: withField("apiKey", "demo-expired-key")},
		{name: "not granted", code: "PARTNER_007", ops: operations, edit: withField("apiKey", "demo-nobill-key")},
		{name: "unknown store", code: "PARTNER_003", ops: operations, edit: func(q call) call {
			return q.with("apiKey", "demo-strict-key").with("merchant", "elsewhere")
		}},
		{name: "member of 61", code: "VALIDATION_001", ops: operations, edit: withField("member", long)},
		{name: "no bill", code: "BILL_003", ops: []string{"resend", "read", "destroy", "cancel"}},
		{name: "wrong hash", code: "VALIDATION_002", ops: []string{"create"}, edit: withField("hash", strings.Repeat("0", 64))},
		{name: "wrong hash", code: "VALIDATION_002", ops: []string{"destroy"}, state: "W", edit: withField("hash", strings.Repeat("0", 64))},
		{name: "wrong hash", code: "VALIDATION_002", ops: []string{"cancel"}, state: "F", edit: withField("hash", strings.Repeat("0", 64))},
		{name: "part of the amount", code: "VALIDATION_001", ops: []string{"destroy"}, state: "W", edit: withField("price", "29999")},
		{name: "no talk", code: "BILL_009", ops: []string{"create"}, edit: withField("apiKey", "demo-notalk-key")},
		{name: "no points", code: "POINT_001", ops: []string{"create"}, edit: withField("apiKey", "demo-nopoint-key")},
		{name: "long id", code: "BILL_007", ops: []string{"create"}, edit: withField("billId", "123456789012345678901")},
		{name: "price of 99", code: "PAYMENT_003", ops: []string{"create"}, edit: withField("price", "99")},
		{name: "price of 19999", code: "PAYMENT_005", ops: []string{"create"}, edit: withField("price", "19999")},
		{name: "land line", code: "VALIDATION_004", ops: []string{"create"}, edit: withField("phone", "0212345678")},
		{name: "used id", code: "BILL_001", ops: []string{"create"}, state: "W"},
		{name: "paid", code: "BILL_006", ops: []string{"resend"}, state: "F"},
		{name: "paid", code: "BILL_002", ops: []string{"destroy"}, state: "F"},
		{name: "cancelled", code: "BILL_002", ops: []string{"cancel"}, state: "C"},
		{name: "no send type", code: "BILL_008", ops: []string{"create"}, only: "v2", byGateway: true, edit: withField("sendType", nil)},
		{name: "another send type", code: "BILL_008", ops: []string{"create"}, only: "v2", byGateway: true, edit: withField("sendType", "talk")},
		{name: "url not contracted", code: "BILL_010", ops: []string{"create"}, only: "v2", byGateway: true, edit: func(q call) call {
			return q.with("apiKey", "demo-nourl-key").with("sendType", "URL")
		}},
	}
}

// Every code with which a call of a bill can be refused reaches the caller in its form, between all forms, with the
// status of the upstream, after one call and without a change at the service.
func TestRefusalsKeepTheirCodes(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for _, upstream := range forms {
			t.Run(client+"/"+upstream, func(t *testing.T) {
				t.Parallel()
				for _, s := range refusedCalls() {
					if s.only != "" && s.only != client {
						continue
					}
					for _, op := range s.ops {
						t.Run(op+"/"+s.name, func(t *testing.T) {
							t.Parallel()
							s.run(t, client, upstream, op)
						})
					}
				}
			})
		}
	}
}

func (s refusedCall) run(t *testing.T, client, upstream, op string) {
	service := newService()
	prepareBill(t, service, s.state, demoBill)
	stored, seen := encode(service.Bills()), service.Calls()["bill."+op]
	b := newGateway(t, oneUpstream(upstream, newBackend(t, service).url))
	q := newCall(client, op)
	if s.edit != nil {
		q = s.edit(q)
	}
	got := b.send(q)
	want, calls := wantAnswer{200, s.code}, 1
	if s.byGateway && client != upstream {
		want.status, calls = 400, 0
	}
	got.check(t, client, want.status, want.code)
	if seen = service.Calls()["bill."+op] - seen; seen != calls {
		t.Errorf("the upstream got %d calls, want %d", seen, calls)
	}
	if now := encode(service.Bills()); now != stored {
		t.Errorf("a refused call changed the bills:\n%s%s", stored, now)
	}
}

// Whatever code an upstream returns, the caller gets the same code in its form.
func TestCodesOfTheUpstreamPassThrough(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for _, upstream := range forms {
			t.Run(client+"/"+upstream, func(t *testing.T) {
				t.Parallel()
				service := newService()
				b := newGateway(t, oneUpstream(upstream, newBackend(t, service).url))
				for _, code := range append(sandbox.Catalogue()[1:], "9800", "NEW_CODE_1") {
					for _, op := range operations {
						service.Fault(sandbox.Fault{Operation: "bill." + op, Code: code})
						b.send(newCall(client, op)).check(t, client, 200, code)
					}
				}
			})
		}
	}
}
