package translate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
)

// An envelope is what a form can have beside the names of code, text and result. An exported field is a key of the
// form.
type envelope struct {
	Codes     *yaml.Node // by code that differs from those of the first form: what it stands for there, or what it means
	Numeric   bool       `key:"-"` // codes are whole numbers in JSON, as that of a success
	Flag      *yaml.Node // the field that says whether the call succeeded
	Unused    string     `is:"null|omit"`   // for the result of a failure and the error of a success; "" for null
	OtherCode string     `key:"other_code"` // for a code without a pair that this form does not have; "" to write it unchanged
	Status    *yaml.Node // by HTTP status: the code of a reply without one

	flag             string      // the name; "" for none
	flagIs           [2]constant // of a failure and of a success
	object, objectIn string      // the object around the code of a failure, and as JSON with its comma; "" for none
	textInside       bool        // the text is in this object, too
	statuses         []statusCode
}

// A statusCode is a line of `status`.
type statusCode struct {
	status int
	code   string
	listed bool // in a list: a reply without a code does not have this one
}

// readEnvelope reads the keys of a form that describe its envelope.
func (s *source) readEnvelope(name, value *yaml.Node, f *form) {
	if f.Flag != nil {
		s.readFlag(f)
	}
	var code string
	if f.object, code = inObject(f.Code); f.object != "" {
		f.objectIn = "," + keyOf(f.object)
	}
	textObject, text := inObject(f.Text)
	f.textInside = textObject != "" && textObject == f.object
	f.codeKey, f.textKey = keyOf(code), ","+keyOf(text)
	tops := []string{cmp.Or(f.object, f.Code), segments(f.Result)[0], f.flag}
	if !f.textInside {
		tops = append(tops, f.Text)
	}
	tops = slices.DeleteFunc(tops, func(name string) bool { return name == "" })
	slices.Sort(tops)
	switch {
	case f.Code == "" || f.Text == "":
	case len(slices.Compact(tops)) < len(tops) || f.Code == f.Text:
		s.errorf(name, "form %q: code, text, result and flag must have different names", name.Value)
	case textObject != "" && !f.textInside || strings.Contains(code+text, "."):
		s.errorf(name, "form %q: code and text can be in one object at the top level, "+
			"as in error.code and error.message",
			name.Value)
	}
	for status, code := range s.members(f.Status, "status") {
		n, err := strconv.Atoi(status.Value)
		if err != nil || n < 200 || n > 599 {
			s.errorf(status, "status: an HTTP status is a number from 200 to 599, but this is %s", show(status))
		}
		for _, one := range listOf(code) {
			f.statuses = append(f.statuses, statusCode{n, s.str(one, "status"), one != code})
		}
	}
}

// inObject returns the object and the name of a path of two names, and no object for another path.
func inObject(path string) (object, name string) {
	if object, name, inside := strings.Cut(path, "."); inside {
		return object, name
	}
	return "", path
}

// readFlag reads a flag: a name, or a name and its values of a success and of a failure.
func (s *source) readFlag(f *form) {
	f.flagIs = [2]constant{{boolean, "false", "false"}, {boolean, "true", "true"}}
	if f.Flag.Kind == yaml.ScalarNode {
		f.flag = s.text(f.Flag, "flag", "a field name")
		return
	}
	for name, values := range s.members(f.Flag, "flag") {
		if f.flag = s.text(name, "flag", "a field name"); len(s.items(values, "flag")) == 2 {
			f.flagIs = [2]constant{s.constant(values.Content[1], false), s.constant(values.Content[0], false)}
		}
	}
	if len(f.Flag.Content) != 2 || f.flagIs[0] == f.flagIs[1] || len(f.Flag.Content[1].Content) != 2 {
		s.errorf(f.Flag, "flag must be a name, or a name with its values of a success and of a failure, as in "+
			"{status: [SUCCESS, ERROR]}")
	}
}

// checkEnvelopeCodes checks the codes of a form whose codes are numbers, and those of its other keys.
func (s *source) checkEnvelopeCodes(form int, forms *yaml.Node) {
	t, f := s.table, &s.table.forms[form]
	node := child(forms, s.forms[form])
	codes := []string{t.success.code[form]}
	codes = slices.AppendSeq(codes, maps.Keys(t.codes[form].first))
	for _, m := range t.meanings {
		if m.Form == f.name || m.Form == "" && form == 0 {
			codes = append(codes, m.Code)
		}
	}
	if f.OtherCode != "" {
		codes = append(codes, f.OtherCode)
	}
	for _, one := range f.statuses {
		if codes = append(codes, one.code); one.code != t.success.code[form] && !t.hasCode(form, one.code) {
			s.errorf(child(node, "status"),
				"status: the form has no code %q: add it to the codes", one.code)
		}
	}
	if f.OtherCode == t.success.code[form] {
		s.errorf(child(node, "other_code"), "other_code cannot be the code of a success")
	}
	for _, code := range codes {
		if f.Numeric && !isWhole(code) {
			s.errorf(node, "the code %q of %s is no whole number, as that of its success is", code, f.name)
		}
	}
	if f.Numeric && f.OtherCode == "" {
		s.errorf(node, "%s needs other_code, since its codes are numbers: the number for a code that it does not have", f.name)
	}
	if f.textInside && f.flag != "" && s.table.success.text == "" {
		s.errorf(node, "success: the text is missing: a success of %s has none, and %s needs one",
			f.name, s.forms[otherOf(form)])
	}
}

// names returns the names that an envelope has at the top level.
func (f *form) names() (names []string) {
	for _, path := range []string{f.flag, f.Code, f.Text} {
		if path != "" {
			names = append(names, segments(path)[0])
		}
	}
	return names
}

// hasCode reports whether a form has a code: in a pair, in the catalogue of the first form, or listed with its form.
func (t *Table) hasCode(form int, code string) bool {
	_, paired := t.codes[form].first[code]
	_, listed := t.known[form][code]
	return paired || listed || (form == 0 || t.forms[form].like == 0) && t.InCatalogue(code)
}

// isWhole reports whether a text is a JSON number without fraction and exponent.
func isWhole(text string) bool {
	digits, negative := strings.CutPrefix(text, "-")
	return isDigits(digits) && (!negative || digits != "0")
}

// codeJSON returns a code as the form writes it.
func (f *form) codeJSON(code string) string {
	if f.Numeric {
		return code
	}
	return string(appendString(nil, code))
}

// isCode reports whether a value has the type of a code, and is not empty.
func (f *form) isCode(v value) bool {
	if f.Numeric {
		return v.kind == number && isWhole(v.raw)
	}
	return v.kind == text && v.raw != `""`
}

// says returns the code of a reply: that of its envelope, or that of its status. missing reports that there is no code
// at all. Otherwise wrong says why the code cannot be read.
func (t *Table) says(form, status int, flag, code, message value) (found string, missing bool, wrong string) {
	f, success := &t.forms[form], t.success.code[form]
	if f.flag == "" && f.isCode(code) {
		return code.text(), false, "" // mostly
	}
	succeeded := f.flag != "" && flag.is(f.flagIs[1])
	switch {
	case f.flag != "" && flag.kind == absent && code.kind == absent:
		missing = true
	case f.flag != "" && !succeeded && !flag.is(f.flagIs[0]):
		return "", false, f.flag + " is neither " + f.flagIs[1].json + " nor " + f.flagIs[0].json
	case f.isCode(code):
		found = code.text()
	case code.kind == absent || code.kind == null && (f.flag != "" || len(f.statuses) > 0):
		missing = true
	case code.kind == text && code.raw == `""`:
		return "", false, f.Code + " is empty"
	case f.Numeric:
		return "", false, f.Code + " " + wrongType("a whole number", code.typeName())
	default:
		return "", false, f.Code + " " + wrongType("text", code.typeName())
	}
	i := slices.IndexFunc(f.statuses, func(s statusCode) bool { return s.status == status && !s.listed })
	if missing && i >= 0 && !succeeded && (flag.kind != absent || message.kind != absent) { // it is of the backend
		found, missing = f.statuses[i].code, false
	}
	if succeeded && missing {
		found, missing = success, false
	}
	if f.flag != "" && !missing && succeeded != (found == success) {
		return "", false, f.flag + " and " + f.Code + " contradict each other"
	}
	return found, missing, ""
}

// is reports whether a value is a constant.
func (v value) is(c constant) bool { return v.kind == c.kind && v.text() == c.text }

// paired returns the code of a form that a code of another form has as its pair.
func (t *Table) paired(from, to int, code string) (own string, ok bool) {
	first, known := t.codes[from].first[code]
	if !known {
		first = code
	}
	if list := t.codes[to].own[first]; len(list) > 0 {
		return list[0], true
	}
	return first, known && (t.forms[to].OtherCode == "" || t.hasCode(to, first))
}

// codeIn returns a code of another form as the form writes it: that of a pair, the code itself, or other_code.
func (t *Table) codeIn(from, to int, code string) (in string) {
	if t.replaces(from, to, code) {
		return t.forms[to].OtherCode
	}
	in, _ = t.paired(from, to, code)
	return in
}

// replaces reports whether a form has other_code for a code of another form.
func (t *Table) replaces(from, to int, code string) bool {
	_, paired := t.paired(from, to, code)
	return t.forms[to].OtherCode != "" && !paired && !t.hasCode(to, code)
}

// CodesOf returns the codes by which a form says a code of the catalogue: those of its pairs, or the code itself. It
// returns none if the form has other_code and no pair: then other is that code, which the clients of the form get.
func (t *Table) CodesOf(code string, f Form) (codes []string, other string) {
	form := t.formIndex(f)
	codes = slices.Clone(t.codes[form].own[code])
	if other = t.forms[form].OtherCode; codes == nil && (other == "" || t.hasCode(form, code)) {
		codes = []string{code}
	}
	return codes, other
}

// appendOutcome appends the fields of an envelope before its result. code is JSON, text too; "" for none.
func (f *form) appendOutcome(dst []byte, flag, code, text string, failed bool) []byte {
	if f.flag != "" {
		dst = append(append(dst, keyOf(f.flag)...), flag...)
	}
	switch {
	case f.object == "":
		dst = append(append(comma(dst), f.codeKey...), code...)
	case !f.textInside && text != "":
		dst, text = append(append(comma(dst), f.textKey[1:]...), text...), ""
	}
	inside := ""
	switch {
	case f.object != "" && (failed || f.flag == ""): // without a flag the object is always there
		dst = append(append(append(append(comma(dst), f.objectIn[1:]...), '{'), f.codeKey...), code...)
		inside = "}"
	case f.object != "":
		if text = ""; f.Unused != "omit" {
			dst = append(append(comma(dst), f.objectIn[1:]...), "null"...)
		}
	}
	if text != "" {
		dst = append(append(dst, f.textKey...), text...)
	}
	return append(dst, inside...)
}

// endFailure appends what a failure has instead of a result.
func (f *form) endFailure(dst []byte) []byte {
	if f.resultKey != "" && f.Unused != "omit" {
		dst = append(append(append(dst, ','), keyOf(segments(f.Result)[0])...), "null"...)
	}
	return append(dst, '}')
}

// AppendFailure appends a failure of the gateway in a form: code, text and no result. code is one of the catalogue
// and is translated by the table's pairs.
func (t *Table) AppendFailure(dst []byte, f Form, code, text string) []byte {
	form := t.formIndex(f)
	if form < 0 {
		return dst
	}
	to := &t.forms[form]
	json, message := to.codeJSON(t.codeOf(form, code)), string(appendString(nil, text))
	return to.endFailure(to.appendOutcome(append(dst, '{'), to.flagIs[0].json, json, message, true))
}

// FailureInBoth returns a failure of the gateway for a client whose form is not known: the members of the second form,
// then those of the first that the second does not have.
func (t *Table) FailureInBoth(code, text string) []byte {
	out := t.AppendFailure(nil, t.forms[1].name, code, text)
	first := gjson.ParseBytes(t.AppendFailure(nil, t.forms[0].name, code, text))
	first.ForEach(func(key, v gjson.Result) bool {
		if lookup(gjson.ParseBytes(out), key.Str).kind == absent {
			out = append(append(append(append(out[:len(out)-1], ','), key.Raw...), ':'), v.Raw...)
			out = append(out, '}')
		}
		return true
	})
	return out
}

// FailureStatus returns the HTTP status of a failure of the gateway in a form: that which the form has for the code, if
// both it and the given one are 4xx, or else the given one: 5xx says whether anything was sent. code is one of the
// catalogue.
func (t *Table) FailureStatus(f Form, code string, status int) int {
	form := t.formIndex(f)
	if form < 0 {
		return status
	}
	if is := t.forms[form].statusOf(t.codeOf(form, code), status); is/100 == 4 && status/100 == 4 {
		return is
	}
	return status
}

// statusOf returns the first HTTP status that the form has for a code, or the given one.
func (f *form) statusOf(code string, status int) int {
	for _, s := range f.statuses {
		if s.code == code {
			return s.status
		}
	}
	return status
}

// Status returns the HTTP status for the client of the last reply. If no form has statuses with a meaning, it is that
// of the upstream. If only the upstream's form has, the code says everything, and the status is 200. A status that
// leaves the outcome open stays one: 5xx, 429, that of a code that becomes other_code, and a success with another one
// than 2xx.
func (c *Call) Status() int {
	p := c.translation.reply
	t, to := p.table, p.toForm
	const tooManyRequests, serverErrors = 429, 500
	switch {
	case p.from == p.to || c.code == "" || c.status == tooManyRequests || c.status >= serverErrors:
		return c.status
	case c.success && c.status/100 != 2:
		return c.status
	case c.success && c.translation.operation.status[p.to] != 0:
		return c.translation.operation.status[p.to]
	case c.success && c.translation.operation.status[p.from] == c.status:
		return statusOK
	case len(to.statuses) == 0 && len(p.fromForm.statuses) == 0:
		return c.status
	}
	code := t.success.code[p.to]
	if !c.success {
		code = t.codeIn(p.from, p.to, c.code)
	}
	is := to.statusOf(code, c.status)
	switch {
	case !c.success && t.replaces(p.from, p.to, c.code) && is < serverErrors: // other_code says nothing about the outcome
		return c.status
	case len(to.statuses) == 0:
		return statusOK
	}
	return is
}

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
