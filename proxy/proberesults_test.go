package proxy_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A caller whom both backends refuse gets the refusal of the backend that its stage selects, and not
// MAINTAINED_METHOD, after which clients try again. Only reads are sent, and the creates of stage old.
func TestCallRefusedByBothBackends(t *testing.T) {
	t.Parallel()
	for code, final := range map[string]bool{
		"PARTNER_003": true, "PARTNER_006": true, "PARTNER_007": true, "VALIDATION_001": true, "ERROR": false, "OWN_CODE": false,
	} {
		for _, stage := range []string{"old", "new"} {
			parallel(t, code+"/"+stage, func(t *testing.T) {
				m := newRolloutWith(t, stage, func(backend string, _ http.Handler) http.Handler {
					return refuseWith(map[string]string{"old": "legacy", "new": "v2"}[backend], code, backend+" says no")
				}, "")
				script := "refused v2,legacy resend,read,destroy,cancel" // stage old sends a create without a probe
				if final {
					script = "200:CODE v2,legacy create,resend,read,destroy,cancel | STAGE says no" + // neither backend has got the call
						"\nmetric billbridge_requests_total{client=\"v2\",code=\"CODE\",operation=\"bill.read\",status=\"200\",upstream=\"none\"} 1"
				}
				play(m, script, "CODE", code, "STAGE", stage)
				for _, got := range append(m.oldCalls.received(), m.newCalls.received()...) {
					if !strings.HasSuffix(got.target, "/read") && (stage != "old" || !strings.HasSuffix(got.target, "/send")) {
						t.Errorf("%s was sent", got.target)
					}
				}
			})
		}
	}
}

// A success that contains no bill shows neither that a backend has the bill nor that it does not.
func TestSuccessWithoutABillDoesNotShowTheBill(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"code":"0000","message":"ok","data":null}`, `{"code":"0000","message":"ok","data":{}}`, `{"code":"0000","message":"ok","data":{"billId":"` + demoBill + `"}}`} {
		m := newRolloutWith(t, "old", at("new", replyWith(200, body)), "")
		play(m, "refused v2 read,destroy,read")
		_, err := m.owner()
		equal(t, errors.Is(err, store.ErrNotFound), true, body, err)
		m.expect(v2("create"), success)
		equal(t, len(m.old.Bills()), 1, body)
	}
}

// PAYMENT_001 and PAYMENT_002 say that a response was missing, POINT_001 that the bill could not be sent to its
// customer. The bill may exist, so it stays pending at this backend, and the other one must not get it.
func TestCreateCodesThatKeepTheBillPending(t *testing.T) {
	t.Parallel()
	const pending, released = "PAYMENT_001 PAYMENT_002 ERROR MAINTAINED_METHOD OWN_CODE BILL_001 POINT_001", " VALIDATION_002 BILL_009"
	for code := range strings.FieldsSeq(pending + released) {
		parallel(t, code, func(t *testing.T) {
			m := newRolloutWith(t, "new", at("new", replyWith(200, `{"code":"`+code+`","message":"no","data":null}`)), "")
			m.expect(v2("create"), wantAnswer{200, code})
			row := m.waitForOwner(func(o proxytest.Owner) bool { return o.Open == 0 })
			equal(t, row.State, map[bool]ledger.Ownership{true: ledger.Pending, false: ledger.Released}[strings.Contains(pending, code)], row)
		})
	}
}

// After a create without an answer, a reply that shows the bill makes its backend the owner.
func TestReadConfirmsAnUnknownCreate(t *testing.T) {
	t.Parallel()
	// What shows the bill. BILL_001 does not say which partner has the bill.
	for _, row := range tableOf(t) {
		parallel(t, row[0], func(t *testing.T) {
			m := newRolloutGateway(t, "old")
			// The ledger has the outcome before the line of the log is written.
			play(m, "fault old {\"truncate\":true}\nunknown v2 create\n"+row[1]+"\nlogged operation=bill.create\nlogged upstream=old")
			o, err := m.owner()
			if err != nil || string(o.State) != row[2] || o.Upstream != "old" || o.Open != 0 {
				t.Errorf("the ledger has %+v, %v", o, err)
			}
		})
	}
}

// A code with an HTTP status that contradicts it says nothing for certain, to probes, reads of operators and the
// ledger.
func TestStatusThatContradictsTheCodeIsNoClearAnswer(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	play(m, `
fault old {"count":1000,"status":500,"body":"{\"code\":\"BILL_003\",\"msg\":\"no such bill\"}"}
fault new {"operation":"bill.create","status":500,"body":"{\"code\":\"0000\",\"message\":\"ok\",\"data\":{\"billId\":\"1234567890ABCDEFGHIJ\"}}"}
refused v2 create
refused legacy read,destroy`)
	m.adminPost(200, "/rollout/read?bill="+demoBill, `{"key":"`+demoKey+`"}`, "no clear answer")
	play(m, `
200 POST /rollout/stage?partner=default&stage=drained&by=anna&{forced}
500:0000 v2 create`)
	m.waitForOwner(func(o proxytest.Owner) bool { return o.State == ledger.Pending && o.Uncertain })
}
