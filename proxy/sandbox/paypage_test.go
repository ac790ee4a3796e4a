package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"

	"billbridge/proxy/proxytest"
)

// The page of a bill in every state, and its form in states without one.
func TestPayPageInEveryState(t *testing.T) {
	t.Parallel()
	always := []string{
		`<html lang="ko">`, "데모상사", "3월 수강료", "30,000<small>원", "30,000<small> won", "홍길동", "납부 바랍니다", "2026-03-31", billID,
		"샌드박스", "This is a sandbox for testing. No money moves.", "<dt>Customer</dt>",
	}
	for _, row := range proxytest.Rows(t, "testdata/rows/paypages.txt") {
		name, state, says := row[0], row[1], strings.Split(row[3], "; ")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.createInState(state)
			if row[2] == "late" {
				must(t, r.SetClock(time.Date(2026, 4, 1, 0, 0, 0, 0, time.FixedZone("KST", 9*60*60))))
			}
			b, err := r.Bill(demoKey, billID)
			must(t, err)
			p := visit(t, http.MethodGet, b.ShortURL, nil)
			p.says(t, http.StatusOK, append(always, says...)...)
			for text := range strings.FieldsSeq(row[4]) {
				lacks(t, p.body, text, "the page shows")
			}
			equal(t, p.form(), name == "unpaid", "form")
			if strings.Contains(p.body, "01012345678") || strings.Contains(p.body, demoKey) {
				t.Error("the page shows the phone or the key")
			}
			if p.form() {
				return
			}
			p = visit(t, http.MethodPost, b.ShortURL, card)
			p.says(t, http.StatusConflict, append(says, `role="alert"`, "This payment was not made")...)
			if p.form() || r.state() != state {
				t.Errorf("form %t, state %s", p.form(), r.state())
			}
		})
	}
}

// Markup in any text of a bill is escaped in every state of its page. Empty texts are omitted.
func TestPayPageShowsTexts(t *testing.T) {
	t.Parallel()
	const bad, escaped = `<script>x='"</script>`, `&lt;script&gt;x=&#39;&#34;&lt;/script&gt;`
	r := start(t)
	hostile, empty := newCall("v2", "create"), newCall("v2", "create").with("billId", "EMPTY")
	for _, name := range []string{"billIssuer", "productName", "memberName", "message"} {
		hostile, empty = hostile.with(name, bad), empty.with(name, omitted{})
	}
	page := r.issue(hostile.with("pageRedirectUrl", bad))
	for _, form := range []url.Values{nil, card} {
		p := visit(t, http.MethodGet, page, nil) // which checks that there is no script
		equal(t, strings.Count(p.body, escaped), 8, "texts in two languages")
		visit(t, http.MethodPost, page, form)
	}
	p := visit(t, http.MethodGet, r.issue(empty.with("expireDt", omitted{})), nil)
	p.says(t, http.StatusOK, "<h1>청구서</h1>")
	for _, nothing := range []string{"<dd></dd>", "<p></p>", "Customer", "Pay by"} {
		lacks(t, p.body, nothing, "the page shows")
	}
}

func TestPayPageAmounts(t *testing.T) {
	t.Parallel()
	for price, want := range map[string]string{
		"100000": "100,000", "1234567": "1,234,567", "00030000": "30,000",
		"12345678901234567890123456789012345678901": "12,345,678,901,234,567,890,123,456,789,012,345,678,901",
	} {
		r := start(t)
		r.must(newCall("legacy", "create").with("price", price))
		b, err := r.Bill(demoKey, billID)
		must(t, err)
		visit(t, http.MethodGet, b.ShortURL, nil).says(t, http.StatusOK, ">"+want+"<small>원", ">Pay "+want+" won<")
	}
}

// The form has the payment methods in the order of their numbers, with names for customers. Each pays, and the receipt
// names it. It does not have the number for a cash receipt.
func TestPayPageMethods(t *testing.T) {
	t.Parallel()
	r := start(t)
	p := visit(t, http.MethodGet, r.issue(newCall("v2", "create").with("billId", "FORM")), nil)
	var found []string
	korean, _, _ := strings.Cut(p.body, "</html>")
	for _, part := range strings.Split(korean, `name="method" value="`)[1:] {
		found = append(found, part[:strings.Index(part, `"`)])
	}
	equal(t, strings.Join(found, " "), "SIMPLE_PAY CARD_VAN KEYIN OFFLINE_CARD OFFLINE_CASH")
	for i, names := range [][]string{{"간편결제", "Easy pay"}, {"카드", "신한카드"}, {"카드 번호 입력", "신한카드"}, {"현장 카드"}, {"현장 현금", "Cash, on site"}} {
		page := r.issue(newCall("v2", "create").with("billId", found[i]))
		visit(t, http.MethodPost, page, url.Values{"method": {found[i]}}).goes(t, last(page))
		visit(t, http.MethodGet, page, nil).says(t, http.StatusOK, append(names, fmt.Sprint(30000001+i), "30,000원")...)
	}
	page := r.issue(newCall("v2", "create").with("billId", "CASH"))
	works(t)(r.PayWith(demoKey, "CASH", sandbox.Payment{Method: "OFFLINE_CASH", CashReceipt: "personal", CashNumber: "01000000000"}))
	p = visit(t, http.MethodGet, page, nil)
	p.says(t, http.StatusOK, "700000006")
	lacks(t, p.body, "01000000000", "the receipt")
}

// A declined payment is reported, and the next one can succeed.
func TestPayPageDeclined(t *testing.T) {
	t.Parallel()
	r := start(t)
	page := r.issue(newCall("v2", "create").with("pageRedirectUrl", "https://partner.example.com/done"))
	r.Fault(sandbox.Fault{Operation: "payment", Code: "BILL_004"})
	form := url.Values{"method": {"KEYIN"}}
	p := visit(t, http.MethodPost, page, form)
	p.says(t, http.StatusOK, "키인 결제 카드 정보를", "BILL_004", `role="alert"`, `value="KEYIN" checked`)
	equal(t, fmt.Sprint(p.form(), r.state(), len(r.Callbacks())), "trueW0")
	visit(t, http.MethodPost, page, form).goes(t, "https://partner.example.com/done")
	equal(t, fmt.Sprint(r.state(), len(r.Callbacks())), "F1")
}

// The language is that of the browser, until the visitor chooses one. The choice holds after the form.
func TestPayPageLanguage(t *testing.T) {
	t.Parallel()
	r := start(t)
	page := r.issue(newCall("v2", "create"))
	for _, row := range [][3]string{
		{"", "", "ko"},
		{"", "en-GB,ko;q=0.5", "en"},
		{"", "ko-KR,en", "ko"},
		{"", "fr", "ko"},
		{"?lang=en", "ko", "en"},
		{"?lang=ko", "en", "ko"},
		{"?lang=%22%3E", "en", "en"},
	} {
		req, err := http.NewRequest(http.MethodGet, page+row[0], nil)
		must(t, err)
		req.Header.Set("Accept-Language", row[1])
		res, err := pageClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, errors.Join(err, res.Body.Close()))
		has(t, string(body), `<html lang="`+row[2]+`">`, row)
	}
	visit(t, http.MethodPost, page+"?lang=en", card).goes(t, last(page)+"?lang=en")
}
