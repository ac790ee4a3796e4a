package proxy_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/sandbox"
)

// A twoFormPartner is a partner that supports both forms: it makes every call in v2, and again in legacy on HTTP 403,
// 404 and 405.
type twoFormPartner struct {
	*rolloutGateway
	calls, requests int
}

func (f *twoFormPartner) send(op, bill string) (got answer, form string) {
	f.t.Helper()
	f.calls++
	for _, form = range forms {
		f.requests++
		got = f.rolloutGateway.send(newCall(form, op).with("billId", bill))
		if !slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}, got.status) {
			break
		}
	}
	return got, form
}

// stage changes the stage of the partner. The stage canary is followed by its percentage.
func (f *twoFormPartner) stage(stage string) {
	f.t.Helper()
	stage, percent, _ := strings.Cut(stage, " ")
	q := url.Values{"by": {"test"}, "partner": {string(partner.Of(demoKey))}, "stage": {stage}, "force": {rollout.JoinKinds(rollout.ReasonKinds)}}
	if percent != "" {
		q.Set("percent", percent)
	}
	if got := f.admin(http.MethodPost, "/rollout/stage?"+q.Encode()); got.status != http.StatusOK {
		f.t.Fatalf("%d %s", got.status, got.body)
	}
}

// writes is the number of writes that each backend got.
func (f *twoFormPartner) writes() (n [2]int) {
	for owner, calls := range []*backend{f.oldCalls, f.newCalls} {
		for _, c := range calls.received() {
			if !strings.HasSuffix(c.target, "/read") {
				n[owner]++
			}
		}
	}
	return n
}

// documented are the fields of data in the v2 success of a write.
var documented = map[string]string{
	"create": "apiKey billId hash member merchant shortUrl", "resend": "apiKey billId", "destroy": "apiKey billId",
	"cancel": "apiKey apprCancelDt apprNum apprOriginNum billId hash member merchant",
}

// A partner that supports both forms gets every answer at the first try, in v2, in every stage, for both forms of
// the backends and wherever the bill is. Each write reaches the owner of the bill once. So partners can remove their
// second form before the rollout.
func TestPartnerNeedsNoSecondForm(t *testing.T) {
	t.Parallel()
	for _, backendForms := range [][2]string{{"legacy", "v2"}, {"v2", "legacy"}} {
		for stage, createsAt := range map[string]int{"old": 0, "shadow": 0, "canary 0": 0, "canary 100": 1, "new": 1, "drained": 1} {
			t.Run(strings.Join(append(backendForms[:], stage), "/"), func(t *testing.T) {
				t.Parallel()
				f := &twoFormPartner{rolloutGateway: newRolloutBetween(t, backendForms[0], backendForms[1], "old")}
				// callOwner makes a call of a bill and checks that only its owner gets a write.
				callOwner := func(op, bill string, owner int) {
					t.Helper()
					want := f.writes()
					if isWrite(op) {
						want[owner]++
					}
					f.checkFirstTry(op, bill, "0000")
					if got := f.writes(); got != want {
						t.Errorf("%s of %s: the backends have %v writes, want %v", op, bill, got, want)
					}
				}
				bill := func(op string, owner int) string { return fmt.Sprint(strings.ToUpper(op), owner) }
				for owner, service := range []*sandbox.Service{f.old, f.fresh} {
					f.stage([]string{"old", "new"}[owner])
					for op, state := range stateBefore {
						if state != "" {
							callOwner("create", bill(op, owner), owner)
						}
						if state == "F" {
							if err := service.Pay(demoKey, bill(op, owner)); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				f.stage(stage)
				callOwner("create", "CREATE", createsAt)
				f.checkFirstTry("create", "CREATE", "BILL_001")
				for _, op := range operations[1:] {
					for owner := range backendForms {
						callOwner(op, bill(op, owner), owner)
					}
					f.checkFirstTry(op, "NOWHERE", "BILL_003")
				}
				f.checkRequestCount()
			})
		}
	}
}

// checkFirstTry makes a call and checks that it is answered at the first try, in v2.
func (f *twoFormPartner) checkFirstTry(op, bill, code string) {
	f.t.Helper()
	was := f.requests
	got, form := f.send(op, bill)
	if n := f.requests - was; n != 1 || form != "v2" {
		f.t.Errorf("%s of %s: answered at request %d, in the %s form", op, bill, n, form)
	}
	got.check(f.t, "v2", http.StatusOK, code)
	if code != "0000" {
		return
	}
	data, _ := fields(f.t, got.body)["data"].(map[string]any)
	names := strings.Join(slices.Sorted(maps.Keys(data)), " ")
	if want := documented[op]; data["billId"] != bill || want != "" && names != want || strings.Contains(names, "_") {
		f.t.Errorf("%s of %s has %q, want %q: %s", op, bill, names, want, got.body)
	}
	if state, _ := data["apprState"].(string); op == "read" && state != "F" {
		f.t.Errorf("%s is read in state %q: %s", bill, state, got.body)
	}
}

// checkRequestCount compares the access log with the calls: one request each.
func (f *twoFormPartner) checkRequestCount() {
	f.t.Helper()
	const request = `"msg":"request"`
	for n := 0; n < f.requests; {
		if strings.Contains(f.logs.Next(f.t), request) {
			n++
		}
	}
	if n := strings.Count(f.logs.String(), request); n != f.calls {
		f.t.Errorf("%d requests reached the gateway for %d calls", n, f.calls)
	}
}
