package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// A told is a request of the control surface, its status and a part of its reply.
type told struct {
	method, path, body string
	status             int
	want               string
}

func (r *rig) tell(steps ...told) {
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

// TestControlFailsPayments: a payment that fails leaves the bill unpaid and on
// its record, and nothing else.
func TestControlFailsPayments(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.must(newAsk("legacy", "create"))
	const fail = "/bills/" + billID + "/fail"
	r.tell(
		told{"POST", fail, "", 200, `"code":"PAYMENT_001"}]`},
		told{"POST", fail, `{"code":"BILL_004"}`, 200, `"state":"W"`},
		told{"POST", fail, `{"partner":"demo-partner-key","code":"PAYMENT_004"}`, 200, `"state":"W"`},
		told{"POST", fail, `{"code":"PAYMENT_002"}`, 400, "PAYMENT_002"}, // a cancel's alone
		told{"POST", fail, `{"code":"0000"}`, 400, "0000"},
		told{"POST", fail, `{"code":""}`, 400, "PAYMENT_001, PAYMENT_004, BILL_004"},
		told{"POST", fail, `{"why":"PAYMENT_001"}`, 400, "why"},
		told{"POST", fail, `{"partner":"nobody"}`, 404, "no such bill"},
		told{"POST", "/bills/NONE/fail", "", 404, "no such bill"},
		told{"GET", fail, "", 405, ""},
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
	if body := r.must(newAsk("legacy", "read")); !strings.Contains(body, `"appr_state":"W"`) || !strings.Contains(body, `"appr_num":""`) {
		t.Errorf("a read shows a payment that failed: %s", body)
	}
	if got := r.Callbacks(); len(got) != 0 {
		t.Errorf("a payment that failed has a callback: %+v", got)
	}
	// The customer tries again.
	r.tell(
		told{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
		told{"POST", fail, "", 409, "its state is F"},
	)
	r.must(newAsk("v2", "cancel"))
	r.tell(told{"POST", fail, "", 409, "its state is C"})
	if b, _ := r.Bill(demoKey, billID); len(b.Failed) != 3 {
		t.Errorf("a refused request is on the bill's record: %+v", b.Failed)
	}
}

// TestNetworks: what the networks were told to answer goes to the payments and
// cancels it is for, in order, as often as was said, and leaves their bills as
// they are.
func TestNetworks(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		told  []string
		steps []string // an event and what comes of it
	}{
		{"once", []string{`{"code":"PAYMENT_001"}`}, []string{"pay CARD_VAN: PAYMENT_001", "pay CARD_VAN: ok", "cancel: ok"}},
		{"counted", []string{`{"code":"PAYMENT_001","count":2}`}, []string{"pay CARD_VAN: PAYMENT_001", "pay OFFLINE_CASH: PAYMENT_001", "pay CARD_VAN: ok"}},
		{"a count of none is one", []string{`{"code":"PAYMENT_004","count":-1}`}, []string{"pay CARD_VAN: PAYMENT_004", "pay CARD_VAN: ok", "cancel: ok"}},
		{"a payment, then its cancel", []string{`{"code":"PAYMENT_001","count":2}`}, []string{"pay CARD_VAN: PAYMENT_001", "pay CARD_VAN: PAYMENT_001", "pay CARD_VAN: ok", "cancel: ok"}},
		{"in order", []string{`{"code":"PAYMENT_004"}`, `{"code":"PAYMENT_001"}`}, []string{"pay CARD_VAN: PAYMENT_004", "pay CARD_VAN: PAYMENT_001", "pay CARD_VAN: ok"}},
		{
			"a cancel's waits for a cancel",
			[]string{`{"code":"PAYMENT_002","count":2}`},
			[]string{"pay CARD_VAN: ok", "cancel: PAYMENT_002", "cancel: PAYMENT_002", "cancel: ok"},
		},
		{
			"a later one goes past a cancel's",
			[]string{`{"code":"PAYMENT_002"}`, `{"code":"PAYMENT_001"}`},
			[]string{"pay CARD_VAN: PAYMENT_001", "pay CARD_VAN: ok", "cancel: PAYMENT_002", "cancel: ok"},
		},
		{
			"a keyed card's waits for one",
			[]string{`{"code":"BILL_004"}`},
			[]string{"pay KEYIN: BILL_004", "pay KEYIN: ok", "cancel: ok"},
		},
		{
			"a keyed card's lets others through",
			[]string{`{"code":"BILL_004"}`},
			[]string{"pay SIMPLE_PAY: ok", "cancel: ok"},
		},
		{
			"a keyed card's cancel",
			[]string{`{"code":"BILL_004","count":2}`, `{"code":"PAYMENT_002"}`},
			[]string{"pay KEYIN: BILL_004", "pay KEYIN: BILL_004", "pay KEYIN: ok", "cancel: PAYMENT_002", "cancel: ok"},
		},
		{"forgotten", []string{`{"code":"PAYMENT_001","count":9}`, `{"code":"0000"}`}, []string{"pay CARD_VAN: ok", "cancel: ok"}},
	}
	for _, row := range rows {
		for _, form := range forms {
			t.Run(form+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{})
				r.bring("W")
				for _, body := range row.told {
					r.tell(told{"POST", "/networks", body, 200, `"code"`})
				}
				for _, step := range row.steps {
					event, want, _ := strings.Cut(step, ": ")
					before := r.state()
					got := r.event(form, event)
					if got != want {
						t.Errorf("%s: got %s, want %s", event, got, want)
					}
					if want != "ok" && r.state() != before {
						t.Errorf("%s: refused, and the bill went from %s to %s", event, before, r.state())
					}
				}
			})
		}
	}
}

// event pays or cancels the bill, and returns "ok" or the code of the refusal.
func (r *rig) event(form, event string) string {
	r.t.Helper()
	if event == "cancel" {
		code, _ := r.do(newAsk(form, "cancel"))
		return strings.Replace(code, "0000", "ok", 1)
	}
	_, method, _ := strings.Cut(event, " ")
	status, body := r.ctl(http.MethodPost, "/bills/"+billID+"/pay", `{"method":"`+method+`"}`)
	if status == http.StatusOK {
		return "ok"
	}
	var refusal struct{ Error string }
	if err := json.Unmarshal([]byte(body), &refusal); err != nil || status != http.StatusConflict {
		r.t.Errorf("got %d %s: %v", status, body, err)
	}
	code, _, _ := strings.Cut(refusal.Error, ":")
	return code
}

func TestNetworksRequests(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.bring("W")
	r.tell(
		told{"POST", "/networks", `{"code":"PAYMENT_001","count":3}`, 200, `{"code":"PAYMENT_001","count":3}`},
		told{"POST", "/networks", `{"code":"PAYMENT_003"}`, 400, "PAYMENT_003"}, // no network's
		told{"POST", "/networks", `{"code":"payment_001"}`, 400, "PAYMENT_002"},
		told{"POST", "/networks", `{}`, 400, "PAYMENT_001"},
		told{"POST", "/networks", `{"code":"PAYMENT_001","times":1}`, 400, "times"},
		told{"POST", "/networks", `{"code":"PAYMENT_001","count":"1"}`, 400, "count"},
		told{"GET", "/networks", "", 405, ""},
		told{"DELETE", "/faults", "", 200, ""}, // forgets these too
		told{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
	)
}

// TestTransactions: the lookup by the transaction identifier, which finds a paid
// bill and a cancelled one, and shows what a v2 read shows.
func TestTransactions(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.must(newAsk("v2", "create").with("billId", "UNPAID"))
	r.must(newAsk("legacy", "create"))
	none := told{"GET", "/transactions/TX000000000001", "", 200, `{"code":"BILL_005","message":"요청하신 거래 번호의 청구서를 찾을 수 없습니다.","data":null}`}
	r.tell(none)
	r.tell(told{"POST", "/bills/" + billID + "/pay", "", 200, `"tx_id":"TX000000000001"`})
	for _, step := range []func(){func() {}, func() { r.must(newAsk("legacy", "cancel")) }} {
		step()
		r.tell(told{"GET", "/transactions/TX000000000001", "", 200, r.must(newAsk("v2", "read"))})
	}
	r.tell(
		told{"GET", "/transactions/TX00000000000", "", 200, `"BILL_005"`},
		told{"GET", "/transactions/tx000000000001", "", 200, `"BILL_005"`},
		told{"GET", "/transactions/", "", 404, ""},
		told{"POST", "/transactions/TX000000000001", "", 405, ""},
	)
}

// TestControlNotifies: there is nothing to send again for a bill without a
// payment.
func TestControlNotifies(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.bring("W")
	r.tell(
		told{"POST", "/bills/" + billID + "/notify", "", 404, "no such bill with a callback"},
		told{"POST", "/bills/NONE/notify", "", 404, "no such bill"},
		told{"POST", "/bills/" + billID + "/notify", `{"bill":"x"}`, 400, "bill"},
	)
}

// TestControlPoints: what a tester gives a partner is what it has.
func TestControlPoints(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{Partners: []sandbox.Partner{{Key: demoKey, Prepaid: true, Points: 7}}})
	if got := r.points(); got != 7 {
		t.Errorf("%d points", got)
	}
	r.tell(
		told{"POST", "/points", `{"partner":"demo-partner-key","points":2}`, 200, `"points":2`},
		told{"POST", "/points", `{"partner":"nobody","points":3}`, 404, "no such partner"},
		told{"POST", "/points", `{"points":3}`, 404, "no such partner"},
		told{"POST", "/points", `{"partner":"demo-partner-key","points":"3"}`, 400, "points"},
		told{"POST", "/points", `{"partner":"demo-partner-key","points":1.5}`, 400, "points"},
		told{"POST", "/points", `{"partner":"demo-partner-key","pints":3}`, 400, "pints"},
	)
	if got := r.points(); got != 2 {
		t.Errorf("%d points", got)
	}
}

func TestMaintenance(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.must(newAsk("v2", "create"))
	r.tell(
		told{"POST", "/maintenance", `{"on":1}`, 400, "on"},
		told{"POST", "/maintenance", `{"off":false}`, 400, "off"},
	)
	r.must(newAsk("v2", "read"))
	r.tell(told{"POST", "/maintenance", `{"on":true}`, 200, `{"on":true}`})
	before := encode(r.Bills())
	for _, form := range forms {
		for _, op := range billOps {
			if code, _ := r.do(newAsk(form, op)); code != "MAINTAINED_METHOD" {
				t.Errorf("%s %s: %s", form, op, code)
			}
		}
	}
	for path, call := range subBusiness {
		if _, body := r.post(path, encode(call)); codeOf(t, "v2", body) != "MAINTAINED_METHOD" {
			t.Errorf("%s: %s", path, body)
		}
	}
	if encode(r.Bills()) != before {
		t.Error("a call changed the store")
	}
	// It is the partners' side that is closed, and not the customers'.
	r.tell(
		told{"POST", "/bills/" + billID + "/pay", "", 200, `"state":"F"`},
		told{"POST", "/maintenance", `{"on":false}`, 200, `{"on":false}`},
	)
	r.must(newAsk("legacy", "cancel"))
}
