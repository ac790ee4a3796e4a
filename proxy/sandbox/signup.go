package sandbox

import (
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A signUpView is the data of the sign-up page. The fields of its form are in the template.
type signUpView struct {
	mapping
	Completed bool
	Refused   bool               // a form was submitted, but the registration is completed
	Value     map[string]*string // by the names of the fields
	Wrong     map[string]string  // the mistakes of the submitted form, see mistakeIn
}

// fields returns the fields of the form by their names.
func (m *Merchant) fields() map[string]*string {
	return map[string]*string{
		"company_name": &m.Company, "branch_name": &m.Branch, "ceo_name": &m.CEO, "email": &m.Email,
		"business_number": &m.Number,
	}
}

// signUpPage shows a registration, or completes it with a submitted form.
func (s *Service) signUpPage(k mappingKey, token string, form url.Values) screen {
	v := signUpView{Wrong: map[string]string{}}
	var input Merchant
	for name, field := range input.fields() {
		*field = strings.TrimSpace(form.Get(name))
		if wrong := mistakeIn(name, *field); wrong != "" && form != nil {
			v.Wrong[name] = wrong
		}
	}
	a := screen{status: http.StatusOK, template: "signup"}
	err := s.update(func(t *tables) error {
		v.mapping = *t.Mappings.get(k)
		v.Completed = v.Status == mappingCompleted
		switch {
		case form == nil:
			input = v.Merchant
		case v.Completed:
			a.status, v.Refused, v.Wrong = http.StatusConflict, true, nil
		case len(v.Wrong) > 0:
			a.status = http.StatusUnprocessableEntity
		default:
			input.Number = bareDigits(input.Number)
			t.Mappings.put(completeMapping(v.mapping, input, t.now))
			a.to = redirectTarget(v.RedirectURL, token)
		}
		return nil
	})
	if err != nil {
		return s.failedScreen(err)
	}
	v.Value = input.fields()
	a.data = v
	return a
}

// mistakeIn returns the mistake of a value: missing, characters, or the name of the field. It is empty for a valid
// value.
func mistakeIn(name, value string) string {
	switch {
	case value == "" && (name == "branch_name" || name == "business_number"):
		return ""
	case value == "":
		return "missing"
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "characters"
	case name == "email" && !isAddress(value), name == "business_number" && !isBusinessNumber(bareDigits(value)):
		return name
	}
	return ""
}

// isAddress reports whether s is an e-mail address without a display name.
func isAddress(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}
