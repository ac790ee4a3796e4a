package sandbox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// The page of a bill in every state, and its form in states without one.
func TestPayPageInEveryState(t *testing.T) {
	t.Parallel()
	always := []string{
		`<html lang="ko">`, "데모상사", "3월 수강료", "30,000<small>원", "30,000 won", "홍길동", "납부 바랍니다", "2026-03-31", billID,
		"샌드박스", "This is a sandbox for testing. No money moves.", `<span lang="en">Customer</span>`,
	}
	paid := []string{"영수증", "Receipt", "30000001", "2026-03-02T12:34:56&#43;09:00", "Korea time", "4518-42**-****-1234", "일시불"}
	for _, row := range []struct {
		name, state string
		late        bool
		says        []string
		not         []string
	}{
		{"unpaid", "W", false, []string{"결제 대기", "Not paid yet", "30,000원 결제하기", "Pay 30,000 won"}, []string{"Receipt</span>"}},
		{"expired", "W", true, []string{"기한 만료", "Expired", "The time to pay this bill has passed."}, []string{"Receipt"}},
		{"paid", "F", false, append(paid, "결제 완료", "This bill has been paid."), []string{"취소"}},
		{"paid, long ago", "F", true, append(paid, "This bill has been paid."), []string{"Expired"}},
		{"cancelled", "C", false, append(paid, "결제 취소", "The payment of this bill was cancelled.", "30000002"), nil},
		{"destroyed", "D", false, []string{"파기", "The issuer has withdrawn this bill."}, []string{"Receipt"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.createInState(row.state)
			if row.late {
				must(t, r.SetClock(time.Date(2026, 4, 1, 0, 0, 0, 0, time.FixedZone("KST", 9*60*60))))
			}
			b, err := r.Bill(demoKey, billID)
			must(t, err)
			p := visit(t, http.MethodGet, b.ShortURL, nil)
			p.says(t, http.StatusOK, append(always, row.says...)...)
			for _, text := range row.not {
				lacks(t, p.body, text, "the page shows")
			}
			equal(t, p.form(), row.name == "unpaid", "form")
			if strings.Contains(p.body, "01012345678") || strings.Contains(p.body, demoKey) {
				t.Error("the page shows the phone or the key")
			}
			if p.form() {
				return
			}
			p = visit(t, http.MethodPost, b.ShortURL, card)
			p.says(t, http.StatusConflict, append(row.says, `role="alert"`, "This payment was not made")...)
			if p.form() || r.state() != row.state {
				t.Errorf("form %t, state %s", p.form(), r.state())
			}
		})
	}
}

// Markup in any text of a bill is escaped in every state of its page.
func TestPayPageEscapesMarkup(t *testing.T) {
	t.Parallel()
	const bad, escaped = `<script>x='"</script>`, `&lt;script&gt;x=&#39;&#34;&lt;/script&gt;`
	r := start(t)
	q := newCall("v2", "create")
	for _, name := range []string{"billIssuer", "productName", "memberName", "message", "supplyPrice", "tax", "pageRedirectUrl"} {
		q = q.with(name, bad)
	}
	page := r.issue(q)
	check := func(method string, form url.Values, texts int) {
		t.Helper()
		p := visit(t, method, page, form) // which checks that there is no script
		equal(t, strings.Count(p.body, escaped), texts, "texts")
	}
	const ofBill = 4
	check(http.MethodGet, nil, ofBill)
	check(http.MethodPost, url.Values{"method": {"OFFLINE_CASH"}, "cash_receipt": {"personal"}, "cash_number": {bad}}, ofBill+1)
	visit(t, http.MethodPost, page, url.Values{"method": {"CARD_VAN"}}).goes(t, last(page))
	check(http.MethodGet, nil, ofBill)
}

func TestPayPageAmounts(t *testing.T) {
	t.Parallel()
	for i, row := range []struct{ price, want string }{
		{"20000", "20,000"},
		{"100000", "100,000"},
		{"1234567", "1,234,567"},
		{"12345678901234567890123456789012345678901", "12,345,678,901,234,567,890,123,456,789,012,345,678,901"},
		{"00030000", "30,000"},
	} {
		r := start(t)
		q := newCall("legacy", "create").with("billId", fmt.Sprint(i)).with("price", row.price)
		r.must(q)
		b, err := r.Bill(demoKey, fmt.Sprint(i))
		must(t, err)
		visit(t, http.MethodGet, b.ShortURL, nil).says(t, http.StatusOK, `<span lang="ko">`+row.want+"<small>", ">Pay "+row.want+" won<")
	}
}

// Most texts of a bill are optional.
func TestPayPageOmitsEmptyFields(t *testing.T) {
	t.Parallel()
	r := start(t)
	q := newCall("v2", "create")
	for _, name := range []string{"billIssuer", "productName", "memberName", "phone", "message", "expireDt", "callbackUrl"} {
		q = q.with(name, omitted{})
	}
	p := visit(t, http.MethodGet, r.issue(q), nil)
	p.says(t, http.StatusOK, "<h1>청구서</h1>")
	for _, empty := range []string{"<dd></dd>", "<p></p>", "Customer", "Pay by"} {
		lacks(t, p.body, empty, "the page shows")
	}
}

// The form has the payment methods in the order of their numbers, with names for customers.
func TestPayPageMethods(t *testing.T) {
	t.Parallel()
	p := visit(t, http.MethodGet, start(t).issue(newCall("v2", "create")), nil)
	var found []string
	for _, part := range strings.Split(p.body, `name="method" value="`)[1:] {
		found = append(found, part[:strings.Index(part, `"`)])
	}
	equal(t, strings.Join(found, " "), "SIMPLE_PAY CARD_VAN KEYIN OFFLINE_CARD OFFLINE_CASH")
	has(t, p.body, "간편결제", "the method")
	has(t, p.body, "Easy pay", "the method")
}

// The form is shown again with the input and the mistakes.
func TestPayPageShowsMistakes(t *testing.T) {
	t.Parallel()
	r := start(t)
	page := r.issue(newCall("v2", "create"))
	for _, row := range []struct {
		form url.Values
		says []string
	}{
		{url.Values{}, []string{"다시 선택해 주세요.", `value="SIMPLE_PAY" checked`}},
		{url.Values{"method": {"BARTER"}}, []string{"다시 선택해 주세요.", "Please choose again."}},
		{url.Values{"method": {"KEYIN"}, "months": {"24"}}, []string{"Please choose again.", `value="KEYIN" class="card" checked`}},
		{url.Values{"method": {"KEYIN"}, "months": {"13"}}, []string{"Please choose again."}},
		{url.Values{"method": {"CARD_VAN"}, "months": {"-3"}}, []string{"Please choose again."}},
		{url.Values{"method": {"CARD_VAN"}, "months": {"three"}}, []string{"Please choose again."}},
		{url.Values{"method": {"CARD_VAN"}, "months": {"99999999999999999999"}}, []string{"Please choose again."}},
		{
			url.Values{"method": {"SIMPLE_PAY"}, "cash_receipt": {"personal"}, "cash_number": {strings.Repeat("1", 21)}},
			[]string{"Please enter the number", `value="personal" checked`},
		},
		{
			url.Values{"method": {"OFFLINE_CASH"}, "cash_receipt": {"business"}, "cash_number": {"x12"}},
			[]string{"현금영수증 번호를 숫자로", "Please enter the number", `value="OFFLINE_CASH" checked`, `value="business" checked`, `value="x12" aria-invalid="true"`},
		},
	} {
		visit(t, http.MethodPost, page, row.form).says(t, http.StatusUnprocessableEntity, row.says...)
	}
}

// The receipt shows the chosen options, but not the number for a cash receipt.
func TestPayPageReceipts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		form url.Values
		says []string
	}{
		{url.Values{"method": {"KEYIN"}, "months": {"6"}}, []string{"카드 번호 입력", "6개월", "6 months", "신한카드"}},
		{url.Values{"method": {"SIMPLE_PAY"}, "months": {"3"}}, []string{"간편결제"}}, // what does not apply to the method is ignored
		{url.Values{"method": {"CARD_VAN"}, "cash_receipt": {"gift"}}, []string{"일시불"}},
		{url.Values{"method": {"OFFLINE_CASH"}, "cash_receipt": {"personal"}, "cash_number": {"01000000000"}}, []string{"현장 현금", "Personal", "700000001"}},
		{url.Values{"method": {"OFFLINE_CASH"}, "cash_receipt": {"business"}, "cash_number": {"01000000000"}}, []string{"Business", "700000001"}},
		{url.Values{"method": {"OFFLINE_CASH"}, "cash_receipt": {"self"}}, []string{"자진발급", "Self-issued", "700000001"}},
	} {
		r := start(t)
		page := r.issue(newCall("v2", "create"))
		visit(t, http.MethodPost, page, row.form).goes(t, last(page))
		p := visit(t, http.MethodGet, page, nil)
		p.says(t, http.StatusOK, append(row.says, "30000001", "30,000원")...)
		lacks(t, p.body, "01000000000", row.form)
	}
}

// A declined payment is reported in both languages, and the next one can succeed.
func TestPayPageDeclined(t *testing.T) {
	t.Parallel()
	for code, text := range map[string]string{
		"PAYMENT_001": "카드사 또는 현금영수증 발급 응답이",
		"PAYMENT_004": "결제 수단을 조회할 수 없거나",
		"BILL_004":    "키인 결제 카드 정보를",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			page := r.issue(newCall("v2", "create").with("pageRedirectUrl", "https://partner.example.com/done"))
			r.Fault(sandbox.Fault{Operation: "payment", Code: code})
			form := url.Values{"method": {"KEYIN"}, "months": {"3"}}
			p := visit(t, http.MethodPost, page, form)
			p.says(t, http.StatusOK, text, "declined it", code, `role="alert"`, `value="KEYIN" class="card" checked`, `value="3" selected`)
			if !p.form() || r.state() != "W" || len(r.Callbacks()) != 0 {
				t.Errorf("form %t, state %s, %d callbacks", p.form(), r.state(), len(r.Callbacks()))
			}
			visit(t, http.MethodPost, page, form).goes(t, "https://partner.example.com/done")
			if r.state() != "F" || len(r.Callbacks()) != 1 {
				t.Errorf("state %s, %d callbacks", r.state(), len(r.Callbacks()))
			}
		})
	}
}
