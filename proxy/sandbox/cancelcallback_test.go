package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// awaitCallbackOf waits until the callback that reports billState has a state and a number of attempts, and returns it.
func (r *rig) awaitCallbackOf(billID, billState, state string, attempts int) sandbox.Callback {
	r.t.Helper()
	var found sandbox.Callback
	proxytest.Eventually(r.t, func() bool {
		return slices.ContainsFunc(r.Callbacks(), func(c sandbox.Callback) bool {
			found = c
			return c.BillID == billID && c.BillState == billState && c.State == state && len(c.Attempts) == attempts
		})
	}, func() string {
		return fmt.Sprintf("no %s callback of %s in state %s with %d attempts: %s", state, billID, billState, attempts, encode(r.Callbacks()))
	})
	return found
}

// receivedStates returns the states that callbacks reported, in order.
func (p *partner) receivedStates() string {
	all := ""
	for _, n := range p.received() {
		var body struct {
			V2     string `json:"apprState"`
			Legacy string `json:"appr_state"`
		}
		_ = json.Unmarshal([]byte(n.body), &body)
		all += body.V2 + body.Legacy
	}
	return all
}

// A cancel's callback has its own attempts. It waits while an attempt of the payment's is due or running, so that a
// partner gets them in order.
func TestCallbackOfACancelWaitsForThatOfThePayment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &partner{}
		p.answer = func(w http.ResponseWriter, r *http.Request) {
			switch p.receivedStates() {
			case "F": // the first attempt ends late and fails
				<-release
				answerWith(500, "")(w, r)
			case "FC", "FCF":
				answerWith(500, "")(w, r)
			default:
				answerWith(200, successAnswer)(w, r)
			}
		}
		s := sandbox.New(sandbox.Options{Transport: p, CallbackCancelDestroy: true, CallbackTimeout: 2 * time.Hour})
		defer func() { _ = s.Close() }()
		call := func(op string) { equal(t, codeOf(t, "v2", newCall("v2", op).at(s)), "0000", op) }
		expect := func(when, want string) {
			t.Helper()
			synctest.Wait()
			equal(t, p.receivedStates(), want, when)
		}
		call("create")
		must(t, s.Pay(demoKey, billID))
		call("cancel")
		expect("while the payment's first attempt is under way", "F")
		time.Sleep(10 * time.Minute)
		close(release)
		expect("after it", "FC")
		time.Sleep(time.Hour) // both are due again at the same time
		expect("after an hour", "FCFC")
		time.Sleep(time.Hour)
		expect("after two hours", "FCFCF")
		time.Sleep(48 * time.Hour)
		expect("in the end", "FCFCF")
		for _, c := range s.Callbacks() {
			if want := map[string]int{"F": 3, "C": 2}[c.BillState]; c.State != "delivered" || len(c.Attempts) != want {
				t.Errorf("%+v", c)
			}
		}
	})
}

func TestNotifySendsEveryCallbackInOrder(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(200, successAnswer))
	r := start(t, sandbox.Options{CallbackCancelDestroy: true})
	r.must(newCall("v2", "create").with("callbackUrl", p.url))
	must(t, r.Pay(demoKey, billID))
	r.awaitCallbackOf(billID, "F", "delivered", 1)
	r.must(newCall("v2", "cancel"))
	r.awaitCallbackOf(billID, "C", "delivered", 1)
	r.runControl(`POST /bills/{bill}/notify > 200`)
	r.awaitCallbackOf(billID, "C", "delivered", 2)
	equal(t, p.receivedStates(), "FCFC", "callbacks report")
}
