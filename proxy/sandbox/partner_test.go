package sandbox_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"billbridge/proxy/proxytest"
)

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
	for _, row := range proxytest.Rows(t, "testdata/rows/tokens.txt") {
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
}

// A file of partners needs keys and control tokens that nobody else has.
func TestPartnersOfAFile(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/rows/partnerfiles.txt") {
		list, err := sandbox.ParsePartners([]byte(row[0]))
		if err == nil {
			err = sandbox.Options{ControlToken: "operator-0123456", Partners: append(sandbox.DefaultPartners(), list...)}.Check()
		}
		if row[1] == "" && err != nil || row[1] != "" && (err == nil || !strings.Contains(err.Error(), row[1])) {
			t.Errorf("%s: %v, want %s", row[0], err, row[1])
		}
	}
}
