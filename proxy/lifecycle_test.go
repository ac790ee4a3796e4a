package proxy_test

import (
	"maps"
	"testing"

	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lifecycleDifferences are the declared differences between an answer through the gateway and the service's own answer
// in the form of the caller. The reasons are in the table beside the rows.
var lifecycleDifferences = map[string]map[string]any{
	// No public document pairs the words of legacy with the numbers of v2. The number 0 is a payment method.
	"legacy from v2 read W": {"appr_pay_type": "0"},
	"legacy from v2 read D": {"appr_pay_type": "0"},
	"legacy from v2 read F": {"appr_pay_type": "1"},
	"legacy from v2 read C": {"appr_pay_type": "1"},
	"v2 from legacy read W": {"apprPayType": ""},
	"v2 from legacy read D": {"apprPayType": ""},
	"v2 from legacy read F": {"apprPayType": "CARD_VAN"},
	"v2 from legacy read C": {"apprPayType": "CARD_VAN"},
}

// v2Only are the fields of a v2 read that a legacy upstream does not have.
var v2Only = []string{"apprCardMerchantNum", "dscTxNum", "cardType", "apprSign", "udItem"}

// Two bills go from their create to their end through the gateway, between all forms. Every answer must equal, field by
// field, the answer of the service itself in the form of the caller.
func TestBillLifecycle(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for _, upstream := range forms {
			t.Run(client+" from "+upstream, func(t *testing.T) {
				t.Parallel()
				behindGateway, directService := newService(), newService()
				through := newGateway(t, oneUpstream(upstream, newBackend(t, behindGateway).url))
				direct := newGateway(t, oneUpstream(client, newBackend(t, directService).url))
				direct.url = newBackend(t, directService).url
				for _, bill := range []struct {
					billID string
					ops    []string
				}{
					{"1234567890ABCDEFGHIJ", []string{"create", "read W", "resend", "pay", "read F", "cancel", "read C"}},
					{"1234567890JIHGFEDCBA", []string{"create", "resend", "read W", "destroy", "read D"}},
				} {
					for _, op := range bill.ops {
						if op == "pay" {
							for _, s := range []*sandbox.Service{behindGateway, directService} {
								if err := s.Pay(demoKey, bill.billID); err != nil {
									t.Fatal(err)
								}
							}
							continue
						}
						name := op
						if op[:4] == "read" {
							name = "read"
						}
						q := newCall(client, name).with("billId", bill.billID)
						got := through.send(q)
						got.check(t, client, 200, "0000")
						want := result(t, client, direct.send(q).body)
						if client == "v2" && upstream == "legacy" && name == "read" {
							for _, field := range v2Only {
								delete(want, field)
							}
						}
						maps.Copy(want, lifecycleDifferences[client+" from "+upstream+" "+op])
						if diff := cmp.Diff(want, result(t, client, got.body)); diff != "" {
							t.Errorf("%s (-the service itself, +through the gateway):\n%s", op, diff)
						}
					}
				}
				through.checkMetrics(`billbridge_requests_in_flight{upstream="up"} 0`)
				if a, b := encode(billsWithoutForm(behindGateway)), encode(billsWithoutForm(directService)); a != b {
					t.Errorf("the service behind the gateway has other bills than the direct one:\n%s%s", a, b)
				}
			})
		}
	}
}

// billsWithoutForm returns the bills of a service without the form of their create.
func billsWithoutForm(s *sandbox.Service) []sandbox.Bill {
	all := s.Bills()
	for i := range all {
		all[i].Form = ""
	}
	return all
}

// result returns an answer as one flat map: for v2 the fields of data together with code and message.
func result(t rapid.TB, form, body string) map[string]any {
	t.Helper()
	m := fields(t, body)
	if form == "v2" {
		data, _ := m["data"].(map[string]any)
		delete(m, "data")
		maps.Copy(m, data)
	}
	return m
}
