package sandbox_test

import (
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/catalogue.txt; review every line of the difference")

// A catalogueStep is one request: of a partner to the service, or of a tester to the control API. A bill call is written
// once and encoded in each form.
type catalogueStep struct {
	surface, method, path, body string
	bill                        *testCall
}

func service(path, body string) catalogueStep {
	return catalogueStep{surface: "service", method: http.MethodPost, path: path, body: body}
}

func control(method, path, body string) catalogueStep {
	return catalogueStep{surface: "control", method: method, path: path, body: body}
}

// bill returns a minimal bill call with the given fields, as names and values.
func bill(op string, fields ...any) catalogueStep {
	q := newCall("", op)
	for _, name := range []string{"billIssuer", "productName", "memberName", "phone", "message", "expireDt", "callbackUrl"} {
		delete(q.bill, name)
	}
	for pair := range slices.Chunk(fields, 2) {
		q = q.with(pair[0].(string), pair[1])
	}
	return catalogueStep{surface: "service", method: http.MethodPost, bill: &q}
}

func (step catalogueStep) in(form string) catalogueStep {
	if step.bill != nil {
		q := *step.bill
		q.form = form
		step.path, step.body = q.encode()
	}
	step.body = strings.TrimSpace(step.body)
	return step
}

// form is the form of the reply. Sub-business operations and the control API have v2 only.
func (step catalogueStep) form(form string) string {
	if step.bill == nil {
		return "v2"
	}
	return form
}

func (step catalogueStep) String() string {
	return strings.TrimSpace(strings.Join([]string{step.surface, step.method, step.path, step.body}, " "))
}

func (r *rig) take(step catalogueStep) (status int, body string) {
	r.t.Helper()
	to := r.url
	if step.surface == "control" {
		to = r.control
	}
	status, body = send(r.t, step.method, to+step.path, step.body)
	return status, strings.TrimSpace(body)
}

// A codeCase is a way to get a code.
type codeCase struct {
	code, how string
	before    []catalogueStep // must succeed
	call      catalogueStep
	only      string // the only form that can get the code; "" for both
}

// codeCases has a case for each code, in the order of the catalogue.
func codeCases() []codeCase {
	const merchant = `"memberId":"demo-member","merchantId":"demo-store"`
	register := func(members string) catalogueStep {
		return service("/auth/mapping", `{"apiKey":"demo-partner-key",`+members+`,"callbackUrl":"https://partner.example.com/callback"}`)
	}
	mapMerchant := func(id, more string) catalogueStep {
		return service("/auth/merchant/mapping", `{"apiKey":"demo-strict-key","memberId":"demo-member","merchantId":"`+id+`"`+more+`}`)
	}
	pay := func(body string) catalogueStep { return control(http.MethodPost, "/bills/"+billID+"/pay", body) }
	networks := func(code string) catalogueStep {
		return control(http.MethodPost, "/networks", `{"code":"`+code+`"}`)
	}
	create, paid := bill("create"), pay("")
	return []codeCase{
		{code: "0000", how: "A valid call.", call: create},
		{
			code: "ERROR", how: "No call of a partner gets this code. The control API makes the next call fail with it.",
			before: []catalogueStep{control(http.MethodPost, "/faults", `{"code":"ERROR"}`)}, call: create,
		},
		{code: "PARTNER_001", how: "The partner demo-unlinked-key has no sub-business linking. Bill operations are allowed.", call: service("/read/mapping", `{"apiKey":"demo-unlinked-key"}`)},
		{code: "PARTNER_002", how: "The key is missing or empty. Also: a key of more than 32 characters, or with a space in it.", call: bill("create", "apiKey", "")},
		{code: "PARTNER_003", how: "No partner has the key. Also: a bill of demo-strict-key for a merchant that is not mapped.", call: bill("create", "apiKey", "no-such-key")},
		{code: "PARTNER_004", how: "The merchant is not registered.", call: mapMerchant("elsewhere", "")},
		{code: "PARTNER_005", how: "The partner demo-removed-key is removed.", call: bill("create", "apiKey", "demo-removed-key")},
		{code: "PARTNER_006", how: "The partner demo-expired-key has no valid contract.", call: bill("create", "apiKey", "demo-expired-key")},
		{code: "PARTNER_007", how: "The partner demo-nobill-key may use sub-business operations only.", call: bill("create", "apiKey", "demo-nobill-key")},
		{code: "PARTNER_MAPPING_001", how: "merchantId is missing. Also: apiKey or memberId is missing.", call: register(`"memberId":"demo-member"`)},
		{code: "PARTNER_MAPPING_002", how: "The business registration number has 9 digits.", call: register(merchant + `,"businessNumber":"123456789"`)},
		{
			code: "PARTNER_MAPPING_003", how: "The merchant is not registered.",
			call: service("/auth/mapping/status", `{"apiKey":"demo-partner-key","member":"demo-member","merchant":"elsewhere"}`),
		},
		{code: "PARTNER_MAPPING_004", how: "The temporary location TEMP0002 of demo-strict-key is deleted.", call: mapMerchant("demo-store", `,"temporaryMerchantCd":"TEMP0002"`)},
		{
			code: "PARTNER_MAPPING_005", how: "The temporary location is already mapped.",
			before: []catalogueStep{mapMerchant("demo-store", `,"temporaryMerchantCd":"TEMP0001"`)}, call: mapMerchant("demo-store", `,"temporaryMerchantCd":"TEMP0001"`),
		},
		{code: "PARTNER_MAPPING_006", how: "The merchant demo-closed of demo-strict-key is not open.", call: mapMerchant("demo-closed", "")},
		{code: "PARTNER_MAPPING_007", how: "The merchant demo-suspended of demo-strict-key belongs to a suspended member.", call: mapMerchant("demo-suspended", "")},
		{code: "VALIDATION_001", how: "The hash is missing. Also: another field is missing, or has a wrong type or format.", call: bill("create", "hash", omitted{})},
		{code: "VALIDATION_002", how: "The hash is of another price.", call: bill("create", "hash", sign(billID, "", "30001"))},
		{code: "VALIDATION_004", how: "The phone is not a mobile number.", call: bill("create", "phone", "0212345678")},
		{
			code: "PAYMENT_001", how: "The card network declines the cancel of a paid bill. The control API sets this.",
			before: []catalogueStep{create, paid, networks("PAYMENT_001")}, call: bill("cancel"),
		},
		{
			code: "PAYMENT_002", how: "The cancel of a paid bill fails at the bank. The control API sets this.",
			before: []catalogueStep{create, paid, networks("PAYMENT_002")}, call: bill("cancel"),
		},
		{code: "PAYMENT_003", how: "The amount is below 100.", call: bill("create", "price", "99")},
		{
			code: "PAYMENT_004", how: "The payment method cannot be used for the cancel. The control API sets this.",
			before: []catalogueStep{create, paid, networks("PAYMENT_004")}, call: bill("cancel"),
		},
		{code: "PAYMENT_005", how: "The amount is below 20000 in the development environment, which is the default.", call: bill("create", "price", "19999")},
		{code: "BILL_001", how: "The id is already used.", before: []catalogueStep{create}, call: create},
		{code: "BILL_002", how: "The bill is already cancelled. Also: the cancel of an unpaid or a destroyed bill.", before: []catalogueStep{create, paid, bill("cancel")}, call: bill("cancel")},
		{code: "BILL_003", how: "No bill has the id. Also: the bill is of another merchant or partner.", call: bill("read")},
		{
			code: "BILL_004", how: "The bill was paid by a keyed-in card that cannot be decrypted. The control API sets this.",
			before: []catalogueStep{create, pay(`{"method":"KEYIN"}`), networks("BILL_004")}, call: bill("cancel"),
		},
		{
			code: "BILL_005", how: "No bill has the transaction. Calls of partners have no txId: the control API looks it up.",
			call: control(http.MethodGet, "/transactions/TX000000000404", ""),
		},
		{code: "BILL_006", how: "The bill is paid. Also: it is cancelled or destroyed.", before: []catalogueStep{create, paid}, call: bill("resend")},
		{code: "BILL_007", how: "The id has 21 characters.", call: bill("create", "billId", limit21)},
		{code: "BILL_008", how: "sendType is missing. The legacy form does not have the field, and cannot get this code.", call: bill("create", "sendType", omitted{}), only: "v2"},
		{code: "BILL_009", how: "The contract of demo-notalk-key has URL bills only. The service always sends a legacy bill.", call: bill("create", "apiKey", "demo-notalk-key")},
		{
			code: "BILL_010", how: "The contract of demo-nourl-key has TALK bills only. The legacy form has no URL bills, and cannot get this code.",
			call: bill("create", "apiKey", "demo-nourl-key", "sendType", "URL"), only: "v2",
		},
		{code: "POINT_001", how: "The partner demo-nopoint-key has no points left. The control API can set them: POST /points.", call: bill("create", "apiKey", "demo-nopoint-key")},
		{
			code: "MAINTAINED_METHOD", how: "The control API has started the maintenance.",
			before: []catalogueStep{control(http.MethodPost, "/maintenance", `{"on":true}`)}, call: bill("read"),
		},
	}
}

const catalogueHead = `How to get each code of the interface document, in the order of its error table.

Every example begins with a new sandbox with its default partners. "service" is the listener for partners,
"control" that of the control API. The call marked > gets the code. The line marked < is the reply: the HTTP
status and the exact body. The calls above > prepare it and succeed. A code that both forms can get has an
example in each. All bodies are application/json.

The base URL of the sandbox is https://pay.example.com. A hash is the SHA-256 of the text billId,price, or of
billId,phone,price if the call has a phone.
`

// Every code of the document can be got, in each form that can have it. testdata/catalogue.txt shows how.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	rows := codeCases()
	var codes []string
	for _, row := range rows {
		codes = append(codes, row.code)
	}
	if len(codes) != 36 {
		t.Errorf("%d codes have a case, want 36", len(codes))
	}
	if d := cmp.Diff(sandbox.Catalogue(), codes); d != "" {
		t.Errorf("the cases are not those of the catalogue:\n%s", d)
	}
	examples := make([][2]string, len(rows))
	t.Run("codes", func(t *testing.T) {
		for i, row := range rows {
			for f, form := range forms {
				if f > 0 && row.call.bill == nil || row.only != "" && row.only != form {
					continue
				}
				t.Run(row.code+"/"+form, func(t *testing.T) {
					t.Parallel()
					examples[i][f] = row.run(t, form)
				})
			}
		}
	})
	var b strings.Builder
	b.WriteString(catalogueHead)
	for i, row := range rows {
		if examples[i][0] == "" {
			t.Fatalf("%s was not run, but the file must have all codes", row.code)
		}
		fmt.Fprintf(&b, "\n== %s\n%s\n%s", row.code, row.how, strings.Join(examples[i][:], ""))
	}
	file := filepath.Join("testdata", "catalogue.txt")
	if t.Failed() {
		return // the file must have successful cases only
	}
	if *update {
		proxytest.WriteFile(t, file, b.String())
		return
	}
	want := proxytest.ReadFile(t, file)
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("%s differs (-update rewrites it):\n%s", file, d)
	}
}

// run runs a case and returns its transcript.
func (e codeCase) run(t *testing.T, form string) string {
	r := start(t, sandbox.Options{BaseURL: "https://pay.example.com"})
	var b strings.Builder
	b.WriteString("\n")
	for _, step := range e.before {
		step = step.in(form)
		status, body := r.take(step)
		if status != http.StatusOK || step.surface == "service" && codeOf(t, step.form(form), body) != "0000" {
			t.Fatalf("%s: %d %s", step, status, body)
		}
		fmt.Fprintf(&b, "  %s\n", step)
	}
	step := e.call.in(form)
	status, body := r.take(step)
	if code := codeOf(t, step.form(form), body); status != http.StatusOK || code != e.code {
		t.Errorf("%s: got %d %s, want %s", step, status, body, e.code)
	}
	fmt.Fprintf(&b, "> %s\n< %d %s\n", step, status, body)
	return b.String()
}
