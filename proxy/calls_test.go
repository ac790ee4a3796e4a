package proxy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"pgregory.net/rapid"
)

const (
	demoKey  = "demo-partner-key"
	demoBill = "1234567890ABCDEFGHIJ"
)

// The five bill operations, and those that are writes.
var (
	operations = []string{"create", "resend", "read", "destroy", "cancel"}
	writes     = []string{"create", "resend", "destroy", "cancel"}
)

func isWrite(op string) bool { return slices.Contains(writes, op) }

// A call is a call of a bill operation in either form. Its fields have their v2 names.
type call struct {
	form, op, key, member, merchant string
	bill                            map[string]any // price is a string of digits; nil leaves a field out
}

func newCall(form, op string) call {
	q := call{form: form, op: op, key: demoKey, member: "demo-member", merchant: "demo-store", bill: map[string]any{"billId": demoBill}}
	switch op {
	case "create":
		maps.Copy(q.bill, map[string]any{
			"sendType": "TALK", "billIssuer": "데모상사", "productName": "11월 수강료", "price": "30000",
			"memberName": "홍길동", "phone": "01000000000", "message": "납부 바랍니다", "expireDt": "2026-12-31",
			"callbackUrl": "https://partner.example.com/cb",
		})
	case "destroy", "cancel":
		q.bill["price"] = "30000"
	}
	return q
}

func v2(op string) call     { return newCall("v2", op) }
func legacy(op string) call { return newCall("legacy", op) }

// request is the call of a handler, without a connection.
func (q call) request() *http.Request {
	return httptest.NewRequest(http.MethodPost, q.path(), strings.NewReader(q.body()))
}

// with returns the call with a changed field; apiKey, member and merchant are not fields of the bill.
func (q call) with(name string, v any) call {
	switch name {
	case "apiKey":
		q.key = v.(string)
	case "member":
		q.member = v.(string)
	case "merchant":
		q.merchant = v.(string)
	default:
		q.bill = maps.Clone(q.bill)
		q.bill[name] = v
	}
	return q
}

var legacyNames = map[string]string{
	"billId": "bill_id", "billIssuer": "bill_issuer", "productName": "product_nm", "memberName": "member_nm",
	"phone": "phone", "message": "message", "expireDt": "expire_dt", "price": "price", "hash": "hash",
	"callbackUrl": "callbackURL",
}

func (q call) path() string {
	op := "/" + q.op
	if q.op == "create" {
		op = inForm(q.form, "", "/send")
	}
	return inForm(q.form, "/bill", "/if/bill") + op
}

// body returns the JSON of the call in its form. It adds the hash unless the call has one.
func (q call) body() string {
	bill := maps.Clone(q.bill)
	maps.DeleteFunc(bill, func(_ string, v any) bool { return v == nil })
	price, _ := bill["price"].(string)
	if _, set := q.bill["hash"]; !set && price != "" {
		id, _ := bill["billId"].(string)
		phone, _ := bill["phone"].(string)
		bill["hash"] = sandbox.Hash(id, phone, price)
	}
	root := map[string]any{"member": q.member, "merchant": q.merchant}
	if q.form == "v2" {
		if price != "" {
			bill["price"] = json.Number(price)
		}
		root["apiKey"], root["bill"] = q.key, bill
		return encode(root)
	}
	spelled := map[string]any{}
	for name, v := range bill {
		if legacyNames[name] != "" {
			spelled[legacyNames[name]] = v
		}
	}
	root["apikey"] = q.key
	if q.op == "create" {
		root["bill"] = spelled
	} else {
		maps.Copy(root, spelled)
	}
	return encode(root)
}

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

// fields decodes a JSON object and keeps numbers as they are written.
func fields(t rapid.TB, body string) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil || d.More() {
		t.Fatalf("%v: not one JSON object: %q", err, body)
	}
	return m
}

// noCode is what codeOf returns for an unknown outcome: text that no program can take for JSON.
const noCode = "none"

// codeOf checks the envelope of an answer and returns its code: 0000 for a legacy read that succeeded without a code, and
// noCode for the text of an unknown outcome.
func codeOf(t rapid.TB, form, body string) string {
	t.Helper()
	if strings.Contains(body, "read before sending again.") && !strings.HasPrefix(body, "{") {
		return noCode
	}
	m := fields(t, body)
	code, known := m["code"]
	if _, bare := m["appr_state"]; bare && form == "legacy" && code == nil && m["msg"] == nil {
		return "0000"
	}
	name := inForm(form, "message", "msg")
	if text, _ := m[name].(string); text == "" {
		t.Errorf("no %s in %s", name, body)
	}
	if !known {
		t.Fatalf("no code in %s", body)
	}
	if code == "0000" {
		return "0000"
	}
	if m["data"] != nil {
		t.Errorf("a failure has data: %s", body)
	}
	equal(t, strings.Join(slices.Sorted(maps.Keys(m)), " "), inForm(form, "code data message", "code msg"), "the fields of a failure", body)
	text, ok := code.(string)
	if !ok {
		t.Fatalf("the code is not text: %s", body)
	}
	return text
}

// is checks the status of an answer, and what its text says as checkText does.
func (a answer) is(t testing.TB, status int, says ...string) {
	t.Helper()
	equal(t, a.status, status, a.body)
	checkText(t, a.body, says...)
}

// A wantAnswer is an expected answer.
type wantAnswer struct {
	status int
	code   string // noCode for an unknown outcome
}

var (
	success     = wantAnswer{http.StatusOK, "0000"}
	idInUse     = wantAnswer{http.StatusOK, "BILL_001"}
	noSuchBill  = wantAnswer{http.StatusOK, "BILL_003"}
	noSuchPath  = wantAnswer{http.StatusNotFound, "ERROR"}
	invalid     = wantAnswer{http.StatusBadRequest, "VALIDATION_001"}
	refused     = wantAnswer{http.StatusServiceUnavailable, "MAINTAINED_METHOD"}
	brokenRead  = wantAnswer{http.StatusBadGateway, "ERROR"}
	lateRead    = wantAnswer{http.StatusGatewayTimeout, "ERROR"}
	unknown     = wantAnswer{http.StatusBadGateway, noCode}
	unknownLate = wantAnswer{http.StatusGatewayTimeout, noCode}
)

// noAnswer is the answer to a call to which the upstream has not replied.
func noAnswer(op string) wantAnswer {
	if isWrite(op) {
		return unknown
	}
	return brokenRead
}

// check checks the status, the code and the headers of an answer, and what its text says as checkText does.
func (a answer) check(t testing.TB, form string, want wantAnswer, says ...string) {
	t.Helper()
	if got := codeOf(t, form, a.body); a.status != want.status || got != want.code {
		t.Errorf("HTTP %d with code %s, want %+v: %s", a.status, got, want, a.body)
	}
	checkText(t, a.body, says...)
	contentType := "application/json; charset=utf-8"
	if want.code == noCode {
		contentType = "text/plain; charset=utf-8"
	}
	equal(t, a.header.Get("Content-Type"), contentType)
	if a.header.Get("X-Request-Id") == "" {
		t.Error("no request id")
	}
}
