package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// runControl makes requests to the control API, one a line: method, path and body, and after > the status and a part of the
// answer. {bill} is the bill of newCall.
func (r *rig) runControl(requests string) {
	r.t.Helper()
	for line := range strings.Lines(strings.TrimSpace(strings.ReplaceAll(requests, "{bill}", billID))) {
		request, answer, _ := strings.Cut(strings.TrimSpace(line), " > ")
		words := append(strings.SplitN(request, " ", 3), "")
		want, part, _ := strings.Cut(answer, " ")
		status, body := r.ctl(words[0], words[1], words[2])
		if fmt.Sprint(status) != want || !strings.Contains(body, part) {
			r.t.Errorf("%s: got %d %s, want %s", request, status, body, answer)
		}
		if status != http.StatusOK && !strings.HasPrefix(body, `{"error":"`) {
			r.t.Errorf("%s: a refusal without its reason: %s", request, body)
		}
	}
}

// A declined payment leaves the bill unpaid and is recorded. The fault is for payments alone, and for those of its partner and bill.
func TestDeclinedPaymentLeavesTheBillUnpaid(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.must(newCall("legacy", "create"))
	r.runControl(`
		POST /faults {"operation":"payment","code":"PAYMENT_001","partner":"demo-strict-key"} > 200
		POST /faults {"operation":"payment","code":"PAYMENT_001","bill":"OTHER"} > 200
		POST /faults {"operation":"payment","code":"PAYMENT_001"} > 200 "code":"PAYMENT_001"
		POST /faults {"operation":"payment","code":"BILL_004","bill":"{bill}"} > 200
		POST /faults {"code":"MAINTAINED_METHOD"} > 200
		POST /faults {"operation":"payment"} > 400 a payment needs a code
		POST /faults {"operation":"payment","code":"PAYMENT_001","drop":true} > 400 has nothing else
		POST /bills/{bill}/pay > 409 PAYMENT_001
		POST /bills/{bill}/pay > 409 BILL_004
		GET /bills/{bill} > 200 "state":"W"
	`)
	gives(t, "MAINTAINED_METHOD", "the fault of a call")(r.do(newCall("v2", "read")))
	b, err := r.Bill(demoKey, billID)
	if err != nil || b.State != "W" || b.Approval != nil {
		t.Fatalf("%v %+v", err, b)
	}
	var codes []string
	for _, f := range b.Failed {
		codes = append(codes, f.Code)
	}
	equal(t, strings.Join(codes, " "), "PAYMENT_001 BILL_004", "the bill remembers")
	if body := r.must(newCall("legacy", "read")); !strings.Contains(body, `"appr_state":"W"`) || !strings.Contains(body, `"appr_num":""`) {
		t.Errorf("a read shows a payment that failed: %s", body)
	}
	if got := r.Callbacks(); len(got) != 0 {
		t.Errorf("a payment that failed has a callback: %+v", got)
	}
	// The customer pays again.
	r.runControl(`POST /bills/{bill}/pay > 200 "state":"F"`)
	equal(t, len(r.Faults()), 2, "the faults of another partner and bill wait")
}

// The lookup by transaction id finds paid and cancelled bills, with the fields of a v2 read.
func TestControlFindsBillsByTransaction(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.must(newCall("v2", "create").with("billId", "UNPAID"))
	r.must(newCall("legacy", "create"))
	r.runControl(`GET /transactions/TX000000000001 > 200 {"code":"BILL_005","message":"요청하신 거래 번호의 청구서를 찾을 수 없습니다.","data":null}`)
	r.runControl(`POST /bills/{bill}/pay > 200 "tx_id":"TX000000000001"`)
	for _, step := range []func(){func() {}, func() { r.must(newCall("legacy", "cancel")) }} {
		step()
		r.runControl("GET /transactions/TX000000000001 > 200 " + r.must(newCall("v2", "read")))
	}
	r.runControl(`
		GET /transactions/TX00000000000 > 200 "BILL_005"
		GET /transactions/tx000000000001 > 200 "BILL_005"
		GET /transactions/ > 404
		POST /transactions/TX000000000001 > 405
	`)
}

// A bill without a payment has no callback to send again.
func TestControlNotifyNeedsACallback(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.createInState("W")
	r.runControl(`
		POST /bills/{bill}/notify > 404 no such bill with a callback
		POST /bills/NONE/notify > 404 no such bill
		POST /bills/{bill}/notify {"bill":"x"} > 400 bill
	`)
}

func TestControlSetsPoints(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{Partners: []sandbox.Partner{{Key: demoKey, Prepaid: true, Points: 7}}})
	equal(t, r.points(), 7, "points")
	r.runControl(`
		POST /points {"partner":"demo-partner-key","points":2} > 200 "points":2
		POST /points {"partner":"nobody","points":3} > 404 no such partner
		POST /points {"points":3} > 404 no such partner
		POST /points {"partner":"demo-partner-key","points":"3"} > 400 points
		POST /points {"partner":"demo-partner-key","points":1.5} > 400 points
		POST /points {"partner":"demo-partner-key","pints":3} > 400 pints
	`)
	equal(t, r.points(), 2, "points")
}

// A bill expires, and is cancelled without the partner, in its state only; with the option a cancel has a callback.
func TestControlExpiresAndCancels(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{CallbackCancelDestroy: true})
	r.must(newCall("v2", "create"))
	r.runControl(`
		POST /bills/{bill}/cancel > 409 the bill is in another state: its state is W, not F
		POST /bills/{bill}/expire {"partner":"nobody"} > 404 no such bill
		POST /bills/{bill}/expire > 200 "expire_dt":"2026-03-01"
		POST /bills/{bill}/pay > 409 it expired on 2026-03-01
	`)
	r.must(newCall("v2", "create").with("billId", "PAID"))
	r.runControl(`
		POST /bills/PAID/pay > 200 "state":"F"
		POST /bills/PAID/expire > 409 its state is F, not W
		POST /bills/PAID/cancel > 200 "state":"C"
		POST /bills/PAID/cancel > 409 its state is C, not F
		GET /callbacks?bill=PAID > 200 "bill_state":"C"
	`)
	has(t, r.must(newCall("v2", "read").with("billId", "PAID")), `"apprState":"C"`)
}
