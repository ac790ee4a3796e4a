package sandbox

import (
	"errors"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// signUpFields are the form, in its order.
var signUpFields = []signUpField{
	{
		Name: "company_name", Label: localized{"상호", "Company name"}, Type: "text", Autocomplete: "organization", Required: true,
		max: 100, field: func(s *Merchant) *string { return &s.Company },
	},
	{
		Name: "branch_name", Label: localized{"지점명", "Branch"}, Type: "text", Autocomplete: "off",
		max: 100, field: func(s *Merchant) *string { return &s.Branch },
	},
	{
		Name: "ceo_name", Label: localized{"대표자명", "Representative"}, Type: "text", Autocomplete: "name", Required: true,
		max: 100, field: func(s *Merchant) *string { return &s.CEO },
	},
	{
		Name: "email", Label: localized{"이메일", "E-mail"}, Type: "email", Autocomplete: "email", Required: true,
		max: 254, field: func(s *Merchant) *string { return &s.Email },
		wrong: localized{"이메일 주소를 확인해 주세요.", "Please check the e-mail address."},
		valid: isAddress,
	},
	{
		Name: "business_number", Label: localized{"사업자등록번호", "Business number"}, Type: "text", Mode: "numeric", Autocomplete: "off",
		max: 100, field: func(s *Merchant) *string { return &s.Number },
		wrong: localized{"숫자 10자리로 입력해 주세요.", "Please enter 10 digits."},
		valid: func(v string) bool { return isBusinessNumber(bareDigits(v)) },
	},
}

// signUpField is a field of the form, and what it takes.
type signUpField struct {
	Name                     string
	Label                    localized
	Type, Mode, Autocomplete string // of the input
	Required                 bool

	max   int // characters
	field    func(*Merchant) *string
	valid func(string) bool // if nil, whatever is typed
	wrong localized             // what to say when it does not hold
}

// check tells what is wrong with a value; no words if nothing is.
func (f signUpField) check(value string) localized {
	switch {
	case value == "" && f.Required:
		return localized{"필수 항목입니다.", "This is needed."}
	case value == "":
		return localized{}
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return localized{"쓸 수 없는 문자가 있습니다.", "It has characters that cannot be used."}
	case utf8.RuneCountInString(value) > f.max:
		return localized{"너무 깁니다.", "It is too long."}
	case f.valid != nil && !f.valid(value):
		return f.wrong
	}
	return localized{}
}

// signUpView is what the page shows of a registration.
type signUpView struct {
	mapping
	Completed bool
	Refused   bool // Completed is the answer to a form
	Wrong     bool // a field is
	Fields    []fieldView
}

type fieldView struct {
	signUpField
	Value string
	Wrong localized
}

// signUpScreen shows a registration. If typed is not nil, it was sent, and is no
// good.
func (s *Service) signUpScreen(k mappingKey, typed *Merchant) screen {
	var v signUpView
	s.view(func(t *tables) { v.mapping = *t.mappings.get(k) })
	v.Completed = v.Status == mappingCompleted
	v.Refused = v.Completed && typed != nil
	for _, f := range signUpFields {
		shown := fieldView{signUpField: f, Value: *f.field(&v.Merchant)}
		if typed != nil {
			shown.Value = *f.field(typed)
			shown.Wrong = f.check(shown.Value)
			v.Wrong = v.Wrong || shown.Wrong != localized{}
		}
		v.Fields = append(v.Fields, shown)
	}
	status := http.StatusOK
	switch {
	case v.Refused:
		status = http.StatusConflict
	case v.Wrong:
		status = http.StatusUnprocessableEntity
	}
	return screen{status: status, template: "signup", data: v}
}

// takeSignUp completes a registration with what its form says.
func (s *Service) takeSignUp(k mappingKey, token string, form url.Values) screen {
	var said Merchant
	holds := true
	for _, f := range signUpFields {
		value := strings.TrimSpace(form.Get(f.Name))
		*f.field(&said) = value
		holds = holds && f.check(value) == localized{}
	}
	var to string
	err := s.store.update(func(t *tables) error {
		m := t.mappings.get(k)
		if m.Status == mappingCompleted || !holds {
			return errRefused
		}
		said.Number = bareDigits(said.Number)
		t.mappings.put(completeMapping(*m, said, t.now))
		to = redirectTarget(m.RedirectURL, token)
		return nil
	})
	switch {
	case err == nil:
		return screen{to: to}
	case errors.Is(err, errRefused):
		return s.signUpScreen(k, &said)
	}
	return s.failedScreen(err)
}

// isAddress takes a bare address, without the name that may stand before one.
func isAddress(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}
