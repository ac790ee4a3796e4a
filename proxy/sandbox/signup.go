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

// signUpFields are the fields of the form, in their order.
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
		message: localized{"이메일 주소를 확인해 주세요.", "Please check the e-mail address."},
		valid:   isAddress,
	},
	{
		Name: "business_number", Label: localized{"사업자등록번호", "Business number"}, Type: "text", Mode: "numeric", Autocomplete: "off",
		max: 100, field: func(s *Merchant) *string { return &s.Number },
		message: localized{"숫자 10자리로 입력해 주세요.", "Please enter 10 digits."},
		valid:   func(v string) bool { return isBusinessNumber(bareDigits(v)) },
	},
}

// A signUpField is a field of the form.
type signUpField struct {
	Name                     string
	Label                    localized
	Type, Mode, Autocomplete string // attributes of the input element
	Required                 bool

	max     int // characters
	field   func(*Merchant) *string
	valid   func(string) bool // if nil, every value is valid
	message localized         // the message if the value is not valid
}

// check returns a message if a value is invalid, else the zero value.
func (f signUpField) check(value string) localized {
	switch {
	case value == "" && f.Required:
		return localized{"필수 항목입니다.", "This field is required."}
	case value == "":
		return localized{}
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return localized{"쓸 수 없는 문자가 있습니다.", "It contains invalid characters."}
	case utf8.RuneCountInString(value) > f.max:
		return localized{"너무 깁니다.", "It is too long."}
	case f.valid != nil && !f.valid(value):
		return f.message
	}
	return localized{}
}

// A signUpView is the data of the sign-up page.
type signUpView struct {
	mapping
	Completed bool
	Refused   bool // the form was refused because the registration is completed
	Wrong     bool // a field has a mistake
	Fields    []fieldView
}

type fieldView struct {
	signUpField
	Value string
	Wrong localized
}

// signUpScreen returns the screen of a registration. input is the rejected input of the form, or nil.
func (s *Service) signUpScreen(k mappingKey, input *Merchant) screen {
	var v signUpView
	s.store.view(func(t *tables) { v.mapping = *t.Mappings.get(k) })
	v.Completed = v.Status == mappingCompleted
	v.Refused = v.Completed && input != nil
	for _, f := range signUpFields {
		view := fieldView{signUpField: f, Value: *f.field(&v.Merchant)}
		if input != nil {
			view.Value = *f.field(input)
			view.Wrong = f.check(view.Value)
			v.Wrong = v.Wrong || view.Wrong != localized{}
		}
		v.Fields = append(v.Fields, view)
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

// takeSignUp completes a registration with a submitted form.
func (s *Service) takeSignUp(k mappingKey, token string, form url.Values) screen {
	var input Merchant
	valid := true
	for _, f := range signUpFields {
		value := strings.TrimSpace(form.Get(f.Name))
		*f.field(&input) = value
		valid = valid && f.check(value) == localized{}
	}
	var to string
	err := s.store.update(func(t *tables) error {
		m := t.Mappings.get(k)
		if m.Status == mappingCompleted || !valid {
			return errRefused
		}
		input.Number = bareDigits(input.Number)
		t.Mappings.put(completeMapping(*m, input, t.now))
		to = redirectTarget(m.RedirectURL, token)
		return nil
	})
	switch {
	case err == nil:
		return screen{to: to}
	case errors.Is(err, errRefused):
		return s.signUpScreen(k, &input)
	}
	return s.failedScreen(err)
}

// isAddress reports whether s is an e-mail address without a display name.
func isAddress(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}
