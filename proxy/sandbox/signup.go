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
		Name: "company_name", Label: localized{"상호", "Company name"}, Type: "text",
		Autocomplete: "organization", Required: true,
		max: 100, field: func(s *Merchant) *string { return &s.Company },
	},
	{
		Name: "branch_name", Label: localized{"지점명", "Branch"}, Type: "text", Autocomplete: "off",
		max: 100, field: func(s *Merchant) *string { return &s.Branch },
	},
	{
		Name: "ceo_name", Label: localized{"대표자명", "Representative"}, Type: "text",
		Autocomplete: "name", Required: true,
		max: 100, field: func(s *Merchant) *string { return &s.CEO },
	},
	{
		Name: "email", Label: localized{"이메일", "E-mail"}, Type: "email", Autocomplete: "email", Required: true,
		max: 254, field: func(s *Merchant) *string { return &s.Email },
		valid: isAddress,
	},
	{
		Name: "business_number", Label: localized{"사업자등록번호", "Business number"}, Type: "text",
		Mode: "numeric", Autocomplete: "off",
		max: 100, field: func(s *Merchant) *string { return &s.Number },
		valid: func(v string) bool { return isBusinessNumber(bareDigits(v)) },
	},
}

// A signUpField is a field of the form.
type signUpField struct {
	Name                     string
	Label                    localized
	Type, Mode, Autocomplete string // attributes of the input element
	Required                 bool

	max   int // characters
	field func(*Merchant) *string
	valid func(string) bool // if nil, every value is valid
}

// check returns the mistake of a value: missing, characters, long, or the name of the field. It is empty for a valid
// value.
func (f signUpField) check(value string) string {
	switch {
	case value == "" && f.Required:
		return "missing"
	case value == "":
		return ""
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "characters"
	case utf8.RuneCountInString(value) > f.max:
		return "long"
	case f.valid != nil && !f.valid(value):
		return f.Name
	}
	return ""
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
	Wrong string // see signUpField.check
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
			v.Wrong = v.Wrong || view.Wrong != ""
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

// signUpPage shows a registration, or completes it with a submitted form.
func (s *Service) signUpPage(k mappingKey, token string, form url.Values) screen {
	if form == nil {
		return s.signUpScreen(k, nil)
	}
	var input Merchant
	valid := true
	for _, f := range signUpFields {
		value := strings.TrimSpace(form.Get(f.Name))
		*f.field(&input) = value
		valid = valid && f.check(value) == ""
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
