package proxy_test

import (
	"net/http"
	"strings"
	"testing"
)

// A success that names another bill, from an upstream that mixes up its replies, is not passed on: it is no answer, and
// the outcome of a write is unknown. A refusal names no bill and is passed on.
func TestR45_SuccessForAnotherBillIsNoAnswer(t *testing.T) {
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
					want = wantAnswer{502, "ERROR"} // also with always-200
				}
				got.check(t, client, want.status, want.code)
				if strings.Contains(got.body, "other-") || strings.Contains(got.body, "9999") {
					t.Errorf("%s %s over %s shows another's reply: %s", client, op, upstream, got.body)
				}
			}
		}
	}
}

// R45: neither is a success with another partner's key, though its bill is right. In a probe it steers no create.
func TestR45_SuccessOfAnotherPartnerIsNoAnswer(t *testing.T) {
	t.Parallel()
	reply := func(upstream string) string {
		return map[string]string{
			"v2":     `{"code":"0000","message":"ok","data":{"apiKey":"other-key","billId":"` + demoBill + `","hash":"other-hash","apprState":"W"}}`,
			"legacy": `{"code":"0000","msg":"ok","apikey":"other-key","bill_id":"` + demoBill + `","hash":"other-hash","appr_state":"W"}`,
		}[upstream]
	}
	for _, upstream := range forms {
		b := newGateway(t, oneUpstream(upstream, newBackend(t, replyWith(200, reply(upstream))).url))
		for _, client := range forms {
			for _, op := range operations {
				if upstream == "legacy" && op == "resend" {
					continue // its reply has only code and msg
				}
				got := b.send(newCall(client, op))
				got.check(t, client, 502, map[bool]string{true: "null", false: "ERROR"}[isWrite(op)])
				if strings.Contains(got.body, "other-") {
					t.Errorf("%s %s over %s shows another's reply: %s", client, op, upstream, got.body)
				}
			}
		}
	}
	m := newRolloutWith(t, "legacy", "v2", "new", func(backendName string, service http.Handler) http.Handler {
		if backendName == "old" {
			return replyWith(200, reply("legacy"))
		}
		return service
	}, "")
	m.send(newCall("v2", "create")).check(t, "v2", 503, "MAINTAINED_METHOD")
	if n := writesOf(m.oldCalls) + writesOf(m.newCalls); n != 0 {
		t.Errorf("%d writes were sent", n)
	}
}
