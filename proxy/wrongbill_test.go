package proxy_test

import (
	"net/http"
	"strings"
	"testing"
)

// A success that names another bill, or the key of another partner, is no answer, and the outcome of a write is
// unknown. In a probe it steers no create. Refusals name neither and are passed on.
func TestR45_SuccessOfAnotherBillOrPartnerIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, other := range [][2]string{{"other-key", "99999999999999999999"}, {"other-key", demoBill}, {demoKey, "99999999999999999999"}} {
		words := strings.NewReplacer("KEY", other[0], "BILL", other[1])
		replies := map[string]http.Handler{
			"v2":     replyWith(200, words.Replace(`{"code":"0000","message":"ok","data":{"apiKey":"KEY","billId":"BILL","hash":"other-hash","apprState":"F"}}`)),
			"legacy": replyWith(200, words.Replace(`{"code":"0000","msg":"ok","apikey":"KEY","bill_id":"BILL","hash":"other-hash","appr_state":"F"}`)),
		}
		for upstream, reply := range replies {
			b := newGatewayTo(t, upstream, newBackend(t, reply), "failures: {status: always-200}")
			for _, client := range forms {
				for _, op := range operations {
					if upstream == "legacy" && op == "resend" {
						continue // its reply has only code and msg
					}
					b.expect(newCall(client, op), wantAnswer{502, map[bool]string{true: "null", false: "ERROR"}[isWrite(op)]}, "!other-", "!9999")
				}
			}
		}
		m := newRolloutWith(t, "new", at("old", replies["legacy"]), "")
		m.expect(v2("create"), refused)
		equal(t, m.oldCalls.writes()+m.newCalls.writes(), 0)
	}
}
