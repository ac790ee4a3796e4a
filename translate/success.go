package translate

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// SuccessCode returns the code of a success in a form.
func (t *Table) SuccessCode(f Form) string {
	return ofForm(t, f, t.success.code)
}

// ShowsSuccess returns by what a reply in a form is a success: its code, or the name and the value of its flag.
func (t *Table) ShowsSuccess(f Form) string {
	if form := &t.forms[t.formIndex(f)]; form.flag != "" {
		return form.flag + " " + form.flagIs[1].text
	}
	return t.SuccessCode(f)
}

// CheckSuccess returns an error if code cannot be the code by which an upstream of the form reports a success: a code
// with a meaning, or with a pair, is a refusal.
func (t *Table) CheckSuccess(f Form, code string) error {
	form := t.formIndex(f)
	if form < 0 {
		return t.checkForm(f)
	}
	if name := t.forms[form].flag; name != "" {
		return fmt.Errorf("%s reports a success by %s, and has no code of a success", f, name)
	}
	if code != t.success.code[form] && t.knowsCode(form, code) {
		return fmt.Errorf("%q is a code of the table, and does not report a success", code)
	}
	return nil
}

// NormaliseSuccess returns a reply in which own, the code by which this upstream reports a success, is replaced by
// that of the form. All other bytes are unchanged. A reply that has the code of the form, though own is another one,
// is an [*UnusableReply]: nobody knows what it says.
func (t *Table) NormaliseSuccess(f Form, own string, reply []byte) ([]byte, error) {
	if err := t.checkForm(f); err != nil {
		return nil, err
	}
	if checkJSON(reply, t.depth) != nil {
		return reply, nil // found again when the reply is read
	}
	form := &t.forms[t.formIndex(f)]
	code, standard := lookup(gjson.Parse(unsafeString(reply)), form.Code), t.SuccessCode(f)
	switch {
	case !form.isCode(code) || own == standard:
		return reply, nil
	case code.text() == own:
		begin := offsetIn(reply, code)
		out := append(make([]byte, 0, len(reply)+len(standard)), reply[:begin]...)
		return append(append(out, form.codeJSON(standard)...), reply[begin+len(code.raw):]...), nil
	case code.text() == standard:
		reason := fmt.Sprintf("the code is %s, but a success of this upstream has %s", standard, own)
		return nil, &UnusableReply{Reason: reason}
	}
	return reply, nil
}

// knowsCode reports whether a code is in the catalogue or in another list of the table.
func (t *Table) knowsCode(form int, code string) bool {
	_, paired := t.codes.find(form, code)
	return code == t.success.code[form] || paired || t.InCatalogue(code) || t.known[form][code].Means != ""
}
