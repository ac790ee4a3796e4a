package sandbox_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

const limit20, limit21 = "12345678901234567890", "123456789012345678901"

// The input of bill operations that leads to each code, and input just within the limit. TestCatalogue has all codes, and
// TestLimits all limits.
func TestCodes(t *testing.T) {
	t.Parallel()
	raw := func(s string) any { return json.RawMessage(s) }
	create := func(name string, v any) func(testCall) testCall {
		return func(q testCall) testCall { return q.with(name, v) }
	}
	rows := []struct {
		name, code, op string
		edit           func(testCall) testCall
		only           string // the only form; "" for both
		state          string // the state of an existing bill; "" for none
	}{
		{name: "key with a space", code: "PARTNER_002", op: "create", edit: create("apiKey", "demo partner")},
		{name: "key with a control character", code: "PARTNER_002", op: "create", edit: create("apiKey", "demo\x7f")},
		{name: "key before shape", code: "PARTNER_002", op: "read", edit: func(q testCall) testCall { return q.with("apiKey", "").with("billId", raw("1")) }},

		{name: "no talk, url", code: "0000", op: "create", only: "v2", edit: func(q testCall) testCall {
			return q.with("apiKey", "demo-notalk-key").with("sendType", "URL")
		}},

		{name: "no url, talk", code: "0000", op: "create", edit: create("apiKey", "demo-nourl-key")},
		{name: "no points, url", code: "0000", op: "create", only: "v2", edit: func(q testCall) testCall {
			return q.with("apiKey", "demo-nopoint-key").with("sendType", "URL")
		}},
		{name: "no member", code: "VALIDATION_001", op: "create", edit: create("member", "")},
		{name: "no merchant", code: "VALIDATION_001", op: "read", edit: create("merchant", "")},
		{name: "no id", code: "VALIDATION_001", op: "create", edit: create("billId", omitted{})},
		{name: "no id, read", code: "VALIDATION_001", op: "read", edit: create("billId", omitted{})},
		{name: "null id", code: "VALIDATION_001", op: "read", edit: create("billId", raw("null"))},
		{name: "id with a hyphen", code: "0000", op: "create", edit: create("billId", "bill-1")},
		{name: "id with a dot", code: "VALIDATION_001", op: "create", edit: create("billId", "bill.1")},
		{name: "id with a space", code: "VALIDATION_001", op: "create", edit: create("billId", "bill 1")},
		{name: "id with a dash of another kind", code: "VALIDATION_001", op: "create", edit: create("billId", "bill–1")},
		{name: "id of 21, read", code: "BILL_003", op: "read", edit: create("billId", limit21)},
		{name: "no send type", code: "BILL_008", op: "create", only: "v2", edit: create("sendType", omitted{})},
		{name: "null send type", code: "BILL_008", op: "create", only: "v2", edit: create("sendType", raw("null"))},
		{name: "another send type", code: "BILL_008", op: "create", only: "v2", edit: create("sendType", "talk")},
		{name: "no price", code: "VALIDATION_001", op: "create", edit: create("price", omitted{})},
		{name: "price with a fraction", code: "VALIDATION_001", op: "create", edit: create("price", "30000.0")},
		{name: "price with an exponent", code: "VALIDATION_001", op: "create", edit: create("price", "3e4")},
		{name: "negative price", code: "VALIDATION_001", op: "create", edit: create("price", "-30000")},
		{name: "price of a word", code: "VALIDATION_001", op: "create", edit: create("price", raw(`"many"`))},
		{name: "numeric price with a fraction in legacy", code: "VALIDATION_001", op: "create", only: "legacy", edit: create("price", raw("30000.0"))},
		{name: "numeric price with an exponent in legacy", code: "VALIDATION_001", op: "create", only: "legacy", edit: create("price", raw("3e4"))},
		{name: "negative numeric price in legacy", code: "VALIDATION_001", op: "create", only: "legacy", edit: create("price", raw("-30000"))},
		{name: "numeric price below the minimum in legacy", code: "PAYMENT_003", op: "create", only: "legacy", edit: func(q testCall) testCall {
			return q.with("price", raw("99")).with("hash", sign(billID, "01012345678", "99"))
		}},
		{name: "price of 0", code: "PAYMENT_003", op: "create", edit: create("price", "0")},
		{name: "price of 30 digits", code: "0000", op: "create", edit: create("price", strings.Repeat("9", 30))},
		{name: "no phone", code: "0000", op: "create", edit: create("phone", omitted{})},
		{name: "empty phone", code: "0000", op: "create", edit: create("phone", "")},
		{name: "phone with hyphens", code: "0000", op: "create", edit: create("phone", "010-1234-5678")},
		{name: "old phone", code: "0000", op: "create", edit: create("phone", "0111234567")},
		{name: "land line", code: "VALIDATION_004", op: "create", edit: create("phone", "0212345678")},
		{name: "short phone", code: "VALIDATION_004", op: "create", edit: create("phone", "010123456")},
		{name: "long phone", code: "VALIDATION_004", op: "create", edit: create("phone", "010123456789")},
		{name: "expiry of another format", code: "VALIDATION_001", op: "create", edit: create("expireDt", "20260331")},
		{name: "no expiry", code: "0000", op: "create", edit: create("expireDt", omitted{})},
		{name: "expiry of no day", code: "VALIDATION_001", op: "create", edit: create("expireDt", "2026-02-30")},
		{name: "callback address without a scheme", code: "VALIDATION_001", op: "create", edit: create("callbackUrl", "undefined/api/webhook")},
		{name: "callback address of another scheme", code: "VALIDATION_001", op: "create", edit: create("callbackUrl", "ftp://partner.example.com/cb")},
		{name: "callback address without a host", code: "VALIDATION_001", op: "create", edit: create("callbackUrl", "https:///cb")},
		{name: "callback address of a port alone", code: "VALIDATION_001", op: "create", edit: create("callbackUrl", "https://:8080/cb")},
		{name: "callback address with a space in its host", code: "VALIDATION_001", op: "create", edit: create("callbackUrl", "https://a b/cb")},
		{name: "callback address with a secret in its query", code: "0000", op: "create", edit: create("callbackUrl", "HTTPS://partner.example.com:8443/cb?token=a%20b&x=1")},
		{name: "callback address with a Hangul domain", code: "0000", op: "create", edit: create("callbackUrl", "http://결제.example/cb")},
		{name: "empty callback address", code: "0000", op: "create", edit: create("callbackUrl", "")},
		{name: "no hash", code: "VALIDATION_001", op: "create", edit: create("hash", omitted{})},
		{name: "no hash, destroy", code: "VALIDATION_001", op: "destroy", state: "W", edit: create("hash", omitted{})},
		{name: "wrong hash before amount", code: "VALIDATION_002", op: "create", edit: func(q testCall) testCall { return q.with("price", "1").with("hash", "00") }},
		{name: "bill of another partner", code: "BILL_003", op: "read", state: "W", edit: create("apiKey", "demo-nourl-key")},
		{name: "bill of another member", code: "BILL_003", op: "read", state: "W", edit: create("member", "demo-store")},
		{name: "bill of another merchant", code: "BILL_003", op: "cancel", state: "F", edit: create("merchant", "demo-member")},
		{name: "part of the amount, destroy", code: "VALIDATION_001", op: "destroy", state: "W", edit: create("price", "29999")},
		{name: "part of the amount, cancel", code: "VALIDATION_001", op: "cancel", state: "F", edit: create("price", "29999")},
		{name: "no price, cancel", code: "VALIDATION_001", op: "cancel", state: "F", edit: func(q testCall) testCall { return q.with("price", omitted{}).with("hash", "00") }},
	}
	for _, row := range rows {
		for _, form := range forms {
			if row.only != "" && row.only != form {
				continue
			}
			t.Run(form+"/"+row.op+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{})
				if row.state != "" {
					r.createInState(row.state)
				}
				q := newCall(form, row.op)
				if row.edit != nil {
					q = row.edit(q)
				}
				before := encode(r.Bills())
				code, body := r.do(q)
				if code != row.code {
					t.Errorf("got %s, want %s: %s", code, row.code, body)
				}
				if after := encode(r.Bills()); row.code != "0000" && after != before {
					t.Errorf("a refusal changed the store:\n%s%s", before, after)
				}
				if q.key != "" && row.code != "0000" && strings.Contains(body, q.key) {
					t.Errorf("a refusal shows the key: %s", body)
				}
			})
		}
	}
}

// Requests that are not calls of the interface are answered with the envelope of their form.
func TestInvalidRequestsHaveTheEnvelopeOfTheirForm(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	rows := []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"unknown path", "POST", "/nothing", "{}", 404, "ERROR"},
		{"root", "GET", "/", "", 404, "ERROR"},
		{"unknown legacy path", "POST", "/if/bill/nothing", "{}", 404, "ERROR"},
		{"slash at the end", "POST", "/bill/", "{}", 404, "ERROR"},
		{"slash at the end, legacy", "POST", "/if/bill/read/", "{}", 404, "ERROR"},
		{"double slash", "POST", "//if/bill/cancel", "{}", 200, "PARTNER_002"},
		{"dots", "POST", "/bill/../bill", "{}", 404, "ERROR"},
		{"another case", "POST", "/Bill", "{}", 404, "ERROR"},
		{"escaped", "POST", "/bil%6C", "{}", 404, "ERROR"},
		{"get", "GET", "/bill/read", "", 405, "ERROR"},
		{"put, legacy", "PUT", "/if/bill/read", "{}", 405, "ERROR"},
		{"empty body", "POST", "/bill", "", 200, "VALIDATION_001"},
		{"empty body, legacy", "POST", "/if/bill/send", "", 200, "VALIDATION_001"},
		{"no JSON", "POST", "/bill/read", "{", 200, "VALIDATION_001"},
		{"an array", "POST", "/read/mapping", "[]", 200, "VALIDATION_001"},
		{"a string", "POST", "/if/bill/read", `"x"`, 200, "VALIDATION_001"},
		{"null", "POST", "/if/bill/read", `null`, 200, "VALIDATION_001"},
		{"two documents", "POST", "/bill/read", `{} {}`, 200, "VALIDATION_001"},
		{"broken UTF-8", "POST", "/bill/read", "{\"apiKey\":\"\xff\"}", 200, "VALIDATION_001"},
		{"a name twice", "POST", "/bill/read", `{"apiKey":"demo-partner-key","\u0061piKey":"x"}`, 200, "VALIDATION_001"},
		{"a bill's name twice", "POST", "/bill/read", `{"apiKey":"demo-partner-key","member":"m","merchant":"m","bill":{"billId":"1","billId":"2"}}`, 200, "VALIDATION_001"},
		{"a bill that is no object", "POST", "/bill/read", `{"apiKey":"demo-partner-key","member":"m","merchant":"m","bill":[]}`, 200, "VALIDATION_001"},
		{"no bill", "POST", "/bill/read", `{"apiKey":"demo-partner-key","member":"m","merchant":"m"}`, 200, "VALIDATION_001"},
		{"the other form's names", "POST", "/if/bill/read", `{"apiKey":"demo-partner-key","member":"m","merchant":"m","billId":"1"}`, 200, "PARTNER_002"},
		{"names in another case", "POST", "/bill/read", `{"apikey":"demo-partner-key"}`, 200, "PARTNER_002"},
		{"a key of a number", "POST", "/bill/read", `{"apiKey":7}`, 200, "PARTNER_002"},
		{"deep", "POST", "/bill", strings.Repeat("[", 1<<19), 200, "VALIDATION_001"},
		{"at the limit", "POST", "/bill", strings.Repeat(" ", 1<<20-2) + "{}", 200, "PARTNER_002"},
		{"over the limit", "POST", "/bill", strings.Repeat(" ", 1<<20-1) + "{}", 413, "VALIDATION_001"},
		{"over the limit, legacy", "POST", "/if/bill/send", strings.Repeat(" ", 1<<20) + "{}", 413, "VALIDATION_001"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			form := "v2"
			if strings.Contains(row.path, "/if/") {
				form = "legacy"
			}
			status, body := send(t, row.method, r.url+row.path, row.body)
			if code := codeOf(t, form, body); status != row.status || code != row.code {
				t.Errorf("got %d %s, want %d %s: %s", status, code, row.status, row.code, body)
			}
		})
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	for given, want := range map[string]int{
		"": 200, "application/json": 200, "application/json; charset=utf-8": 200,
		"text/plain": 415, "application/jsonx": 415, ";": 415,
	} {
		req, err := http.NewRequest(http.MethodPost, r.url+"/if/bill/read", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if given != "" {
			req.Header.Set("Content-Type", given)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: got %d, want %d", given, res.StatusCode, want)
		}
	}
}

func TestMethodNotAllowedNamesPost(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	res, err := http.Get(r.url + "/bill")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Values("Allow"); !slices.Equal(got, []string{"POST"}) {
		t.Errorf("Allow: %q", got)
	}
}

func TestRefusalNamesTheField(t *testing.T) {
	t.Parallel()
	r := start(t, sandbox.Options{})
	for form, want := range map[string]string{
		"v2":     `{"code":"VALIDATION_001","message":"필수 값이 없거나 형식이 올바르지 않습니다. (bill.expireDt)","data":null}`,
		"legacy": `{"code":"VALIDATION_001","msg":"필수 값이 없거나 형식이 올바르지 않습니다. (bill.expire_dt)"}`,
	} {
		if _, got := r.do(newCall(form, "create").with("expireDt", "soon")); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	_, got := r.post("/bill/read", `{"apiKey":"demo-partner-key","member":"m","merchant":"m","bill":[]}`)
	if !strings.Contains(got, "(bill)") {
		t.Errorf("a bill that is no object: %s", got)
	}
	if _, got := r.do(newCall("legacy", "destroy").with("price", omitted{})); !strings.Contains(got, "(price)") {
		t.Errorf("a legacy destroy keeps its price at the top: %s", got)
	}
}
