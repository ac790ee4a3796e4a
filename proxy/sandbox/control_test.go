package sandbox_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"billbridge/proxy/sandbox"
)

func (r *rig) ctl(method, path, body string) (int, string) {
	r.t.Helper()
	return send(r.t, method, r.control+path, body)
}

func TestControlPays(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.must(newCall("legacy", "create"))
	r.must(newCall("v2", "create").with("billId", "SHARED"))
	r.must(newCall("v2", "create").with("billId", "SHARED").with("apiKey", "demo-nourl-key"))
	r.runControl(`
		GET /bills/{bill} > 200 "state":"W"
		POST /bills/{bill}/pay {"method":"BARTER"} > 400 "error"
		POST /bills/{bill}/pay {"moths":3} > 400 moths
		POST /bills/{bill}/pay { > 400 "error"
		POST /bills/{bill}/pay {"method":"KEYIN","months":6} > 200 "months":"06"
		POST /bills/{bill}/pay > 409 its state is F
		GET /bills/{bill} > 200 "state":"F"
		POST /bills/NONE/pay > 404 no such bill
		GET /bills/NONE > 404 no such bill
		POST /bills/SHARED/pay > 409 name the partner
		GET /bills/SHARED > 409 name the partner
		POST /bills/SHARED/pay {"partner":"demo-nourl-key"} > 200 "state":"F"
		GET /bills/SHARED?partner=demo-partner-key > 200 "state":"W"
		POST /bills/SHARED/pay {"partner":"nobody"} > 404 no such bill
		POST /forwards {"forwarder":"f"} > 404 name the one of the callbacks
		POST /forwards {"partner":"nobody","forwarder":"f"} > 404 no such partner
		POST /forwards {"partner":"demo-partner-key","forwarder":"f","wait":1} > 400 wait
		GET /nothing > 404 "error"
		PUT /bills > 405 "error"
	`)
	for query, want := range map[string]int{"": 3, "?partner=demo-nourl-key": 1, "?partner=nobody": 0} {
		_, body := r.ctl(http.MethodGet, "/bills"+query, "")
		var list []sandbox.Bill
		if err := json.Unmarshal([]byte(body), &list); err != nil || list == nil || len(list) != want {
			t.Errorf("%q: %d bills, %v", query, len(list), err)
		}
	}
}

func TestControlPartners(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, body := r.ctl(http.MethodGet, "/partners", "")
	var got []any
	must(t, json.Unmarshal([]byte(body), &got))
	var want []any
	for _, p := range sandbox.DefaultPartners() {
		stores := []any{}
		for _, s := range p.Merchants {
			stores = append(stores, map[string]any{
				"partner": p.Key, "member": s.MemberID, "merchant": s.MerchantID, "status": "COMPLETED", "callback_url": "", "redirect_url": "",
				"company_name": s.Company, "branch_name": s.Branch, "ceo_name": s.CEO, "email": s.Email, "business_number": s.Number,
				"closed": s.Closed, "suspended": s.Suspended, "registered": "2026-03-02T12:34:56+09:00", "updated": "2026-03-02T12:34:56+09:00",
			})
		}
		view := map[string]any{
			"api_key": p.Key, "name": p.Name, "stores": stores, "strict": p.Strict,
			"not_linked": p.NotLinked, "removed": p.Removed, "no_contract": p.NoContract, "no_billing": p.NoBilling,
			"no_talk": p.NoTalk, "no_url": p.NoURL, "prepaid": p.Prepaid, "points": float64(p.Points),
		}
		if p.Strict {
			view["temporary"] = []any{
				map[string]any{"code": "TEMP0001", "deleted": false}, map[string]any{"code": "TEMP0002", "deleted": true},
			}
		}
		want = append(want, view)
		if len(p.Key) > 32 || p.Merchants[0].MerchantID != "demo-store" {
			t.Errorf("%+v", p)
		}
	}
	equal(t, got, want)
	has(t, body, `"removed":true`)
	create := newCall("legacy", "create").with("apiKey", "demo-nopoint-key")
	gives(t, "POINT_001")(r.do(create))
	gives(t, 200)(r.ctl(http.MethodPost, "/points", `{"partner":"demo-nopoint-key","points":1}`))
	r.must(create)
}

func TestCallsAreCountedByOperation(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.must(newCall("legacy", "create"))
	r.do(newCall("v2", "create"))
	r.must(newCall("v2", "read"))
	r.post("/bill/cancel", "no JSON")
	r.post("/nothing", "{}")
	send(t, http.MethodGet, r.url+"/bill", "")
	for _, path := range []string{"/auth/mapping", "/read/mapping", "/auth/mapping/status", "/auth/merchant/mapping", "/read/merchant", "/if/bill/resend", "/if/bill/destroy"} {
		r.post(path, "{}")
	}
	want := map[string]int{
		"bill.create": 2, "bill.read": 1, "bill.cancel": 1, "bill.resend": 1, "bill.destroy": 1, "none": 2,
		"mapping.register": 1, "mapping.list": 1, "mapping.status": 1, "merchant.map": 1, "merchant.list": 1,
	}
	if got := r.Calls(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// points returns the points of the demo partner.
func (r *rig) points() int {
	r.t.Helper()
	_, body := r.ctl(http.MethodGet, "/partners", "")
	var list []struct {
		Key    string `json:"api_key"`
		Points int
	}
	must(r.t, json.Unmarshal([]byte(body), &list))
	for _, p := range list {
		if p.Key == demoKey {
			return p.Points
		}
	}
	r.t.Fatalf("no %s in %s", demoKey, body)
	return 0
}
