package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// try makes a call whose connection may be aborted.
func (r *rig) try(ctx context.Context, q testCall) (status int, body string, err error) {
	r.t.Helper()
	path, request := q.encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader(request))
	must(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// Each fault as the caller sees it, whether the bill was created, and that the next call is answered normally.
func TestFaultsChangeRepliesAndNotTheWork(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, fault string
		status      int
		body        string // a part of the body; if it is truncated, its beginning
		breaks      bool
		made        bool
	}{
		{"status", `{"status":503}`, 503, `"0000"`, false, true},
		{"body", `{"body":"<html>oops"}`, 200, "<html>oops", false, true},
		{"status and body, undone", `{"status":502,"body":"bad","skip":true}`, 502, "bad", false, false},
		{"code", `{"code":"PAYMENT_002"}`, 200, `"PAYMENT_002"`, false, false},
		{"code that the catalogue lacks", `{"code":"9999"}`, 200, `"9999"`, false, false},
		{"undone", `{"skip":true}`, 200, `"ERROR"`, false, false},
		{"truncate", `{"truncate":true}`, 200, `{"code":"0000"`, true, true},
		{"truncate, undone", `{"truncate":true,"skip":true,"body":"12345678"}`, 200, `1234`, true, false},
		{"drop", `{"drop":true}`, 0, "", true, true},
		{"drop, undone", `{"drop":true,"skip":true}`, 0, "", true, false},
		{"gzip", `{"gzip":true}`, 200, `"0000"`, false, true}, // the client decompresses it
		{"gzip that breaks off", `{"gzip":true,"truncate":true}`, 200, "", true, true},
		{"short delay", `{"delay_ms":1}`, 200, `"0000"`, false, true},
	}
	for _, row := range rows {
		for _, form := range forms {
			t.Run(form+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				r := start(t)
				if status, body := r.ctl(http.MethodPost, "/faults", row.fault); status != 200 {
					t.Fatal(body)
				}
				status, body, err := r.try(t.Context(), newCall(form, "create"))
				if status != row.status || !strings.Contains(body, row.body) || (err != nil) != row.breaks {
					t.Errorf("got %d %q %v", status, body, err)
				}
				if made := len(r.Bills()) == 1; made != row.made {
					t.Errorf("the bill was made: %v", made)
				}
				gives(t, "0000", "the call after it")(r.do(newCall(form, "create").with("billId", "NEXT")))
			})
		}
	}
}

func TestFaultOfAnUnknownOperationIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, unknown := range []string{"bill.creat", "Bill.create", "create", "/bill", "none", " bill.read"} {
		r.runControl(`POST /faults {"operation":"` + unknown + `","code":"ERROR"} > 400 operation: expected one of bill.create, bill.resend,`)
		r.runControl(`POST /faults {"operation":"` + unknown + `"} > 400 but got: \"` + unknown + `\"`)
		func() {
			defer func() {
				has(t, fmt.Sprint(recover()), unknown, "Fault accepts")
			}()
			r.Fault(sandbox.Fault{Operation: unknown, Count: 100})
		}()
	}
	r.must(newCall("v2", "create"))
	paths := map[string]string{
		"bill.create": "/bill", "bill.resend": "/bill/resend", "bill.read": "/bill/read", "bill.destroy": "/bill/destroy",
		"bill.cancel": "/bill/cancel", "mapping.register": "/auth/mapping", "mapping.list": "/read/mapping",
		"mapping.status": "/auth/mapping/status", "merchant.map": "/auth/merchant/mapping", "merchant.list": "/read/merchant",
	}
	for operation, path := range paths {
		r.runControl(`POST /faults {"operation":"` + operation + `","code":"9999"} > 200 ` + operation)
		if _, body := r.post(path, "{}"); codeOf(t, "v2", body) != "9999" {
			t.Errorf("the fault of %s does not meet its call: %s", operation, body)
		}
	}
}

// The reply is delayed longer than the caller waits: the operation takes effect, and the sandbox releases the connection.
func TestDelayedReplyEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.Fault(sandbox.Fault{Delay: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := r.try(ctx, newCall("v2", "create"))
		done <- err
	}()
	for len(r.Bills()) == 0 { // the operation takes effect before the delay
		select {
		case err := <-done:
			t.Fatalf("the reply was not late: %v", err)
		default:
			runtime.Gosched()
		}
	}
	cancel()
	fails(t, context.Canceled)(<-done)
	// The cleanup of the test hangs if the sandbox still waits.
}

func TestFaultsApplyInOrder(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.must(newCall("v2", "create"))
	r.Fault(sandbox.Fault{Operation: "bill.cancel", Code: "PAYMENT_001"})
	r.Fault(sandbox.Fault{Code: "ERROR", Count: 2})
	r.Fault(sandbox.Fault{Code: "PAYMENT_004"})
	for i, step := range []struct{ op, want string }{
		{"read", "ERROR"}, {"cancel", "PAYMENT_001"}, {"cancel", "ERROR"}, {"read", "PAYMENT_004"}, {"read", "0000"},
	} {
		gives(t, step.want, i)(r.do(newCall("v2", step.op)))
	}
	r.Fault(sandbox.Fault{Code: "ERROR", Count: 9})
	gives(t, 200)(r.ctl(http.MethodDelete, "/faults", ""))
	r.must(newCall("v2", "read"))
	for _, bad := range []string{`{"status":100}`, `{"status":1000}`, `{"delay":5}`} {
		gives(t, 400, bad)(r.ctl(http.MethodPost, "/faults", bad))
	}
}

// A lost callback is never sent by itself. Calls of the interface do not use up its fault, and callbacks use up no other.
func TestLostCallback(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(200, successAnswer))
	r := start(t)
	r.runControl(`POST /faults {"operation":"callback.payment","count":2,"skip":true} > 200 callback.payment`)
	for _, bill := range []string{"A1", "A2", "A3"} {
		r.must(newCall("v2", "create").with("billId", bill).with("callbackUrl", p.url))
		must(t, r.Pay("", bill))
	}
	proxytest.Eventually(t, func() bool { return len(r.Callbacks()[2].Attempts) == 1 }, nil)
	for i, c := range r.Callbacks() {
		if want := []string{"given_up", "given_up", "delivered"}[i]; c.State != want || c.Body == "" || i < 2 && (len(c.Attempts) > 0 || !c.Next.IsZero()) {
			t.Errorf("%+v, want %s", c, want)
		}
	}
	must(t, r.Notify("", "A1"))
	proxytest.Eventually(t, func() bool { return r.Callbacks()[0].State == "delivered" }, nil)
}

// A fault with a partner or a bill changes only their calls and callbacks. Others do not use it up.
func TestFaultOfOnePartnerOrBill(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		fault sandbox.Fault
		want  string // of the reads of A1 and A2 of the demo partner, and of A1 of another; x is the fault
	}{
		{"none", sandbox.Fault{Count: 3}, "xxx"},
		{"partner", sandbox.Fault{Partner: demoKey, Count: 3}, "xx."},
		{"bill", sandbox.Fault{Bill: "A1", Count: 3}, "x.x"},
		{"both", sandbox.Fault{Partner: demoKey, Bill: "A2"}, ".x."},
		{"another partner", sandbox.Fault{Partner: "nobody"}, "..."},
		{"another operation", sandbox.Fault{Operation: "bill.cancel", Partner: demoKey}, "..."},
	} {
		for _, form := range forms {
			t.Run(form+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				r := start(t)
				row.fault.Code = "X_1"
				r.Fault(row.fault)
				got := ""
				for _, at := range [][2]string{{demoKey, "A1"}, {demoKey, "A2"}, {"demo-nourl-key", "A1"}} {
					code, _ := r.do(newCall(form, "read").with("apiKey", at[0]).with("billId", at[1]))
					got += map[string]string{"X_1": "x", "BILL_003": "."}[code]
				}
				equal(t, got, row.want, row.name)
			})
		}
	}
}

// A read can show a state or a bill that it should not, as a stale replica would. The bill itself does not change.
func TestReadShowsAnotherStateOrBill(t *testing.T) {
	t.Parallel()
	states := []string{"W", "F", "C", "D"}
	for _, state := range states {
		for _, show := range append(states, "absent") {
			for _, form := range forms {
				t.Run(form+"/"+state+" as "+show, func(t *testing.T) {
					t.Parallel()
					r := start(t)
					r.createInState(state)
					r.runControl(`POST /faults {"operation":"bill.read","show":"` + show + `"} > 200 "show"`)
					code, body := r.do(newCall(form, "read"))
					if show == "absent" {
						equal(t, code, "BILL_003", body)
					} else {
						has(t, body, map[string]string{"v2": `"apprState":"`, "legacy": `"appr_state":"`}[form]+show+`"`, "read")
						equal(t, strings.Contains(body, `"apprPrice":"30000"`) || strings.Contains(body, `"appr_price":"30000"`), (strings.Contains("FC", show) && strings.Contains("FC", state)), body)
						equal(t, strings.Contains(body, `um":"30000002"`), show == "C" && state == "C", body)
					}
					equal(t, r.state(), state, "the state itself")
					has(t, r.must(newCall(form, "read")), `tate":"`+state+`"`, "the next read")
				})
			}
		}
	}
	for _, form := range forms {
		r := start(t)
		r.createInState("F")
		r.must(newCall(form, "create").with("billId", "OTHER"))
		r.must(newCall(form, "create").with("billId", "THEIRS").with("apiKey", "demo-nourl-key"))
		r.Fault(sandbox.Fault{Operation: "bill.read", ShowBill: billID, Bill: "OTHER"})
		if body := r.must(newCall(form, "read").with("billId", "OTHER")); !strings.Contains(body, billID) || !strings.Contains(body, `tate":"F"`) {
			t.Errorf("%s", body)
		}
		r.Fault(sandbox.Fault{Operation: "bill.read", ShowBill: "THEIRS"})
		gives(t, "BILL_003", "a bill of another partner is shown")(r.do(newCall(form, "read")))
	}
}

// Fields that do not exist for an operation are refused, so that a fault never has no effect unnoticed.
func TestFaultFieldsOfOtherOperationsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	for fault, want := range map[string]string{
		`"show":"W"`: "operation", `"operation":"bill.cancel","show":"W"`: "operation", `"show_bill":"B1"`: "operation",
		`"operation":"bill.read","show":"X"`: "show: expected", `"operation":"bill.read","amount":"1"`: "operation",
		`"copies":2`: "operation", `"operation":"callback.payment","status":500`: "operation",
		`"operation":"callback.payment","code":"X"`: "operation", `"operation":"callback.payment","truncate":true`: "operation",
		`"operation":"callback.payment","gzip":true`: "operation", `"operation":"callback.payment","late_ms":1`: "operation",
		`"operation":"callback.payment","show":"W"`: "operation",
	} {
		r.runControl(`POST /faults {` + fault + `} > 400 ` + want)
	}
	r.must(newCall("v2", "create"))
	r.runControl(`DELETE /faults > 200`)
}

// The callback of a payment as the partner gets it, with each fault. The next attempt, an hour later, has no fault.
func TestFaultsOfCallbacks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, fault string
		sent        int // at once
		part        string
		after       int // an hour later
		state       string
	}{
		{"none", `{"operation":"bill.read"}`, 1, `rice":"30000"`, 1, "delivered"},
		{"lost", `{"operation":"callback.payment","skip":true}`, 0, "", 0, "given_up"},
		{"hung up", `{"operation":"callback.payment","drop":true}`, 1, `rice":"30000"`, 2, "delivered"},
		{"four at once", `{"operation":"callback.payment","copies":4}`, 4, `rice":"30000"`, 4, "delivered"},
		{"other amount", `{"operation":"callback.payment","amount":"300000"}`, 1, `rice":"300000"`, 1, "delivered"},
		{"other body", `{"operation":"callback.payment","body":"<html>"}`, 1, `<html>`, 1, "delivered"},
		{"other body that is no object, with an amount", `{"operation":"callback.payment","body":"[]","amount":"1"}`, 1, `[]`, 1, "delivered"},
		{"late", `{"operation":"callback.payment","delay_ms":60000}`, 0, "", 1, "delivered"},
		{"of another bill", `{"operation":"callback.payment","skip":true,"bill":"B2"}`, 1, "", 1, "delivered"},
		{"of another partner", `{"operation":"callback.payment","skip":true,"partner":"nobody"}`, 1, "", 1, "delivered"},
		{"of this one", `{"operation":"callback.payment","skip":true,"partner":"demo-partner-key","bill":"` + billID + `"}`, 0, "", 0, "given_up"},
		{"any call", `{"skip":true}`, 1, "", 1, "delivered"},
	} {
		for _, form := range forms {
			t.Run(form+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				p := newPartner(t, nil)
				p.setAnswer(func(w http.ResponseWriter, q *http.Request) {
					if strings.Contains(row.fault, "drop") && len(p.received()) == 1 {
						<-q.Context().Done() // until the sandbox hangs up
					}
					answerWith(200, successAnswer)(w, q)
				})
				r := start(t)
				r.must(newCall(form, "create").with("callbackUrl", p.url))
				r.runControl(`POST /faults ` + row.fault + ` > 200`)
				must(t, r.Pay("", billID))
				attempts := len(r.log("?operation=callback.payment"))
				eventually(t, func() bool {
					attempts = len(r.log("?operation=callback.payment"))
					return attempts == row.sent && len(p.received()) == row.sent
				})
				for _, got := range p.received() {
					has(t, got.body, row.part, row.name)
				}
				r.runControl(`POST /clock {"advance":"1h"} > 200`)
				eventually(t, func() bool {
					c := r.Callbacks()[0]
					return c.State == row.state && len(p.received()) == row.after && len(r.log("?operation=callback.payment")) == row.after
				})
				if row.after > row.sent {
					has(t, p.received()[row.after-1].body, `rice":"30000"`, "the attempt after the fault")
				}
				for i, x := range r.log("?operation=callback.payment") {
					lost := strings.Contains(row.fault, "drop") && i == 0
					if x.Partner != demoKey || x.Bill != billID || x.Form != form || x.Path != p.url || x.Done == lost || (x.Status == 200) == lost || x.Request != p.received()[i].body {
						t.Errorf("%d: %+v", i, x)
					}
				}
			})
		}
	}
}

// A delayed callback of a payment arrives after that of the cancel.
func TestCallbacksOutOfOrder(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(200, successAnswer))
	r := start(t, sandbox.Options{CallbackCancelDestroy: true})
	r.must(newCall("v2", "create").with("callbackUrl", p.url))
	r.Fault(sandbox.Fault{Operation: "callback.payment", Delay: time.Minute})
	must(t, r.Pay("", billID))
	r.must(newCall("v2", "cancel"))
	r.awaitCallbackOf(billID, "C", "delivered", 1)
	must(t, r.SetClock(noon.Add(time.Minute)))
	r.awaitCallbackOf(billID, "F", "delivered", 1)
	equal(t, p.receivedStates(), "CF", "callbacks report")
}

// With a delayed reply the callback comes before it: that of a cancel, and of a bill that is paid before the create's reply.
func TestCallbackBeforeTheReply(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "cancel"} {
		p := newPartner(t, answerWith(200, successAnswer))
		r := start(t, sandbox.Options{CallbackCancelDestroy: true})
		create := newCall("v2", "create").with("callbackUrl", p.url)
		call, want := create, "F"
		if op == "cancel" {
			r.must(create)
			must(t, r.Pay("", billID))
			r.awaitCallbackOf(billID, "F", "delivered", 1)
			call, want = newCall("v2", "cancel"), "FC"
		}
		r.Fault(sandbox.Fault{Operation: "bill." + op, Delay: time.Hour})
		ctx, giveUp := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, _, err := r.try(ctx, call)
			done <- err
		}()
		if op == "create" {
			eventually(t, func() bool { return r.Pay("", billID) == nil })
		}
		eventually(t, func() bool { return p.receivedStates() == want })
		select {
		case err := <-done:
			t.Errorf("%s: the reply came before: %v", op, err)
		default:
		}
		giveUp()
		<-done
	}
}

// SendCallback sends one more callback, changed or not, whatever the bill's state, and stores none.
func TestExtraCallbackIsSentOnce(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(500, ""))
	r := start(t)
	r.must(newCall("v2", "create").with("callbackUrl", p.url))
	r.must(newCall("v2", "create").with("callbackUrl", omitted{}).with("billId", "SILENT"))
	forge := func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`"apprState":"W"`), []byte(`"apprState":"F"`))
	}
	must(t, r.SendCallback(demoKey, billID, forge))
	fails(t, "with a callback", "a bill without a callback address")(r.SendCallback(demoKey, "SILENT", forge))
	fails(t, "no such bill", "no bill")(r.SendCallback(demoKey, "NONE", forge))
	eventually(t, func() bool { return len(p.received()) == 1 })
	body := p.received()[0].body
	has(t, body, `"apprState":"F"`, "forged")
	eventually(t, func() bool { return len(r.log("?operation=callback.payment")) == 1 })
	must(t, r.SetClock(noon.Add(2*time.Hour)))
	equal(t, len(r.Callbacks()), 0, "stored")
	equal(t, r.state(), "W", "state")
	if x := r.log("?operation=callback.payment")[0]; x.Status != 500 || x.Done || x.Request != body || x.Partner != demoKey || x.Before != "W" || x.After != "W" {
		t.Errorf("%+v", x)
	}
}

// A fault with a time changes every call until then, by the clock of the service.
func TestFaultUntil(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.runControl(`POST /faults {"name":"n","partner":"demo-partner-key","code":"X_1","until":"2026-03-02T12:35:56+09:00"} > 200`)
	for range 3 {
		gives(t, "X_1", "before")(r.do(newCall("v2", "read")))
	}
	if f := r.Faults(); len(f) != 1 || f[0].Name != "n" {
		t.Errorf("%+v", f)
	}
	must(t, r.SetClock(noon.Add(time.Minute)))
	if code, _ := r.do(newCall("v2", "read")); code != "BILL_003" || len(r.Faults()) != 0 {
		t.Errorf("after: %s %+v", code, r.Faults())
	}
}

// A fault pays the bill of a create before the reply; nothing else has it.
func TestFaultPays(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.runControl(`
		POST /faults {"operation":"bill.read","pay":true} > 400 bill.create alone has pay
		POST /faults {"operation":"bill.create","pay":true} > 200
	`)
	r.must(newCall("v2", "create"))
	equal(t, r.state(), "F", "paid")
}
