package sandbox_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/sandbox"
)

// reported asks until the callback of a bill that reports billState has come so far, and returns it.
func (r *rig) reported(billID, billState, state string, attempts int) sandbox.Callback {
	r.t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		list := r.Callbacks()
		for _, c := range list {
			if c.BillID == billID && c.BillState == billState && c.State == state && len(c.Attempts) == attempts {
				return c
			}
		}
		if time.Now().After(late) {
			r.t.Fatalf("no %s callback of %s in state %s with %d attempts: %s", state, billID, billState, attempts, encode(list))
		}
	}
}

// states are the states that callbacks report, in the order they came.
func (p *partner) states() string {
	all := ""
	for _, n := range p.notices() {
		var body struct {
			V2     string `json:"apprState"`
			Legacy string `json:"appr_state"`
		}
		_ = json.Unmarshal([]byte(n.body), &body)
		all += body.V2 + body.Legacy
	}
	return all
}

// TestCallbackOfCancelAndDestroy: with the option each cancel and each destroy is called back once, in the form and at
// the address of a payment's callback, and shows what a read shows then.
func TestCallbackOfCancelAndDestroy(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		for _, asked := range forms {
			for op, want := range map[string]string{"cancel": "FC", "destroy": "D"} {
				for _, registration := range []bool{false, true} {
					t.Run(strings.Join([]string{form, asked, op, map[bool]string{true: "registration", false: "bill"}[registration]}, "/"), func(t *testing.T) {
						t.Parallel()
						p := newPartner(t, says(200, thanks))
						r := start(t, sandbox.Options{CallbackCancelDestroy: true})
						create, told := newAsk(form, "create").with("callbackUrl", p.url), form
						if registration {
							create, told = create.with("callbackUrl", gone{}), "v2"
							r.post("/auth/mapping", encode(map[string]any{
								"apiKey": demoKey, "memberId": "demo-member", "merchantId": "demo-store", "callbackUrl": p.url,
							}))
						}
						r.must(create)
						if op == "cancel" {
							if err := r.Pay(demoKey, billID); err != nil {
								t.Fatal(err)
							}
						}
						r.must(newAsk(asked, op))
						state := want[len(want)-1:]
						c := r.reported(billID, state, "delivered", 1)
						if c.URL != p.url || c.Form != told {
							t.Errorf("%+v", c)
						}
						read := r.must(newAsk(told, "read"))
						if told == "v2" {
							read = string(dataOf(t, json.RawMessage(read)))
						}
						got := p.notices()
						if last := got[len(got)-1]; last.method != http.MethodPost || last.body != read || last.contentType != "application/json; charset=utf-8" {
							t.Errorf("got  %+v\nwant %s", last, read)
						}
						if p.states() != want {
							t.Errorf("callbacks report %q, want %q", p.states(), want)
						}
					})
				}
			}
		}
	}
}

// TestNoCallbackOfARefusedEnd: a cancel or destroy that is refused changes nothing, and nothing is called back.
func TestNoCallbackOfARefusedEnd(t *testing.T) {
	t.Parallel()
	p := newPartner(t, says(200, thanks))
	r := start(t, sandbox.Options{CallbackCancelDestroy: true})
	r.must(newAsk("v2", "create").with("callbackUrl", p.url))
	refused := func(q ask, want string) {
		t.Helper()
		if code, body := r.do(q); code != want {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	refused(newAsk("v2", "cancel"), "BILL_002")
	refused(newAsk("legacy", "destroy").with("hash", "00"), "VALIDATION_002")
	if err := r.Pay(demoKey, billID); err != nil {
		t.Fatal(err)
	}
	refused(newAsk("v2", "destroy"), "BILL_002")
	if err := r.Networks("PAYMENT_002", 1); err != nil {
		t.Fatal(err)
	}
	refused(newAsk("legacy", "cancel"), "PAYMENT_002")
	r.must(newAsk("legacy", "cancel"))
	refused(newAsk("legacy", "cancel"), "BILL_002")
	r.reported(billID, "C", "delivered", 1)
	if list := r.Callbacks(); len(list) != 2 || p.states() != "FC" {
		t.Errorf("%q %s", p.states(), encode(list))
	}
}

// TestCallbackOfACancelWithoutReply: the cancel is done and its reply is lost; the callback tells the partner.
func TestCallbackOfACancelWithoutReply(t *testing.T) {
	t.Parallel()
	p := newPartner(t, says(200, thanks))
	r := start(t, sandbox.Options{CallbackCancelDestroy: true})
	r.must(newAsk("legacy", "create").with("callbackUrl", p.url))
	if err := r.Pay(demoKey, billID); err != nil {
		t.Fatal(err)
	}
	r.Fault(sandbox.Fault{Operation: "bill.cancel", Drop: true})
	if _, body, err := r.try(t.Context(), newAsk("legacy", "cancel")); err == nil {
		t.Fatalf("the reply is not lost: %s", body)
	}
	r.reported(billID, "C", "delivered", 1)
}

// TestCallbackOfACancelSchedule: a cancel's callback has a schedule of its own, like a payment's. It is not sent while
// an attempt of the payment's is due or under way, so that a partner that answers sees them in their order.
func TestCallbackOfACancelSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &partner{}
		p.answer = func(w http.ResponseWriter, r *http.Request) {
			switch p.states() {
			case "F": // the first attempt ends late, and in vain
				<-release
				says(500, "")(w, r)
			case "FC", "FCF":
				says(500, "")(w, r)
			default:
				says(200, thanks)(w, r)
			}
		}
		s := sandbox.New(sandbox.Options{Transport: p, CallbackCancelDestroy: true, CallbackTimeout: 2 * time.Hour})
		defer func() { _ = s.Close() }()
		call := func(op string) {
			path, body := newAsk("v2", op).with("expireDt", gone{}).encode()
			reply := httptest.NewRecorder()
			s.ServeHTTP(reply, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if codeOf(t, "v2", reply.Body.String()) != "0000" {
				t.Fatal(reply.Body)
			}
		}
		expect := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := p.states(); got != want {
				t.Errorf("%s: callbacks report %q, want %q", when, got, want)
			}
		}
		call("create")
		if err := s.Pay(demoKey, billID); err != nil {
			t.Fatal(err)
		}
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

// TestNotifySendsEveryCallback of a bill again, in their order.
func TestNotifySendsEveryCallback(t *testing.T) {
	t.Parallel()
	p := newPartner(t, says(200, thanks))
	r := start(t, sandbox.Options{CallbackCancelDestroy: true})
	r.must(newAsk("v2", "create").with("callbackUrl", p.url))
	if err := r.Pay(demoKey, billID); err != nil {
		t.Fatal(err)
	}
	r.reported(billID, "F", "delivered", 1)
	r.must(newAsk("v2", "cancel"))
	r.reported(billID, "C", "delivered", 1)
	r.tell(told{"POST", "/bills/" + billID + "/notify", "", 200, ""})
	r.reported(billID, "C", "delivered", 1)
	if p.states() != "FCFC" {
		t.Errorf("callbacks report %q", p.states())
	}
}

// TestDataFileKeepsCallbacksOfCancels: what was not taken before a restart is tried after it, for each callback of a
// bill. A file from when only payments were called back has no states in its callbacks.
func TestDataFileKeepsCallbacksOfCancels(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"as it is": false, "from before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "data.db")
			p := newPartner(t, says(200, "{}"))
			o := sandbox.Options{CallbackCancelDestroy: !old}
			first := open(t, file, o)
			first.must(newAsk("v2", "create").with("callbackUrl", p.url))
			if err := first.Pay(demoKey, billID); err != nil {
				t.Fatal(err)
			}
			first.reported(billID, "F", "waiting", 1)
			first.must(newAsk("v2", "cancel"))
			states := []string{""}
			if !old {
				states = []string{"F", "C"}
				first.reported(billID, "C", "waiting", 1)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if old {
				db, err := sql.Open("sqlite", file)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := db.Exec(`UPDATE callback SET key = ?, value = json_remove(value, '$.bill_state')`, `{"`+demoKey+`" "`+billID+`"}`); err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			p.says(says(200, thanks))
			for range 2 { // the second start finds nothing left to send
				next := open(t, file, o)
				next.ctl(http.MethodPost, "/clock", `{"now":"`+noon.Add(time.Hour).Format(time.RFC3339)+`"}`)
				for _, state := range states {
					next.reported(billID, state, "delivered", 2)
				}
				if n := len(next.Callbacks()); n != len(states) {
					t.Errorf("%d callbacks, not %d", n, len(states))
				}
				if err := next.Close(); err != nil {
					t.Fatal(err)
				}
			}
			want := map[bool]string{false: "FC", true: "F"}[old]
			if got := p.states(); got != want+want {
				t.Errorf("callbacks report %q, want %q twice", got, want)
			}
			last := open(t, file, o)
			last.tell(told{"POST", "/bills/" + billID + "/notify", "", 200, ""})
			for _, state := range states {
				last.reported(billID, state, "delivered", 1)
			}
			if got := p.states(); got != want+want+want {
				t.Errorf("callbacks report %q, want %q three times", got, want)
			}
		})
	}
}
