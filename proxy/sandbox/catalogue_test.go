package sandbox_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/catalogue.txt anew; read every line of the difference")

// A turn is one request: of a partner to the service, or of a tester to the
// control surface. A bill call is written once and spelled in each form.
type turn struct {
	surface, method, path, body string
	bill                        *ask
}

func service(path, body string) turn {
	return turn{surface: "service", method: http.MethodPost, path: path, body: body}
}

func control(method, path, body string) turn {
	return turn{surface: "control", method: method, path: path, body: body}
}

// bill is a bill call with no more in it than it needs, but for the fields
// given, by name and value.
func bill(op string, fields ...any) turn {
	q := newAsk("", op)
	for _, name := range []string{"billIssuer", "productName", "memberName", "phone", "message", "expireDt", "callbackUrl"} {
		delete(q.bill, name)
	}
	for pair := range slices.Chunk(fields, 2) {
		q = q.with(pair[0].(string), pair[1])
	}
	return turn{surface: "service", method: http.MethodPost, bill: &q}
}

func (tn turn) in(form string) turn {
	if tn.bill != nil {
		q := *tn.bill
		q.form = form
		tn.path, tn.body = q.encode()
	}
	tn.body = strings.TrimSpace(tn.body)
	return tn
}

// form is that of the reply: the sub-business operations and the control surface
// have v2 alone.
func (tn turn) form(form string) string {
	if tn.bill == nil {
		return "v2"
	}
	return form
}

func (tn turn) String() string {
	return strings.TrimSpace(strings.Join([]string{tn.surface, tn.method, tn.path, tn.body}, " "))
}

func (r *rig) take(tn turn) (status int, body string) {
	r.t.Helper()
	to := r.url
	if tn.surface == "control" {
		to = r.control
	}
	status, body = send(r.t, tn.method, to+tn.path, tn.body)
	return status, strings.TrimSpace(body)
}

// An earning is how a code comes about.
type earning struct {
	code, how string
	before    []turn // each of which succeeds
	call      turn
	only      string // a form, where the other cannot earn the code
}

// earnings has one row for each code, in the order of the catalogue.
func earnings() []earning {
	const store = `"memberId":"demo-member","merchantId":"demo-store"`
	register := func(members string) turn {
		return service("/auth/mapping", `{"apiKey":"demo-partner-key",`+members+`,"callbackUrl":"https://partner.example.com/callback"}`)
	}
	place := func(merchant, more string) turn {
		return service("/auth/merchant/mapping", `{"apiKey":"demo-strict-key","memberId":"demo-member","merchantId":"`+merchant+`"`+more+`}`)
	}
	pay := func(body string) turn { return control(http.MethodPost, "/bills/"+billID+"/pay", body) }
	networks := func(code string) turn {
		return control(http.MethodPost, "/networks", `{"code":"`+code+`"}`)
	}
	made, paid := bill("create"), pay("")
	return []earning{
		{code: "0000", how: "A call in order.", call: made},
		{
			code: "ERROR", how: "Nothing a partner sends earns it. The control surface makes the next call fail so.",
			before: []turn{control(http.MethodPost, "/faults", `{"code":"ERROR"}`)}, call: made,
		},
		{code: "PARTNER_001", how: "The partner demo-unlinked-key has no sub-business linking. It may bill.", call: service("/read/mapping", `{"apiKey":"demo-unlinked-key"}`)},
		{code: "PARTNER_002", how: "The key is missing or empty. Also: a key of more than 32 characters, or with a space in it.", call: bill("create", "apiKey", "")},
		{code: "PARTNER_003", how: "No partner has the key. Also: a bill of demo-strict-key for a store that is not mapped.", call: bill("create", "apiKey", "no-such-key")},
		{code: "PARTNER_004", how: "The store to map was never registered.", call: place("elsewhere", "")},
		{code: "PARTNER_005", how: "The partner demo-removed-key is no longer there.", call: bill("create", "apiKey", "demo-removed-key")},
		{code: "PARTNER_006", how: "The partner demo-expired-key has no contract in force.", call: bill("create", "apiKey", "demo-expired-key")},
		{code: "PARTNER_007", how: "The partner demo-nobill-key may link stores and not bill.", call: bill("create", "apiKey", "demo-nobill-key")},
		{code: "PARTNER_MAPPING_001", how: "merchantId is missing. Also: apiKey or memberId is.", call: register(`"memberId":"demo-member"`)},
		{code: "PARTNER_MAPPING_002", how: "The business registration number has 9 digits.", call: register(store + `,"businessNumber":"123456789"`)},
		{
			code: "PARTNER_MAPPING_003", how: "Nobody has applied for the store.",
			call: service("/auth/mapping/status", `{"apiKey":"demo-partner-key","member":"demo-member","merchant":"elsewhere"}`),
		},
		{code: "PARTNER_MAPPING_004", how: "The temporary location TEMP0002 of demo-strict-key is deleted.", call: place("demo-store", `,"temporaryMerchantCd":"TEMP0002"`)},
		{
			code: "PARTNER_MAPPING_005", how: "The temporary location is mapped already.",
			before: []turn{place("demo-store", `,"temporaryMerchantCd":"TEMP0001"`)}, call: place("demo-store", `,"temporaryMerchantCd":"TEMP0001"`),
		},
		{code: "PARTNER_MAPPING_006", how: "The store demo-closed of demo-strict-key is not open.", call: place("demo-closed", "")},
		{code: "PARTNER_MAPPING_007", how: "The store demo-suspended of demo-strict-key belongs to a member who is suspended.", call: place("demo-suspended", "")},
		{code: "VALIDATION_001", how: "A field is missing, here the hash. Also: a field of another type or format.", call: bill("create", "hash", gone{})},
		{code: "VALIDATION_002", how: "The hash is that of another price.", call: bill("create", "hash", sign(billID, "", "30001"))},
		{code: "VALIDATION_004", how: "The phone is no mobile one.", call: bill("create", "phone", "0212345678")},
		{
			code: "PAYMENT_001", how: "The card network refuses the cancel of a paid bill. The control surface says so beforehand.",
			before: []turn{made, paid, networks("PAYMENT_001")}, call: bill("cancel"),
		},
		{
			code: "PAYMENT_002", how: "The cancel of a paid bill fails at the bank. The control surface says so beforehand.",
			before: []turn{made, paid, networks("PAYMENT_002")}, call: bill("cancel"),
		},
		{code: "PAYMENT_003", how: "The amount is below 100.", call: bill("create", "price", "99")},
		{
			code: "PAYMENT_004", how: "The payment method cannot be used at the time of the cancel. The control surface says so beforehand.",
			before: []turn{made, paid, networks("PAYMENT_004")}, call: bill("cancel"),
		},
		{code: "PAYMENT_005", how: "The amount is below 20000 in the development environment, which the sandbox is in unless it is told otherwise.", call: bill("create", "price", "19999")},
		{code: "BILL_001", how: "The identifier is used already.", before: []turn{made}, call: made},
		{code: "BILL_002", how: "The bill is cancelled already. Also: the cancel of an unpaid or a destroyed bill.", before: []turn{made, paid, bill("cancel")}, call: bill("cancel")},
		{code: "BILL_003", how: "No bill has the identifier. Also: the bill is another store's or another partner's.", call: bill("read")},
		{
			code: "BILL_004", how: "The bill was paid by a card that was keyed in, and the card cannot be decrypted. The control surface says so beforehand.",
			before: []turn{made, pay(`{"method":"KEYIN"}`), networks("BILL_004")}, call: bill("cancel"),
		},
		{
			code: "BILL_005", how: "No bill was paid by the transaction. No call of a partner carries a txId: the control surface looks it up.",
			call: control(http.MethodGet, "/transactions/TX000000000404", ""),
		},
		{code: "BILL_006", how: "The bill is paid. Also: it is cancelled or destroyed.", before: []turn{made, paid}, call: bill("resend")},
		{code: "BILL_007", how: "The identifier has 21 characters.", call: bill("create", "billId", limit21)},
		{code: "BILL_008", how: "sendType is missing. The legacy form has none, and cannot earn this.", call: bill("create", "sendType", gone{}), only: "v2"},
		{code: "BILL_009", how: "The partner demo-notalk-key has contracted URL bills only. A legacy bill is always sent.", call: bill("create", "apiKey", "demo-notalk-key")},
		{
			code: "BILL_010", how: "The partner demo-nourl-key has contracted TALK bills only. The legacy form has no URL bills, and cannot earn this.",
			call: bill("create", "apiKey", "demo-nourl-key", "sendType", "URL"), only: "v2",
		},
		{code: "POINT_001", how: "The partner demo-nopoint-key has no points left. The control surface can give it some: POST /points.", call: bill("create", "apiKey", "demo-nopoint-key")},
		{
			code: "MAINTAINED_METHOD", how: "The control surface has begun maintenance.",
			before: []turn{control(http.MethodPost, "/maintenance", `{"on":true}`)}, call: bill("read"),
		},
	}
}

const catalogueHead = `How to earn each code of the interface document, in the order of its error table.

Every example begins with a sandbox that was just started with its default partners. "service" is where
partners call, "control" the tester's side of it. What is marked > earns the code, what is marked < is the
reply to it: the HTTP status and the body, exactly. What stands above > sets it up, and is answered with
success. A code that both forms can earn has an example in each. All bodies are application/json.

The sandbox of these examples has the base URL https://pay.example.com. A hash is the SHA-256 of the text
billId,price, or of billId,phone,price where the call itself carries a phone.
`

// TestCatalogue: every code of the document has a call that earns it, in each
// form that can, by a path that can be walked again. What is earned and how is
// in testdata/catalogue.txt.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	rows := earnings()
	var codes []string
	for _, row := range rows {
		codes = append(codes, row.code)
	}
	if len(codes) != 36 {
		t.Errorf("%d codes have a row, and the document has 36", len(codes))
	}
	if d := cmp.Diff(sandbox.Catalogue(), codes); d != "" {
		t.Errorf("the rows are not those of the catalogue:\n%s", d)
	}
	examples := make([][2]string, len(rows))
	t.Run("earned", func(t *testing.T) {
		for i, row := range rows {
			for f, form := range forms {
				if f > 0 && row.call.bill == nil || row.only != "" && row.only != form {
					continue
				}
				t.Run(row.code+"/"+form, func(t *testing.T) {
					t.Parallel()
					examples[i][f] = row.earn(t, form)
				})
			}
		}
	})
	var b strings.Builder
	b.WriteString(catalogueHead)
	for i, row := range rows {
		if examples[i][0] == "" {
			t.Fatalf("%s was not run: the file is about all of them", row.code)
		}
		fmt.Fprintf(&b, "\n== %s\n%s\n%s", row.code, row.how, strings.Join(examples[i][:], ""))
	}
	file := filepath.Join("testdata", "catalogue.txt")
	if t.Failed() {
		return // what was not earned is not to be written down
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("%s differs (-update writes it anew):\n%s", file, d)
	}
}

// earn walks the path to a code and writes it down.
func (e earning) earn(t *testing.T, form string) string {
	r := start(t, sandbox.Options{BaseURL: "https://pay.example.com"})
	var b strings.Builder
	b.WriteString("\n")
	for _, tn := range e.before {
		tn = tn.in(form)
		status, body := r.take(tn)
		if status != http.StatusOK || tn.surface == "service" && codeOf(t, tn.form(form), body) != "0000" {
			t.Fatalf("%s: %d %s", tn, status, body)
		}
		fmt.Fprintf(&b, "  %s\n", tn)
	}
	tn := e.call.in(form)
	status, body := r.take(tn)
	if code := codeOf(t, tn.form(form), body); status != http.StatusOK || code != e.code {
		t.Errorf("%s: got %d %s, want %s", tn, status, body, e.code)
	}
	fmt.Fprintf(&b, "> %s\n< %d %s\n", tn, status, body)
	return b.String()
}
