package sandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// A controlStep is a request to the control API, with the expected status and a part of the expected body.
type controlStep struct {
	method, path, body string
	status             int
	want               string
}

func (r *rig) runControl(steps ...controlStep) {
	r.t.Helper()
	for _, step := range steps {
		status, body := r.ctl(step.method, step.path, step.body)
		if status != step.status || !strings.Contains(body, step.want) {
			r.t.Errorf("%s %s %s: got %d %s, want %d %s", step.method, step.path, step.body, status, body, step.status, step.want)
		}
		if status != http.StatusOK && !strings.HasPrefix(body, `{"error":"`) {
			r.t.Errorf("%s %s %s: a refusal without its reason: %s", step.method, step.path, step.body, body)
		}
	}
}

// A failed payment leaves the bill unpaid and is recorded.
func TestControlFailLeavesTheBillUnpaid(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.must(newCall("legacy", "create"))
	const fail = "/bills/" + billID + "/fail"
	r.runControl(
		controlStep{"POST", fail, "", 200, `"code":"PAYMENT_001"}]`},
		controlStep{"POST", fail, `{"code":"BILL_004"}`, 200, `"state":"W"`},
		controlStep{"POST", fail, `{"partner":"demo-partner-key","code":"PAYMENT_004"}`, 200, `"state":"W"`},
		controlStep{"POST", fail, `{"code":"PAYMENT_002"}`, 400, "PAYMENT_002"}, // for cancels only
		controlStep{"POST", fail, `{"code":"0000"}`, 400, "0000"},
		controlStep{"POST", fail, `{"code":""}`, 400, "PAYMENT_001, PAYMENT_004, BILL_004"},
		controlStep{"POST", fail, `{"why":"PAYMENT_001"}`, 400, "why"},
		controlStep{"POST", fail, `{"partner":"nobody"}`, 404, "no such bill"},
		controlStep{"POST", "/bills/NONE/fail", "", 404, "no such bill"},
		controlStep{"GET", fail, "", 405, ""},
	)
	b, err := r.Bill(demoKey, billID)
	if err != nil || b.State != "W" || b.Approval != nil {
		t.Fatalf("%v %+v", err, b)
	}
	var codes []string
	for _, f := range b.Failed {
		codes = append(codes, f.Code)
	}
	if got := strings.Join(codes, " "); got != "PAYMENT_001 BILL_004 PAYMENT_004" {
		t.Errorf("the bill remembers %s", got)
	}
	if body := r.must(newCall("legacy", "read")); !strings.Contains(body, `"appr_state":"W"`) || !strings.Contains(body, `"appr_num":""`) {
		t.Errorf("a read shows a payment that failed: %s", body)
	}
	if got := r.Callbacks(); len(got) != 0 {
		t.Errorf("a payment that failed has a callback: %+v", got)
	}
	// The customer pays again.
	r.runControl(
		controlStep{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
		controlStep{"POST", fail, "", 409, "its state is F"},
	)
	r.must(newCall("v2", "cancel"))
	r.runControl(controlStep{"POST", fail, "", 409, "its state is C"})
	if b, _ := r.Bill(demoKey, billID); len(b.Failed) != 3 {
		t.Errorf("a refused request is on the bill's record: %+v", b.Failed)
	}
}

func TestControlNetworksRejectsInvalidRequests(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.createInState("W")
	r.runControl(
		controlStep{"POST", "/networks", `{"code":"PAYMENT_001","count":3}`, 200, `{"code":"PAYMENT_001","count":3}`},
		controlStep{"POST", "/networks", `{"code":"PAYMENT_003"}`, 400, "PAYMENT_003"}, // not a code of card networks
		controlStep{"POST", "/networks", `{"code":"payment_001"}`, 400, "PAYMENT_002"},
		controlStep{"POST", "/networks", `{}`, 400, "PAYMENT_001"},
		controlStep{"POST", "/networks", `{"code":"PAYMENT_001","times":1}`, 400, "times"},
		controlStep{"POST", "/networks", `{"code":"PAYMENT_001","count":"1"}`, 400, "count"},
		controlStep{"GET", "/networks", "", 405, ""},
		controlStep{"DELETE", "/faults", "", 200, ""}, // removes them too
		controlStep{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
	)
}

// The lookup by transaction id finds paid and cancelled bills, with the fields of a v2 read.
func TestControlFindsBillsByTransaction(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.must(newCall("v2", "create").with("billId", "UNPAID"))
	r.must(newCall("legacy", "create"))
	none := controlStep{"GET", "/transactions/TX000000000001", "", 200, `{"code":"BILL_005","message":"요청하신 거래 번호의 청구서를 찾을 수 없습니다.","data":null}`}
	r.runControl(none)
	r.runControl(controlStep{"POST", "/bills/" + billID + "/pay", "", 200, `"tx_id":"TX000000000001"`})
	for _, step := range []func(){func() {}, func() { r.must(newCall("legacy", "cancel")) }} {
		step()
		r.runControl(controlStep{"GET", "/transactions/TX000000000001", "", 200, r.must(newCall("v2", "read"))})
	}
	r.runControl(
		controlStep{"GET", "/transactions/TX00000000000", "", 200, `"BILL_005"`},
		controlStep{"GET", "/transactions/tx000000000001", "", 200, `"BILL_005"`},
		controlStep{"GET", "/transactions/", "", 404, ""},
		controlStep{"POST", "/transactions/TX000000000001", "", 405, ""},
	)
}

// A bill without a payment has no callback to send again.
func TestControlNotifyNeedsACallback(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.createInState("W")
	r.runControl(
		controlStep{"POST", "/bills/" + billID + "/notify", "", 404, "no such bill with a callback"},
		controlStep{"POST", "/bills/NONE/notify", "", 404, "no such bill"},
		controlStep{"POST", "/bills/" + billID + "/notify", `{"bill":"x"}`, 400, "bill"},
	)
}

func TestControlSetsPoints(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{Partners: []sandbox.Partner{{Key: demoKey, Prepaid: true, Points: 7}}})
	if got := r.points(); got != 7 {
		t.Errorf("%d points", got)
	}
	r.runControl(
		controlStep{"POST", "/points", `{"partner":"demo-partner-key","points":2}`, 200, `"points":2`},
		controlStep{"POST", "/points", `{"partner":"nobody","points":3}`, 404, "no such partner"},
		controlStep{"POST", "/points", `{"points":3}`, 404, "no such partner"},
		controlStep{"POST", "/points", `{"partner":"demo-partner-key","points":"3"}`, 400, "points"},
		controlStep{"POST", "/points", `{"partner":"demo-partner-key","points":1.5}`, 400, "points"},
		controlStep{"POST", "/points", `{"partner":"demo-partner-key","pints":3}`, 400, "pints"},
	)
	if got := r.points(); got != 2 {
		t.Errorf("%d points", got)
	}
}
