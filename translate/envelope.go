package translate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A form says how one form writes its envelope.
type form struct {
	table  *Table
	name   Form
	index  int
	like   int  // the form that it is like, or itself
	digits kind // how the form writes a field with as: digits: number or text
	formKeys
	codesOfForm
	flagOfForm

	code       constant // of a success
	numeric    bool     // codes are whole numbers in JSON, as that of a success
	success    constant // of the flag, or of the code
	object     string   // around the code of a failure; "" for none
	textInside bool     // the text is in this object, too
	statuses   []statusCode
	failed     *plan // writes a failure
}

// formKeys are the keys of a form in the table.
type formKeys struct {
	Code, Text string     `is:"a path" must:"be"` // the names of code and text in the envelope
	Result     string     `is:"a path"`           // the object that holds the result; "" for the top level
	Numbers    string     `is:"json|text" must:"be"`
	Prefix     string     // of the paths of the form's calls; "" for none
	Codes      *yaml.Node // by code that differs: what it stands for in the first form, or what it means
	Flag       *yaml.Node // the field that says whether the call succeeded
	Unused     string     `is:"null|omit"`   // for the result of a failure and the error of a success; "" for null
	OtherCode  string     `key:"other_code"` // for a code that this form does not have; "" to write it unchanged
	Status     *yaml.Node // by HTTP status: the code of a reply without one
}

// A flagOfForm says whether a reply is a success.
type flagOfForm struct {
	flag   string      // the name; "" for none
	flagIs [2]constant // of a failure and of a success
}

// codesOfForm are the codes that a form has of its own.
type codesOfForm struct {
	first map[string]string   // by code: the code of the first form that it stands for
	own   map[string][]string // by code of the first form: the codes that stand for it
	known map[string]Meaning  // by code: what it means here, beside or in place of what the catalogue says
	has   map[string]bool     // all codes
}

// A statusCode is a line of `status`.
type statusCode struct {
	status int
	code   string
	listed bool // in a list: a reply without a code does not have this one
}

// readEnvelope reads the keys of a form that describe its envelope.
func (s *source) readEnvelope(name *yaml.Node, f *form) {
	s.readFlag(f)
	objectOf := func(path string) string { return path[:max(strings.LastIndexByte(path, '.'), 0)] }
	object, textIn := objectOf(f.Code), objectOf(f.Text)
	f.object, f.textInside = object, textIn != "" && textIn == object
	tops := append(f.names(), segments(f.Result)[0])
	slices.Sort(tops)
	twice := len(tops) - len(slices.Compact(slices.Clone(tops)))
	if f.textInside {
		twice--
	}
	switch {
	case f.Code == "" || f.Text == "":
	case twice > 0 || f.Code == f.Text:
		s.errorf(name, "form %q: code, text, result and flag must have different names", name.Value)
	case textIn != "" && !f.textInside || strings.Contains(object, "."):
		s.errorf(name, "form %q: code and text can be in one object at the top level, "+
			"as in error.code and error.message", name.Value)
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

// readFlag reads a flag: a name, or a name with its values of a success and of a failure.
func (s *source) readFlag(f *form) {
	switch n := f.Flag; {
	case n == nil:
	case n.Kind == yaml.ScalarNode:
		f.flag = s.text(n, "flag", "a field name")
		f.flagIs = [2]constant{{boolean, "false", "false"}, {boolean, "true", "true"}}
	default:
		for name, values := range Members(n) {
			f.flag = s.text(name, "flag", "a field name")
			if list := s.items(values, "flag"); len(list) == 2 {
				f.flagIs = [2]constant{s.constant(list[1], false), s.constant(list[0], false)}
			}
		}
		if len(n.Content) != 2 || f.flagIs[0] == f.flagIs[1] {
			s.errorf(n, "flag must be a name, or a name with its values of a success and of a failure, as in "+
				"{status: [SUCCESS, ERROR]}")
		}
	}
}

// checkEnvelopeCodes finds all codes of a form, and checks those of its other keys.
func (s *source) checkEnvelopeCodes(f *form, node *yaml.Node) {
	t, success := s.table, f.code.text
	codes := slices.Concat([]string{success}, slices.Sorted(maps.Keys(f.first)), slices.Sorted(maps.Keys(f.known)))
	if f.like == 0 {
		codes = append(codes, t.Catalogue...)
	}
	f.has = map[string]bool{}
	f.failed = &plan{table: t, message: Reply, ends: ends{toForm: f}, written: envelopeParts}
	f.failed.out = f.around(nil, 0, false, true)
	for _, code := range codes {
		f.has[code] = true
	}
	for _, one := range f.statuses {
		if !f.has[one.code] {
			s.errorf(child(node, "status"), "status: the form has no code %q: add it to the codes", one.code)
		}
	}
	switch {
	case f.OtherCode == success:
		s.errorf(child(node, "other_code"), "other_code cannot be the code of a success")
	case f.numeric && f.OtherCode == "":
		s.errorf(node, "%s needs other_code, since its codes are numbers: the number for a code that it does not have",
			f.name)
	case f.numeric:
		for _, code := range append(codes, f.OtherCode) {
			if !isWhole(code) {
				s.errorf(node, "the code %q of %s is no whole number, as that of its success is", code, f.name)
			}
		}
	}
	if f.textInside && f.flag != "" && t.successText.text == "" {
		s.errorf(node, "success: the text is missing: a success of %s has none, and %s needs one",
			f.name, s.forms[otherOf(f.index)])
	}
}

// shows returns the name by whose value a message is a success: that of the flag, or of the code.
func (f *form) shows() string { return cmp.Or(f.flag, f.Code) }

// paths returns the paths of flag, code and text; "" for none.
func (f *form) paths() [envelopeSlots]string { return [...]string{f.flag, f.Code, f.Text} }

// names returns the names that an envelope can have at the top level.
func (f *form) names() (names []string) {
	for _, path := range f.paths() {
		if path != "" {
			names = append(names, segments(path)[0])
		}
	}
	return names
}

// isWhole reports whether a text is a JSON number without fraction and exponent.
func isWhole(text string) bool {
	digits, negative := strings.CutPrefix(text, "-")
	return isDigits(digits) && (!negative || digits != "0")
}

// codeJSON returns a code as the form writes it.
func (f *form) codeJSON(code string) string {
	if f.numeric {
		return code
	}
	return string(appendString(nil, code))
}

// isCode reports whether a value has the type of a code, and is not empty.
func (f *form) isCode(v value) bool {
	if f.numeric {
		return v.kind == number && isWhole(v.raw)
	}
	return v.kind == text && v.raw != `""`
}

// says returns the code of a reply: that of its envelope, or that of its status. missing reports that there is no code
// at all. Otherwise wrong says why the code cannot be read.
func (f *form) says(status int, envelope []value) (found string, missing bool, wrong string) {
	success, flag, code := f.code.text, envelope[flagSlot], envelope[codeSlot]
	flagged, succeeded := f.flag != "", f.flag != "" && flag.is(f.flagIs[1])
	switch i := slices.IndexFunc(f.statuses, func(s statusCode) bool { return s.status == status && !s.listed }); {
	case flagged && !succeeded && !flag.is(f.flagIs[0]) && (flag.kind != absent || code.kind != absent):
		return "", false, f.flag + " is neither " + f.flagIs[1].json + " nor " + f.flagIs[0].json
	case f.isCode(code):
		found = code.text()
	case code.raw == `""`:
		return "", false, f.Code + " is empty"
	case code.kind != absent && (code.kind != null || !flagged && f.statuses == nil):
		want := map[bool]string{true: "a whole number", false: "text"}
		return "", false, f.Code + " has the wrong type: want " + want[f.numeric] + ", got " + code.typeName()
	case succeeded:
		found = success
	case i >= 0 && (flag.kind != absent || envelope[textSlot].kind != absent): // it is of the backend
		found = f.statuses[i].code
	default:
		return "", true, ""
	}
	if flagged && succeeded != (found == success) {
		return "", false, f.flag + " and " + f.Code + " contradict each other"
	}
	return found, false, ""
}

// is reports whether a value is a constant.
func (v value) is(c constant) bool { return v.kind == c.kind && v.text() == c.text }

// paired returns the code of another form that a code has as its pair, or the code itself.
func (f *form) paired(to *form, code string) string {
	code = f.inFirst(code)
	if own := to.own[code]; own != nil {
		return own[0]
	}
	return code
}

// inFirst returns the code of the first form that a code stands for, or the code itself.
func (f *form) inFirst(code string) string { return cmp.Or(f.first[code], code) }

// codeIn returns a code as another form writes it, and whether it has other_code instead.
func (f *form) codeIn(to *form, code string) (in string, replaced bool) {
	if in = f.paired(to, code); to.OtherCode != "" && !to.has[in] {
		return to.OtherCode, true
	}
	return in, false
}

// An Envelope is what a form has around its results. That of an unknown form has no names, and writes failures as the
// first form does.
type Envelope struct {
	Text      string // the path of the text
	Success   string // the code of a success
	OtherCode string // stands for codes that the form does not have; "" if there is none

	form *form
}

// Envelope returns the envelope of a form.
func (t *Table) Envelope(f Form) Envelope {
	form := t.formIndex(f)
	if form < 0 {
		return Envelope{form: &t.forms[0]}
	}
	of := &t.forms[form]
	return Envelope{of.Text, of.code.text, of.OtherCode, of}
}

// ShowsSuccess returns by what a message is a success: the name and the value of its flag or code.
func (e Envelope) ShowsSuccess() string { return e.form.shows() + " " + e.form.success.text }

// CodesOf returns the codes by which the form says a code of the catalogue: those of its pairs, or the code itself, or
// other_code, if this replaces it.
func (e Envelope) CodesOf(code string) (codes []string, replaced bool) {
	if own := e.form.own[code]; own != nil {
		return own, false
	}
	code, replaced = e.codeOf(code)
	return []string{code}, replaced
}

// codeOf returns a code of the catalogue as the form writes it.
func (e Envelope) codeOf(code string) (in string, replaced bool) {
	return e.form.table.forms[0].codeIn(e.form, code)
}

// The slots of an envelope are those of its flag, its code and its text.
const flagSlot, codeSlot, textSlot, envelopeSlots = 0, 1, 2, 3

// around returns a message around its result. slot is the first one of the envelope. A message that is read can have
// all members, a success and a failure have those which the form writes.
func (f *form) around(result *node, slot int, read, failed bool) *node {
	root, unused := newNode("", "", false), entry{node: &node{slot: -1}, empty: "null"}
	if f.Unused == "omit" {
		unused.empty = ""
	}
	order := []int{flagSlot, codeSlot, textSlot}
	if f.object != "" && !f.textInside {
		order = []int{flagSlot, textSlot, codeSlot}
	}
	for _, part := range order {
		path, e := f.paths()[part], entry{slot: slot + part}
		if f.flag != "" && !read && !failed && strings.HasPrefix(path, f.object+".") {
			path, e = f.object, unused // without a flag the object is always there
		}
		root.addField(path, e)
	}
	switch top := segments(f.Result)[0]; {
	case failed:
		root.addField(top, unused)
	case top == "":
		for _, e := range result.names {
			root.add(e)
		}
	default:
		root.addField(f.Result, entry{node: result, empty: "{}"})
	}
	return root
}

// AppendFailure appends a failure of the gateway: code, text and no result. code is one of the catalogue and is
// translated by the table's pairs.
func (e Envelope) AppendFailure(dst []byte, code, message string) []byte {
	code, _ = e.codeOf(code)
	dst, _ = new(Call).emitAll(e.form.failed, dst, []value{
		{raw: e.form.flagIs[0].json, kind: text}, // what is text stays as it is
		{raw: e.form.codeJSON(code), kind: text},
		{raw: string(appendString(nil, message)), kind: text},
	})
	return dst
}

// FailureInBoth returns a failure of the gateway for a client whose form is not known: the members of the second form,
// and those of the first that the second does not have.
func (t *Table) FailureInBoth(code, text string) []byte {
	both := map[string]json.RawMessage{}
	for _, f := range t.Forms() {
		_ = json.Unmarshal(t.Envelope(f).AppendFailure(nil, code, text), &both)
	}
	out, _ := json.Marshal(both)
	return out
}

// FailureStatus returns the HTTP status of a failure of the gateway: that which the form has for the code, if both it
// and the given one are 4xx, or else the given one: 5xx says whether anything was sent. code is one of the catalogue.
func (e Envelope) FailureStatus(code string, status int) int {
	code, _ = e.codeOf(code)
	if is := e.form.statusOf(code, status); is/100 == 4 && status/100 == 4 {
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
	p, status := c.translation.reply, c.translation.operation.status
	to := p.toForm
	const tooManyRequests, serverErrors = 429, 500
	switch {
	case p.from == p.to, c.code == "", c.status == tooManyRequests, c.status >= serverErrors,
		c.success && c.status/100 != 2:
		return c.status
	case c.success && status[p.to] != 0:
		return status[p.to]
	case c.success && status[p.from] == c.status:
		return statusOK
	case len(to.statuses) == 0 && len(p.fromForm.statuses) == 0:
		return c.status
	}
	code, replaced := to.code.text, false
	if !c.success {
		code, replaced = p.fromForm.codeIn(to, c.code)
	}
	switch is := to.statusOf(code, c.status); {
	case replaced && is < serverErrors: // other_code says nothing about the outcome
		return c.status
	case len(to.statuses) > 0:
		return is
	}
	return statusOK
}
