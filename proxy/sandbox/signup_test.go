package sandbox_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestSignUpPage(t *testing.T) {
	t.Parallel()
	r := start(t)
	page := r.signUp("")
	p := visit(t, http.MethodGet, page, nil)
	p.says(t, http.StatusOK, `<html lang="ko">`, "사업장 등록", "Business sign-up", "This is a sandbox for testing. No money moves.",
		"상호", "Company name", "지점명", "Branch", "대표자명", "Representative", "이메일", "E-mail", "사업자등록번호", "Business number",
		`value="1112233333"`) // from the registration
	if !p.form() {
		t.Error("no form")
	}

	visit(t, http.MethodPost, page, business).goes(t, last(page))
	want := map[string]string{
		"partnerMember": "m", "partnerMerchant": "s", "companyNm": "한빛학원", "branchNm": "강남점", "businessNumber": "1234567890",
		"ceoName": "이가나", "email": "owner@example.com", "mappingStatus": "COMPLETED", "regDt": "2026-03-02T12:34:56", "updDt": "2026-03-02T12:34:56",
	}
	if got := r.mapping(); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}

	p = visit(t, http.MethodGet, page, nil)
	p.says(t, http.StatusOK, "등록 완료", "The sign-up is completed", "한빛학원", "강남점")
	if p.form() {
		t.Error("there is a form to what is completed")
	}
	other := maps.Clone(business)
	other.Set("company_name", "다른회사")
	p = visit(t, http.MethodPost, page, other)
	p.says(t, http.StatusConflict, "The sign-up is completed", "Nothing was changed", "한빛학원")
	if p.form() || !maps.Equal(r.mapping(), want) {
		t.Error("what is completed was changed")
	}
}

// Empty optional fields keep the values of the registration, or get examples.
func TestSignUpPageFillsEmptyOptionalFields(t *testing.T) {
	t.Parallel()
	r := start(t)
	form := maps.Clone(business)
	form.Del("branch_name")
	form.Set("business_number", " ")
	page := r.signUp("")
	visit(t, http.MethodPost, page, form).goes(t, last(page))
	if m := r.mapping(); m["branchNm"] != "신규점" || m["businessNumber"] != "1112233333" {
		t.Error(m)
	}
}

// With one mistake at a time, the form is shown again with the input and the wrong field.
func TestSignUpPageShowsMistakes(t *testing.T) {
	t.Parallel()
	const (
		needed  = "This field is required."
		strange = "It contains invalid characters."
		digits  = "Please enter 10 digits."
		address = "Please check the e-mail address."
	)
	r := start(t)
	page := r.signUp("")
	for _, row := range []struct{ field, value, wrong string }{
		{"company_name", "", needed},
		{"company_name", "   ", needed},
		{"company_name", "가\x00나", strange},
		{"company_name", "\xff", strange},
		{"branch_name", "가\r\n나", strange},
		{"ceo_name", "", needed},
		{"email", "", needed},
		{"email", "owner", address},
		{"email", "owner@", address},
		{"email", "Owner <owner@example.com>", address},
		{"email", "a@example.com, b@example.com", address},
		{"business_number", "123456789", digits},
		{"business_number", "12345678901", digits},
		{"business_number", "123456789x", digits},
		{"business_number", "１２３４５６７８９０", digits},
		{"business_number", "--", digits},
	} {
		form := maps.Clone(business)
		form.Set(row.field, row.value)
		p := visit(t, http.MethodPost, page, form)
		p.says(t, http.StatusUnprocessableEntity, row.wrong, "Please check what you entered")
		if strings.Count(p.body, `class="wrong"`) != 1 || strings.Count(p.body, `aria-invalid="true"`) != 1 {
			t.Errorf("%s %.20q: not one field is wrong", row.field, row.value)
		}
		input := p.body[strings.Index(p.body, `name="`+row.field+`"`):]
		if input = input[:strings.Index(input, ">")]; !strings.Contains(input, "aria-invalid") {
			t.Errorf("%s %.20q: another field is wrong", row.field, row.value)
		}
		for field, values := range form {
			if field != row.field && !strings.Contains(p.body, `value="`+values[0]+`"`) {
				t.Errorf("%s %.20q: what was typed in %s is lost", row.field, row.value, field)
			}
		}
	}
	visit(t, http.MethodPost, page, url.Values{}).says(t, http.StatusUnprocessableEntity)
	if m := r.mapping(); m["mappingStatus"] != "REQUESTED" || m["companyNm"] != "" {
		t.Errorf("invalid input was accepted: %v", m)
	}
	visit(t, http.MethodPost, page, business).goes(t, last(page))
}

// Markup in any field is escaped, in rejected and accepted forms.
func TestSignUpPageEscapesMarkup(t *testing.T) {
	t.Parallel()
	const bad, escaped = `"><script>x</script>`, `&#34;&gt;&lt;script&gt;x&lt;/script&gt;`
	r := start(t)
	page := r.signUp("")
	form := url.Values{}
	for field := range business {
		form.Set(field, bad)
	}
	p := visit(t, http.MethodPost, page, form) // which checks that there is no script
	p.says(t, http.StatusUnprocessableEntity)
	equal(t, strings.Count(p.body, escaped), len(business), "values")
	form.Set("email", business.Get("email"))
	form.Set("business_number", "")
	visit(t, http.MethodPost, page, form).goes(t, last(page))
	p = visit(t, http.MethodGet, page, nil)
	equal(t, strings.Count(p.body, escaped), 2, "values, 2")
}
