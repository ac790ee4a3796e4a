package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const limit20, limit21 = "12345678901234567890", "123456789012345678901"

// codeRows are the rows of TestCodes: a name, the code, the operation, which may have a form and the state of an existing
// bill, and the values that the call has instead of those of newCall.
const codeRows = `
key with a space                                | PARTNER_002    | create        | apiKey="demo partner"
key with a control character                    | PARTNER_002    | create        | apiKey="demo\u007f"
key before shape                                | PARTNER_002    | read          | apiKey=""; billId=1
no talk, url | 0000 | create v2 | apiKey="demo-notalk-key"; sendType="URL"
no url, talk                                    | 0000           | create        | apiKey="demo-nourl-key"
no points, url | 0000 | create v2 | apiKey="demo-nopoint-key"; sendType="URL"
no member                                       | VALIDATION_001 | create        | member=""
no merchant                                     | VALIDATION_001 | read          | merchant=""
no id                                           | VALIDATION_001 | create        | no billId
no id, read                                     | VALIDATION_001 | read          | no billId
null id                                         | VALIDATION_001 | read          | billId=null
id with a hyphen                                | 0000           | create        | billId="bill-1"
id with a dot                                   | VALIDATION_001 | create        | billId="bill.1"
id with a space                                 | VALIDATION_001 | create        | billId="bill 1"
id with a dash of another kind                  | VALIDATION_001 | create        | billId="bill–1"
id of 21, read                                  | BILL_003       | read          | billId="123456789012345678901"
no send type                                    | BILL_008       | create v2     | no sendType
null send type                                  | BILL_008       | create v2     | sendType=null
another send type                               | BILL_008       | create v2     | sendType="talk"
no price                                        | VALIDATION_001 | create        | no price
price with a fraction                           | VALIDATION_001 | create        | price="30000.0"
price with an exponent                          | VALIDATION_001 | create        | price="3e4"
negative price                                  | VALIDATION_001 | create        | price="-30000"
price of a word                                 | VALIDATION_001 | create        | price="\"many\""
numeric price with a fraction in legacy         | VALIDATION_001 | create legacy | price=30000.0
numeric price with an exponent in legacy        | VALIDATION_001 | create legacy | price=3e4
negative numeric price in legacy                | VALIDATION_001 | create legacy | price=-30000
numeric price below the minimum in legacy       | PAYMENT_003    | create legacy | price=99
price of 0                                      | PAYMENT_003    | create        | price="0"
price of 30 digits | 0000 | create | price="999999999999999999999999999999"
no phone                                        | 0000           | create        | no phone
empty phone                                     | 0000           | create        | phone=""
phone with hyphens                              | 0000           | create        | phone="010-1234-5678"
old phone                                       | 0000           | create        | phone="0111234567"
land line                                       | VALIDATION_004 | create        | phone="0212345678"
short phone                                     | VALIDATION_004 | create        | phone="010123456"
long phone                                      | VALIDATION_004 | create        | phone="010123456789"
expiry of another format                        | VALIDATION_001 | create        | expireDt="20260331"
no expiry                                       | 0000           | create        | no expireDt
expiry of no day                                | VALIDATION_001 | create        | expireDt="2026-02-30"
callback address without a scheme               | 0000 | create        | callbackUrl="undefined/api/webhook"
callback address with a space in its host       | 0000 | create        | callbackUrl="https://a b/cb"
callback address with a secret in its query | 0000 | create | callbackUrl="HTTPS://partner.example.com:8443/cb?token=a%20b&x=1"
callback address with a Hangul domain           | 0000           | create        | callbackUrl="http://결제.example/cb"
empty callback address                          | 0000           | create        | callbackUrl=""
no hash                                         | VALIDATION_001 | create        | no hash
no hash, destroy                                | VALIDATION_001 | destroy W     | no hash
wrong hash before amount                        | VALIDATION_002 | create        | price="1"; hash="00"
bill of another partner                         | BILL_003       | read W        | apiKey="demo-nourl-key"
bill of another member                          | BILL_003       | read W        | member="demo-store"
bill of another merchant                        | BILL_003       | cancel F      | merchant="demo-member"
part of the amount, destroy                     | VALIDATION_001 | destroy W     | price="29999"
part of the amount, cancel                      | VALIDATION_001 | cancel F      | price="29999"
no price, cancel                                | VALIDATION_001 | cancel F      | no price; hash="00"
`

// The input of bill operations that leads to each code, and input just within the limit. TestCatalogue has all codes, and
// TestLimits all limits.
func TestCodes(t *testing.T) {
	t.Parallel()
	for _, cells := range rowsOf(codeRows) {
		want, call := cells[1], strings.Fields(cells[2])
		for _, form := range forms {
			if other := forms[1-slices.Index(forms, form)]; slices.Contains(call, other) {
				continue
			}
			t.Run(form+"/"+call[0]+"/"+cells[0], func(t *testing.T) {
				t.Parallel()
				r := start(t)
				if state := call[len(call)-1]; state == "W" || state == "F" {
					r.createInState(state)
				}
				q := newCall(form, call[0])
				for value := range strings.SplitSeq(cells[3], "; ") {
					q = q.changed(t, value)
				}
				before := encode(r.Bills())
				code, body := r.do(q)
				equal(t, code, want, body)
				if after := encode(r.Bills()); want != "0000" && after != before {
					t.Errorf("a refusal changed the store:\n%s%s", before, after)
				}
				if q.key != "" && want != "0000" && strings.Contains(body, q.key) {
					t.Errorf("a refusal shows the key: %s", body)
				}
			})
		}
	}
}

// changed returns the call with a value, as in price=99 or member="", or without one, as in no price.
func (q testCall) changed(t *testing.T, value string) testCall {
	t.Helper()
	if name, ok := strings.CutPrefix(value, "no "); ok {
		return q.with(name, omitted{})
	}
	name, raw, _ := strings.Cut(value, "=")
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	if _, text := v.(string); !text {
		v = json.RawMessage(raw)
	}
	return q.with(name, v)
}

// invalidRequests are the rows of TestInvalidRequestsHaveTheEnvelopeOfTheirForm: a name, the request, status and code, and
// the body.
const invalidRequests = `
unknown path              | POST /nothing            | 404 ERROR          | {}
root                      | GET /                    | 404 ERROR          |
unknown legacy path       | POST /if/bill/nothing    | 404 ERROR          | {}
slash at the end          | POST /bill/              | 404 ERROR          | {}
slash at the end, legacy  | POST /if/bill/read/      | 404 ERROR          | {}
double slash              | POST //if/bill/cancel    | 200 PARTNER_002    | {}
dots                      | POST /bill/../bill       | 404 ERROR          | {}
another case              | POST /Bill               | 404 ERROR          | {}
escaped                   | POST /bil%6C             | 404 ERROR          | {}
get                       | GET /bill/read           | 405 ERROR          |
put, legacy               | PUT /if/bill/read        | 405 ERROR          | {}
empty body                | POST /bill               | 200 VALIDATION_001 |
empty body, legacy        | POST /if/bill/send       | 200 VALIDATION_001 |
no JSON                   | POST /bill/read          | 200 VALIDATION_001 | {
an array                  | POST /read/mapping       | 200 VALIDATION_001 | []
a string                  | POST /if/bill/read       | 200 VALIDATION_001 | "x"
null                      | POST /if/bill/read       | 200 VALIDATION_001 | null
two documents             | POST /bill/read          | 200 VALIDATION_001 | {} {}
a name twice | POST /bill/read | 200 VALIDATION_001 | {"apiKey":"demo-partner-key","\u0061piKey":"x"}
a bill's name twice | POST /bill/read | 200 VALIDATION_001 | {"apiKey":"demo-partner-key","member":"m","merchant":"m","bill":{"billId":"1","billId":"2"}}
a bill that is no object | POST /bill/read | 200 VALIDATION_001 | {"apiKey":"demo-partner-key","member":"m","merchant":"m","bill":[]}
no bill | POST /bill/read | 200 VALIDATION_001 | {"apiKey":"demo-partner-key","member":"m","merchant":"m"}
the other form's names | POST /if/bill/read | 200 PARTNER_002 | {"apiKey":"demo-partner-key","member":"m","merchant":"m","billId":"1"}
names in another case     | POST /bill/read          | 200 PARTNER_002    | {"apikey":"demo-partner-key"}
a key of a number         | POST /bill/read          | 200 PARTNER_002    | {"apiKey":7}
`

// Requests that are not calls of the interface are answered with the envelope of their form.
func TestInvalidRequestsHaveTheEnvelopeOfTheirForm(t *testing.T) {
	t.Parallel()
	r := start(t)
	rows := append(rowsOf(invalidRequests), [][]string{
		{"broken UTF-8", "POST /bill/read", "200 VALIDATION_001", "{\"apiKey\":\"\xff\"}"},
		{"deep", "POST /bill", "200 VALIDATION_001", strings.Repeat("[", 1<<19)},
		{"at the limit", "POST /bill", "200 PARTNER_002", strings.Repeat(" ", 1<<20-2) + "{}"},
		{"over the limit", "POST /bill", "413 VALIDATION_001", strings.Repeat(" ", 1<<20-1) + "{}"},
		{"over the limit, legacy", "POST /if/bill/send", "413 VALIDATION_001", strings.Repeat(" ", 1<<20) + "{}"},
	}...)
	for _, row := range rows {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(row[1], " ")
			form := "v2"
			if strings.Contains(path, "/if/") {
				form = "legacy"
			}
			status, body := send(t, method, r.url+path, row[3])
			equal(t, fmt.Sprint(status, " ", codeOf(t, form, body)), row[2], body)
		})
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	r := start(t)
	for given, want := range map[string]int{
		"": 200, "application/json": 200, "application/json; charset=utf-8": 200,
		"text/plain": 415, "application/jsonx": 415, ";": 415,
	} {
		req, err := http.NewRequest(http.MethodPost, r.url+"/if/bill/read", strings.NewReader("{}"))
		must(t, err)
		if given != "" {
			req.Header.Set("Content-Type", given)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		res.Body.Close()
		equal(t, res.StatusCode, want, given)
	}
}

func TestMethodNotAllowedNamesPost(t *testing.T) {
	t.Parallel()
	r := start(t)
	res, err := http.Get(r.url + "/bill")
	must(t, err)
	res.Body.Close()
	if got := res.Header.Values("Allow"); !slices.Equal(got, []string{"POST"}) {
		t.Errorf("Allow: %q", got)
	}
}
