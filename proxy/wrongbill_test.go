package proxy_test

import (
	"strings"
	"testing"
)

// A success that names another bill, from an upstream that mixes up its replies, is not passed on: it is no answer, and
// the outcome of a write is unknown. A refusal names no bill and is passed on.
func TestSuccessForAnotherBillIsNoAnswer(t *testing.T) {
	t.Parallel()
	replies := map[string]string{
		"v2":     `{"code":"0000","message":"ok","data":{"apiKey":"other-key","billId":"99999999999999999999","hash":"other-hash","apprState":"F"}}`,
		"legacy": `{"code":"0000","msg":"ok","apikey":"other-key","bill_id":"99999999999999999999","hash":"other-hash","appr_state":"F"}`,
	}
	for upstream, reply := range replies {
		back := newBackend(t, replyWith(200, reply))
		b := newGateway(t, oneUpstream(upstream, back.url, "failures: {status: always-200}"))
		for _, client := range forms {
			for _, op := range operations {
				if upstream == "legacy" && op == "resend" {
					continue // its reply has only code and msg
				}
				q := newCall(client, op)
				got := b.send(q)
				want := wantAnswer{502, "null"}
				if !isWrite(op) {
					want = wantAnswer{200, "ERROR"} // always-200
				}
				got.check(t, client, want.status, want.code)
				if strings.Contains(got.body, "other-") || strings.Contains(got.body, "9999") {
					t.Errorf("%s %s over %s shows another's reply: %s", client, op, upstream, got.body)
				}
			}
		}
	}
}
