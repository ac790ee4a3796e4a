package proxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
)

// A caller whom both backends refuse gets the refusal of the backend that its stage selects, and not
// MAINTAINED_METHOD, after which clients try again. Only reads are sent, and the creates of stage old.
func TestCallRefusedByBothBackends(t *testing.T) {
	t.Parallel()
	for code, final := range map[string][]string{
		"PARTNER_003": operations, "PARTNER_006": operations, "PARTNER_007": operations, "VALIDATION_001": operations, "ERROR": nil, "OWN_CODE": nil,
	} {
		for _, stage := range []string{"old", "new"} {
			parallel(t, code+"/"+stage, func(t *testing.T) {
				m := newRolloutWith(t, stage, func(backendName string, _ http.Handler) http.Handler {
					if backendName == "old" {
						return replyWith(200, `{"code":"`+code+`","msg":"old says no"}`)
					}
					return replyWith(200, `{"code":"`+code+`","message":"new says no","data":null}`)
				}, "")
				for _, client := range forms {
					for _, op := range operations {
						if final == nil && op == "create" {
							continue // stage old sends it without a probe
						}
						got := m.send(newCall(client, op))
						if final == nil {
							got.check(t, client, refused)
							continue
						}
						got.check(t, client, wantAnswer{200, code})
						checkText(t, got.body, stage+" says no")
					}
				}
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
		for _, op := range []string{"read", "destroy", "read"} {
			if got := m.send(v2(op)); got.status != 503 {
				t.Errorf("%s with %s: %d %s", op, body, got.status, got.body)
			}
		}
		if o, err := m.store.Owner(t.Context(), partner.Of(demoKey), demoBill); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", body, o, err)
		}
		m.expect(v2("create"), success)
		equal(t, len(m.old.Bills()), 1, body)
	}
}

// PAYMENT_001 and PAYMENT_002 say that a response was missing, POINT_001 that the bill could not be sent to its
// customer. The bill may exist, so it stays pending at this backend, and the other one must not get it.
func TestCreateCodesThatKeepTheBillPending(t *testing.T) {
	t.Parallel()
	for code, outcome := range map[string]store.Ownership{
		"PAYMENT_001": store.Pending, "PAYMENT_002": store.Pending, "ERROR": store.Pending, "MAINTAINED_METHOD": store.Pending, "OWN_CODE": store.Pending,
		"BILL_001": store.Pending, "POINT_001": store.Pending, "VALIDATION_002": store.Released, "BILL_009": store.Released,
	} {
		parallel(t, code, func(t *testing.T) {
			m := newRolloutWith(t, "new", at("new", replyWith(200, `{"code":"`+code+`","message":"no","data":null}`)), "")
			m.expect(v2("create"), wantAnswer{200, code})
			var o store.Owner
			proxytest.Eventually(t, func() bool { // it is noted after the answer
				var err error
				o, err = m.store.Owner(t.Context(), partner.Of(demoKey), demoBill)
				return err == nil && o.Open == 0
			}, func() string { return fmt.Sprintf("%s: %+v", code, o) })
			equal(t, o.State, outcome, code, o)
		})
	}
}

// After a create without an answer, a reply that shows the bill makes its backend the owner.
func TestReadConfirmsAnUnknownCreate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		more  string // of the config
		shows string // the operation that shows it, "" for the explanation
	}{
		"explained":   {"", ""},
		"read":        {"failures: {explain: 0s}\n", "read"},
		"resent":      {"failures: {explain: 0s}\n", "resend"},
		"cannot tell": {"failures: {explain: 0s}\n", "create"}, // BILL_001
	} {
		parallel(t, name, func(t *testing.T) {
			m := newRolloutGateway(t, "old")
			text := *m.text.Load() + row.more
			m.text.Store(&text)
			m.mustPost("/-/reload")
			m.old.Fault(sandbox.Fault{Truncate: true})
			m.expect(v2("create"), unknown)
			if row.shows != "" {
				m.send(v2(row.shows))
			}
			want := store.Owned
			if name == "cannot tell" {
				want = store.Pending
			}
			for n := 0; n < 1+min(1, len(row.shows)); { // the ledger has it by then
				if strings.Contains(m.logs.Next(t), `"msg":"request"`) {
					n++
				}
			}
			row, err := m.store.Owner(t.Context(), partner.Of(demoKey), demoBill)
			if err != nil || row.State != want || row.Upstream != "old" || row.Open != 0 {
				t.Errorf("the ledger has %+v, %v", row, err)
			}
		})
	}
}

// A code with an HTTP status that contradicts it says nothing for certain, to probes, reads of operators and the
// ledger.
func TestStatusThatContradictsTheCodeIsNoClearAnswer(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "new", func(backendName string, service http.Handler) http.Handler {
		if backendName == "old" {
			return replyWith(500, `{"code":"BILL_003","msg":"no such bill"}`)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bill" {
				replyWith(500, `{"code":"0000","message":"ok","data":{"billId":"`+demoBill+`"}}`).ServeHTTP(w, r)
				return
			}
			service.ServeHTTP(w, r)
		})
	}, "")
	m.expect(v2("create"), refused)
	for _, op := range []string{"read", "destroy"} {
		m.expect(legacy(op), refused)
	}
	if got, err := doRequest(m.client, "POST", "http://"+m.AdminAddress()+"/rollout/bill?bill="+demoBill, `{"key":"`+demoKey+`"}`); err != nil || !strings.Contains(got.body, "no clear answer") {
		t.Error(got, err)
	}
	m.mustPost("/rollout/stage?partner=default&stage=drained&by=anna&" + forced)
	m.expect(v2("create"), wantAnswer{500, "0000"})
	eventually(t, "the create is not pending with an unknown outcome", func() bool {
		row, err := m.store.Owner(t.Context(), partner.Of(demoKey), demoBill)
		return err == nil && row.State == store.Pending && row.Uncertain
	})
}
