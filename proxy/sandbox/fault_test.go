package sandbox_test

import (
	"context"
	"errors"
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
				r := start(t, sandbox.Options{})
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
				if code, body := r.do(newCall(form, "create").with("billId", "NEXT")); code != "0000" {
					t.Errorf("the call after it: %s", body)
				}
			})
		}
	}
}

func TestFaultOfAnUnknownOperationIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
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
	r := start(t, sandbox.Options{})
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
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The cleanup of the test hangs if the sandbox still waits.
}

func TestFaultsApplyInOrder(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	r.must(newCall("v2", "create"))
	r.Fault(sandbox.Fault{Operation: "bill.cancel", Code: "PAYMENT_001"})
	r.Fault(sandbox.Fault{Code: "ERROR", Count: 2})
	r.Fault(sandbox.Fault{Code: "PAYMENT_004"})
	for i, step := range []struct{ op, want string }{
		{"read", "ERROR"}, {"cancel", "PAYMENT_001"}, {"cancel", "ERROR"}, {"read", "PAYMENT_004"}, {"read", "0000"},
	} {
		if got, _ := r.do(newCall("v2", step.op)); got != step.want {
			t.Errorf("call %d: got %s, want %s", i, got, step.want)
		}
	}
	r.Fault(sandbox.Fault{Code: "ERROR", Count: 9})
	if status, _ := r.ctl(http.MethodDelete, "/faults", ""); status != 200 {
		t.Error(status)
	}
	r.must(newCall("v2", "read"))
	for _, bad := range []string{`{"status":100}`, `{"status":999}`, `{"delay":5}`} {
		if status, _ := r.ctl(http.MethodPost, "/faults", bad); status != 400 {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// A lost callback is never sent by itself. Calls of the interface do not use up its fault, and callbacks use up no other.
func TestLostCallback(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(200, successAnswer))
	r := start(t, sandbox.Options{})
	r.runControl(`POST /faults {"operation":"callback.payment","count":2,"skip":true} > 200 callback.payment`)
	for _, bill := range []string{"A1", "A2", "A3"} {
		r.must(newCall("v2", "create").with("billId", bill).with("callbackUrl", p.url))
		if err := r.Pay("", bill); err != nil {
			t.Fatal(err)
		}
	}
	proxytest.Eventually(t, func() bool { return len(r.Callbacks()[2].Attempts) == 1 }, nil)
	for i, c := range r.Callbacks() {
		if want := []string{"given_up", "given_up", "delivered"}[i]; c.State != want || c.Body == "" || i < 2 && (len(c.Attempts) > 0 || !c.Next.IsZero()) {
			t.Errorf("%+v, want %s", c, want)
		}
	}
	if err := r.Notify("", "A1"); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, func() bool { return r.Callbacks()[0].State == "delivered" }, nil)
}
