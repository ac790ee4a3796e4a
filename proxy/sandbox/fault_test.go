package sandbox_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/sandbox"

	"billbridge/proxy/proxytest"
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

// The callback of a payment as the partner gets it, with each fault. The next attempt, an hour later, has no fault.
func TestFaultsOfCallbacks(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/rows/callbackfaults.txt") {
		name, fault, part, state := row[0], row[1], row[3], row[5]
		sent, _ := strconv.Atoi(row[2])
		after, _ := strconv.Atoi(row[4])
		for _, form := range forms {
			t.Run(form+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := newPartner(t, nil)
				p.setAnswer(func(w http.ResponseWriter, q *http.Request) {
					if strings.Contains(fault, "drop") && len(p.received()) == 1 {
						<-q.Context().Done() // until the sandbox hangs up
					}
					answerWith(200, successAnswer)(w, q)
				})
				r := start(t)
				r.must(newCall(form, "create").with("callbackUrl", p.url))
				r.runControl(`POST /faults ` + fault + ` > 200`)
				must(t, r.Pay("", billID))
				eventually(t, func() bool { return len(r.log("callback.payment")) == sent && len(p.received()) == sent })
				for _, got := range p.received() {
					has(t, got.body, part, name)
				}
				r.runControl(`POST /clock {"advance":"1h"} > 200`)
				eventually(t, func() bool {
					c := r.Callbacks()[0]
					return c.State == state && len(p.received()) == after && len(r.log("callback.payment")) == after
				})
				if after > sent {
					has(t, p.received()[after-1].body, `rice":"30000"`, "the attempt after the fault")
				}
				for i, x := range r.log("callback.payment") {
					lost := strings.Contains(fault, "drop") && i == 0
					if x.Partner != demoKey || x.Bill != billID || x.Form != form || x.Path != p.url || x.Done == lost || (x.Status == 200) == lost || string(x.Request) != p.received()[i].body {
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

// An operation can be carried out long after its call, as with a backend that hangs.
func TestLateOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sandbox.New(sandbox.Options{})
		defer s.Close()
		s.Fault(sandbox.Fault{Operation: "bill.create", Late: time.Minute})
		equal(t, codeOf(t, "legacy", newCall("legacy", "create").at(s)), "ERROR")
		for _, bills := range []int{0, 1} {
			equal(t, len(s.Bills()), bills)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
	})
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
	eventually(t, func() bool { return len(r.log("callback.payment")) == 1 })
	must(t, r.SetClock(noon.Add(2*time.Hour)))
	equal(t, len(r.Callbacks()), 0, "stored")
	equal(t, r.state(), "W", "state")
	if x := r.log("callback.payment")[0]; x.Status != 500 || x.Done || string(x.Request) != body || x.Partner != demoKey || x.Before != "W" || x.After != "W" {
		t.Errorf("%+v", x)
	}
}
