package sandbox_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"billbridge/proxy/sandbox"
)

// statuses returns the statuses of registrations that callbacks reported, in order.
func (p *partner) statuses(t *testing.T) (list []string) {
	for _, n := range p.received() {
		var body struct{ MappingStatus string }
		must(t, json.Unmarshal([]byte(n.body), &body))
		list = append(list, body.MappingStatus)
	}
	return list
}

// A sign-up that is completed is reported once, however it was completed. The callback has what is known of the merchant.
func TestCompletedSignUpIsReported(t *testing.T) {
	t.Parallel()
	for name, complete := range map[string]func(r *rig, page string){
		"on its page": func(r *rig, page string) { visit(r.t, http.MethodPost, page, nil) },
		"by the control API": func(r *rig, _ string) {
			r.runControl(`POST /mappings/complete {"partner":"demo-strict-key","member":"m","merchant":"s"} > 200`)
		},
		"by a temporary location": func(r *rig, _ string) {
			r.post("/auth/merchant/mapping", `{"apiKey":"demo-strict-key","memberId":"m","merchantId":"s","temporaryMerchantCd":"TEMP0001"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPartner(t, answerWith(200, `{"code":"0000"}`))
			r := start(t)
			_, reply := r.post("/auth/mapping", `{"apiKey":"demo-strict-key","memberId":"m","merchantId":"s","businessNumber":"1112233333","callbackUrl":"`+p.url+`"}`)
			var signUp struct{ Data struct{ URL string } }
			must(t, json.Unmarshal([]byte(reply), &signUp))
			equal(t, len(p.received()), 0, "before the sign-up is completed")
			for range 2 { // once more is no news
				complete(r, signUp.Data.URL)
			}
			r.awaitCallbackOf("", "COMPLETED", "delivered", 1)
			got := p.received()
			equal(t, len(got), 1, "callbacks")
			equal(t, got[0].method+" "+got[0].contentType, "POST application/json; charset=utf-8")
			equal(t, got[0].body, `{"apiKey":"demo-strict-key","member":"m","merchant":"s","companyNm":"데모상사","branchNm":"신규점",`+
				`"businessNumber":"1112233333","mappingStatus":"COMPLETED","reviewStatus":"P","regDt":"2026-03-02T12:34:56","updDt":"2026-03-02T12:34:56"}`)
			x := r.log("callback.payment")[0]
			equal(t, x.Bill+x.Before+x.After, "", "it is about a bill")
		})
	}
}

// A status can come back, and is news each time (field notes, Registration status callbacks). The merchants of a partner
// have callbacks of their own, which a restart does not lose.
func TestStatusesOfSignUpsAreReported(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(200, `{"code":"0000"}`))
	file := t.TempDir() + "/data"
	r := open(t, file, sandbox.Options{})
	for _, merchant := range []string{"s", "t"} {
		r.post("/auth/mapping", `{"apiKey":"demo-partner-key","memberId":"m","merchantId":"`+merchant+`","callbackUrl":"`+p.url+`"}`)
	}
	for i, status := range []string{"PAUSED", "COMPLETED", "PAUSED"} {
		r.runControl(`POST /mappings/notify {"partner":"demo-partner-key","member":"m","merchant":"s","status":"` + status + `"} > 200`)
		r.awaitCallbackOf("", status, "delivered", 1+i/2)
	}
	r.runControl(`
		POST /mappings/notify {"partner":"demo-partner-key","member":"m","merchant":"t","status":"REJECTED"} > 200
		POST /mappings/notify {"partner":"demo-partner-key","member":"m","merchant":"t","status":"PAUSED"} > 200
		POST /mappings/notify {"partner":"demo-partner-key","member":"m","merchant":"s","status":"CLOSED"} > 400 status: expected one of INITIALIZED
		POST /mappings/notify {"partner":"demo-partner-key","member":"m","merchant":"x","status":"PAUSED"} > 404 no such registration
		POST /mappings/notify {"partner":"demo-partner-key","member":"demo-member","merchant":"demo-store","status":"PAUSED"} > 404 with a callback
	`)
	eventually(t, func() bool { return len(p.received()) == 5 })
	got := p.statuses(t)
	equal(t, got[:3], []string{"PAUSED", "COMPLETED", "PAUSED"})
	equal(t, r.mapping()["mappingStatus"], "REQUESTED", "what is only reported changes nothing")
	eventually(t, func() bool { return len(r.Callbacks()) == 4 && r.Callbacks()[3].State == "delivered" })
	want := encode(r.Callbacks())
	must(t, r.Close())
	equal(t, encode(open(t, file, sandbox.Options{}).Callbacks()), want)
}
