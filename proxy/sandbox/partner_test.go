package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// Partners are added, changed and removed while the sandbox runs. With a data file they stay.
func TestPartnersAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data")
	r := open(t, file, sandbox.Options{})
	create := newCall("v2", "create").with("apiKey", "new-key")
	expect := func(what, want string, q testCall) {
		t.Helper()
		gives(t, want, what)(r.do(q))
	}
	expect("before", "PARTNER_003", create)
	r.runControl(`POST /partners {"api_key":"new-key","name":"n","strict":true,"merchants":[{"member":"demo-member","merchant":"demo-store"}]} > 200 {}`)
	expect("added", "0000", create)
	expect("strict", "PARTNER_003", create.with("merchant", "elsewhere").with("billId", "B2"))
	r.runControl(`
		POST /partners {"api_key":"new-key","name":"n"} > 200
		POST /partners {"api_key":"points-key","prepaid":true,"points":1} > 200
		POST /partners {"api_key":""} > 400 api_key
		POST /partners {"api_key":"with space"} > 400 api_key
		POST /partners {"api_key":"x","nane":"n"} > 400 nane
		DELETE /partners/nobody > 404 no such partner
		GET /partners?partner=new-key > 200 "strict":false
	`)
	expect("no longer strict", "0000", create.with("merchant", "elsewhere").with("billId", "B2"))
	points := newCall("legacy", "create").with("apiKey", "points-key")
	expect("one point", "0000", points)
	expect("no point", "POINT_001", points.with("billId", "B2"))
	for range 2 {
		r.runControl(`DELETE /partners/points-key > 200`)
		expect("removed", "PARTNER_005", points.with("billId", "B3"))
		must(t, r.Close())
		r = open(t, file, sandbox.Options{})
		expect("after a restart", "0000", newCall("v2", "read").with("apiKey", "new-key"))
	}
	if status, body := r.ctl(http.MethodGet, "/bills?partner=points-key", ""); status != 200 || !strings.Contains(body, billID) {
		t.Errorf("the bills of a removed partner: %s", body)
	}
	r.runControl(`POST /partners {"api_key":"points-key"} > 200`)
	expect("added again", "0000", points.with("billId", "B3"))
}

// tokenRows are calls with the token of partner a, who has the bill A1; partner b has the bill B1. * is any status.
const tokenRows = `
GET /partners                    |                                                 | 200 | a-key      | b-key
GET /partners?partner=b-key      |                                                 | 403 | a partner
GET /bills                       |                                                 | 200 | "A1"       | "B1"
GET /bills/A1                    |                                                 | 200 | "A1"
GET /bills/B1                    |                                                 | 404 | no such bill
GET /bills/B1?partner=b-key      |                                                 | 403 | a partner
POST /bills/B1/pay               |                                                 | 404 | no such bill
POST /bills/B1/pay               | {"partner":"b-key"}                             | 403 | a partner
POST /bills/A1/pay               |                                                 | 200 | "state":"F"
POST /bills/B1/notify            |                                                 | 404 | no such bill
GET /callbacks                   |                                                 | 200 | "A1"       | "B1"
POST /forwards                   | {"forwarder":"f"}                               | 200 | "id":""
POST /forwards                   | {"partner":"b-key","forwarder":"f"}             | 403 | a partner
POST /forwards/1                 | {"partner":"b-key"}                             | 403 | a partner
POST /forwards/1                 |                                                 | 404 | has ended
GET /log                         |                                                 | 200 | a-key      | b-key
GET /log?partner=b-key           |                                                 | 403 | a partner
GET /clock                       |                                                 | 200 | now
POST /faults                     | {"operation":"bill.read","code":"X_1"}          | 200 | "partner":"a-key"
POST /faults                     | {"partner":"b-key","code":"X_1"}                | 403 | a partner
POST /points                     | {"partner":"b-key","points":3}                  | 403 | a partner
POST /points                     | {"points":3}                                    | 200 | a-key
POST /clock                      | {"advance":"1h"}                                | 403 | a partner
DELETE /clock                    |                                                 | 403 | a partner
POST /partners                   | {"api_key":"c-key"}                             | 403 | a partner
DELETE /partners/b-key           |                                                 | 403 | a partner
GET /transactions/TX000000000001 |                                                 | 403 | a partner
`

// With the control token of a partner the control API shows and changes what that partner has, and nothing else.
func TestControlTokenOfAPartner(t *testing.T) {
	t.Parallel()
	callbacks := newPartner(t, answerWith(200, successAnswer))
	r := start(t, sandbox.Options{ControlToken: "operator", Partners: []sandbox.Partner{
		{Key: "a-key", ControlToken: "token-a"}, {Key: "b-key", ControlToken: "token-b"},
	}})
	for key, bill := range map[string]string{"a-key": "A1", "b-key": "B1"} {
		r.must(newCall("v2", "create").with("apiKey", key).with("billId", bill).with("callbackUrl", callbacks.url))
	}
	must(t, r.Pay("b-key", "B1"))
	ask := func(token, request, body string) (int, string) {
		v := arrivalOf(request, "127.0.0.1", "127.0.0.1:8082", "Authorization=Bearer "+token, body)
		return v.of(r.Control())
	}
	for _, row := range rowsOf(tokenRows) {
		status, body := ask("token-a", row[0], row[1])
		if fmt.Sprint(status) != row[2] || !strings.Contains(body, row[3]) || len(row) > 4 && strings.Contains(body, row[4]) {
			t.Errorf("%s %s: %d %s, want %s", row[0], row[1], status, body, row[2:])
		}
		lacks(t, body, "token-", row[0])
	}
	for key, want := range map[string]string{"b-key": "0000", "a-key": "X_1"} {
		gives(t, want, key)(r.do(newCall("v2", "read").with("apiKey", key).with("billId", strings.ToUpper(key[:1])+"1")))
	}
	r.Fault(sandbox.Fault{Partner: "b-key", Operation: "bill.read", Code: "X_2"})
	r.Fault(sandbox.Fault{Partner: "a-key", Operation: "bill.read", Code: "X_3"})
	gives(t, 200)(ask("token-a", "DELETE /faults", ""))
	for key, want := range map[string]string{"b-key": "X_2", "a-key": "0000"} {
		gives(t, want, key)(r.do(newCall("v2", "read").with("apiKey", key).with("billId", strings.ToUpper(key[:1])+"1")))
	}
	for token, want := range map[string]int{"operator": 200, "token-b": 200, "token-c": 401, "": 401} {
		if status, body := ask(token, "GET /bills", ""); status != want || want == 200 && !strings.Contains(body, "B1") {
			t.Errorf("%q: %d %s", token, status, body)
		}
	}
	must(t, r.RemovePartner("b-key"))
	gives(t, http.StatusUnauthorized, "the token of a removed partner")(ask("token-b", "GET /bills", ""))
}

// A control token is that of one partner. Else who has it would see what another partner has.
func TestControlTokenIsOfOnePartner(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data")
	a := []sandbox.Partner{{Key: "a-key", ControlToken: "token-a"}}
	r := open(t, file, sandbox.Options{ControlToken: "operator", Partners: a})
	add := func(key, token, want string) {
		t.Helper()
		v := arrivalOf("POST /partners", "127.0.0.1", "127.0.0.1:8082", "Authorization=Bearer operator",
			fmt.Sprintf(`{"api_key":%q,"control_token":%q}`, key, token))
		if status, body := v.of(r.Control()); fmt.Sprint(status) != want {
			t.Errorf("%s with %s: %d %s, want %s", key, token, status, body, want)
		}
	}
	add("b-key", "token-a", "400")
	add("b-key", "operator", "400")
	add("b-key", "token-b", "200")
	add("b-key", "token-b", "200")
	add("c-key", "", "200")
	add("d-key", "", "200")
	must(t, r.RemovePartner("a-key"))
	add("b-key", "token-a", "200")
	add("a-key", "token-a", "400")
	must(t, r.Close())
	for _, o := range []sandbox.Options{{ControlToken: "token-a"}, {ControlToken: "operator", Partners: a}} {
		if s, err := sandbox.Open(file, o); err == nil || !strings.Contains(err.Error(), "control_token") {
			_ = s.Close()
			t.Errorf("%+v: %v", o, err)
		}
	}
	must(t, open(t, file, sandbox.Options{ControlToken: "operator"}).Close())
	// A file of an earlier version can have a token twice. It opens, so that the control API can change one of the two.
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, append(data, `{"contracts":[{"api_key":"c-key","control_token":"token-a"}]}`+"\n"...), 0o600))
	r = open(t, file, sandbox.Options{ControlToken: "operator"})
	add("c-key", "token-c", "200")
}

// Without the service's token a request on loopback may do everything, and a partner's token still limits it.
func TestControlTokenOfAPartnerOnLoopback(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{Partners: []sandbox.Partner{{Key: "a-key", ControlToken: "token-a"}}})
	for token, want := range map[string]int{"token-a": 403, "": 200, "other": 200} {
		w := httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8082/transactions/x", nil)
		q.Header.Set("Authorization", "Bearer "+token)
		s.Control().ServeHTTP(w, q)
		equal(t, w.Code, want, token)
	}
}

// partnerFiles are lists of partners, and why they are refused; nothing if they are not.
const partnerFiles = `
[{"api_key":"a","name":"n","control_token":"token-0123456789"}]                                                              |
[]                                                                                                                            |
{}                                                                                                                            | cannot unmarshal object
[{"api_key":"a","color":1,"control_token":"token-0123456789"}]                                                               | unknown field "color"
[{"api_key":"","control_token":"token-0123456789"}]                                                                          | api_key: expected 1 to 32
[{"api_key":"a","name":"n"}]                                                                                                 | control_token of "n": expected at least 16 characters
[{"api_key":"a","control_token":"token-0123456789"},{"api_key":"a","control_token":"other-0123456789"}]                      | two partners have the same key
[{"api_key":"demo-partner-key","control_token":"token-0123456789"}]                                                          | two partners have the same key
[{"api_key":"a","control_token":"token-0123456789"},{"api_key":"b","control_token":"token-0123456789"}]                      | it is that of another partner
[{"api_key":"a","control_token":"operator-0123456"}]                                                                         | it is that of another partner, or that of the operator
`

// A file of partners needs keys and control tokens that nobody else has.
func TestPartnersOfAFile(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOf(partnerFiles) {
		list, err := sandbox.ParsePartners([]byte(row[0]))
		if err == nil {
			err = sandbox.Options{ControlToken: "operator-0123456", Partners: append(sandbox.DefaultPartners(), list...)}.Check()
		}
		if row[1] == "" && err != nil || row[1] != "" && (err == nil || !strings.Contains(err.Error(), row[1])) {
			t.Errorf("%s: %v, want %s", row[0], err, row[1])
		}
	}
}
