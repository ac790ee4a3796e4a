package translate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Schema describes a value of a message, in the words of JSON Schema 2020-12.
type Schema struct {
	Description string            `json:"description,omitempty"`
	Type        Types             `json:"type,omitempty"`
	Format      string            `json:"format,omitempty"` // "password" if the value must not be shown
	Const       json.RawMessage   `json:"const,omitempty"`
	Enum        []json.RawMessage `json:"enum,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	MinLength   int               `json:"minLength,omitempty"`
	MaxLength   int               `json:"maxLength,omitempty"`
	Minimum     int               `json:"minimum,omitempty"`
	Maximum     int               `json:"maximum,omitempty"`
	AnyOf       []*Schema         `json:"anyOf,omitempty"`
	Items       *Schema           `json:"items,omitempty"`
	Properties  Properties        `json:"properties,omitempty"`
	Required    []string          `json:"required,omitempty"`

	// Example is a value, as JSON, of what is neither an object nor a list. If it is "", examples of messages leave
	// the value out.
	Example string `json:"-"`
}

// Types are the JSON types that a value can have.
type Types []string

// MarshalJSON writes one type as text.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Properties are the members of an object, in the order of the table.
type Properties []Property

// A Property is a member of an object.
type Property struct {
	Name string
	*Schema
}

// MarshalJSON writes the members as one object.
func (p Properties) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, one := range p {
		value, err := json.Marshal(one.Schema)
		if err != nil {
			return nil, err
		}
		out = append(append(append(comma(out), appendString(nil, one.Name)...), ':'), value...)
	}
	return append(out, '}'), nil
}

// AppendExample appends an example of the value.
func (s *Schema) AppendExample(dst []byte) []byte {
	switch {
	case s.Items != nil:
		return append(s.Items.AppendExample(append(dst, '[')), ']')
	case s.Properties == nil:
		return append(dst, s.Example...)
	}
	dst = append(dst, '{')
	for _, one := range s.Properties {
		if one.Example != "" || one.Items != nil || one.Properties != nil {
			dst = one.AppendExample(append(comma(dst), keyOf(one.Name)...))
		}
	}
	return append(dst, '}')
}

// Schema returns the schema of a message of the operation in a form that has the operation. That of a reply is one of
// a success. Bounds are those of the table, whoever checks them. Examples have what both forms can carry.
func (o *Operation) Schema(m Message, f Form) *Schema {
	from := o.table.formIndex(f)
	t := o.translations[from][from]
	switch {
	case m == Reply && o.bare[from]:
		s := t.reply.schema(t.reply.out, false)
		for _, f := range t.reply.fields { // by which such a reply is known as a success
			if f.Means != nil || f.must && !f.Role.Secret {
				s.Required = append(s.Required, segments(f.source)[0])
			}
		}
		slices.Sort(s.Required)
		s.Required = slices.Compact(s.Required)
		return s
	case m == Reply && o.list:
		s, items := t.reply.schema(t.reply.root, false), o.table.plan(Reply, o.rows[Reply], from, from, "drop", true)
		for i, one := range s.Properties {
			if one.Name == o.table.forms[from].Result {
				s.Properties[i].Schema = &Schema{Type: Types{"array"}, Items: items.schema(items.root, false)}
			}
		}
		return s
	case m == Reply:
		return t.reply.schema(t.reply.root, false)
	case o.paths[otherOf(from)] != "":
		t = o.translations[from][otherOf(from)]
	}
	s := t.request.schema(t.request.root, false)
	if o.hash != nil {
		t.signExample(s)
	}
	return s
}

// signExample describes the hash of a request, and puts that of the example into it.
func (t *Translation) signExample(s *Schema) {
	p, h, call := t.request, t.operation.hash, t.Start()
	defer call.Release()
	var of []string
	for _, part := range h.of {
		of = append(of, p.fields[part.slot].source+map[bool]string{true: " (if there is one)"}[part.optional])
	}
	field := s
	for _, name := range segments(p.fields[h.in].source) {
		at := slices.IndexFunc(field.Properties, func(p Property) bool { return p.Name == name })
		field = field.Properties[at].Schema
	}
	field.Description = fmt.Sprintf("%s. sha256 in hexadecimal digits, of %s, with %q between them", field.Description,
		strings.Join(of, ", "), hashJoin)
	field.Description = strings.TrimPrefix(field.Description, ". ")
	if call.Read(s.AppendExample(nil)) != nil {
		return
	}
	if signed, err := call.Sign(); err == nil {
		field.Example = string(appendString(nil, signed.Hash))
	}
}

// Schema returns the schema of the callback in a form.
func (c *Callback) Schema(f Form) *Schema {
	p := c.plan(f, f)
	return p.schema(p.root, false)
}

// FailureSchema returns the schema of a failure in a form.
func (t *Table) FailureSchema(f Form) *Schema {
	from := t.formIndex(f)
	p := t.plan(Reply, nil, from, from, "drop", false)
	return p.schema(p.root, true)
}

// FailureStatuses returns the HTTP statuses that say more than the code of a failure, in the order of the table.
func (t *Table) FailureStatuses(f Form) (list []int) {
	form := t.formIndex(f)
	for _, s := range t.forms[form].statuses {
		if s.code != t.success.code[form] {
			list = append(list, s.status)
		}
	}
	return list
}

// schema returns the schema of an object of the input, or of the whole message.
func (p *plan) schema(n *node, failed bool) *Schema {
	s := &Schema{Type: Types{"object"}, Properties: Properties{}}
	form := p.fromForm
	envelope := n == p.root
	for i := range n.names {
		e := &n.names[i]
		v, required := (*Schema)(nil), false
		switch isObject := e.node != nil && p.message == Reply && envelope && !p.item && form.object == e.name(); {
		case e.node == nil:
			v, required = p.member(e, failed)
		case isObject && !failed && form.flag != "" || failed && !isObject: // the error of a success, the result of a failure
			if form.Unused == "omit" {
				continue
			}
			v = &Schema{Type: Types{"null"}, Example: "null"}
		case len(e.node.names) == 0: // the result of an operation that has none
			v = &Schema{Example: "null"}
		default:
			v = p.schema(e.node, failed)
			required = len(v.Required) > 0
		}
		if s.Properties = append(s.Properties, Property{e.name(), v}); required {
			s.Required = append(s.Required, e.name())
		}
	}
	return s
}

// member returns the schema of a field or of a part of the envelope, and whether it must be there.
func (p *plan) member(e *entry, failed bool) (s *Schema, required bool) {
	t, form := p.table, p.fromForm
	text := Types{"string"}
	switch e.slot {
	case p.flagSlot():
		is := []json.RawMessage{json.RawMessage(form.flagIs[1].json)}
		if failed {
			is = []json.RawMessage{json.RawMessage(form.flagIs[0].json)}
		}
		return &Schema{Enum: is, Example: string(is[0])}, true
	case p.textSlot():
		word := cmp.Or(t.success.text, "ok")
		if failed {
			word = "the reason"
		}
		return &Schema{Type: text, Example: string(appendString(nil, word))}, false
	case p.codeSlot():
		if !failed {
			code := t.success.codeJSON[p.from]
			return &Schema{Const: json.RawMessage(code), Example: code}, true
		}
		if form.Numeric {
			text = Types{"integer"}
		}
		s = &Schema{Description: t.describeCodes(p.from), Type: text}
		s.Example = form.codeJSON(t.codeOf(p.from, t.invalid))
		return s, true
	}
	f := p.fields[e.slot]
	return p.fieldSchema(f), f.Required
}

// codeOf returns a code of the catalogue as a form has it.
func (t *Table) codeOf(form int, code string) string {
	if form == 0 {
		return code
	}
	return t.codeIn(0, form, code)
}

// describeCodes returns the codes of failures in a form, by what they mean.
func (t *Table) describeCodes(form int) string {
	by, listed := map[Meaning][]string{}, map[string]bool{t.success.code[form]: true}
	add := func(code string, means Meaning) {
		if !listed[code] {
			listed[code], by[means] = true, append(by[means], code)
		}
	}
	for _, m := range t.meanings {
		if m.Form == "" {
			add(t.codeOf(form, m.Code), m.Means)
		} else if m.Form == t.forms[form].name {
			add(m.Code, m.Means)
		}
	}
	if other := t.forms[form].OtherCode; other != "" {
		add(other, "")
	}
	var lines []string
	for _, means := range append(slices.Clone(allMeanings), "") {
		if codes := by[means]; len(codes) > 0 {
			lines = append(lines, says[means]+": "+strings.Join(codes, ", ")+".")
		}
	}
	return strings.Join(append(lines, "Other codes are possible."), "\n")
}

// says is what the meanings of codes say to a client.
var says = map[Meaning]string{
	NotFound: "It does not exist", Exists: "It exists already",
	Refused: "Refused, nothing was done", CallerRefused: "The caller is refused, nothing was done",
	Malformed:   "Something is missing or has the wrong format, nothing was done",
	Unavailable: "The service failed; this says nothing about the call",
	"":          "Other failures",
}

// fieldSchema returns the schema of a field.
func (p *plan) fieldSchema(f *mapping) *Schema {
	s := &Schema{Example: p.example(f)}
	switch {
	case f.each != nil && f.each.root.plain:
		s.Type, s.Items = Types{"array"}, f.each.fieldSchema(f.each.fields[0])
	case f.each != nil:
		s.Type, s.Items = Types{"array"}, f.each.schema(f.each.root, false)
	case p.message == callbackMessage && f.always.kind != absent:
		s.Const, s.Example = json.RawMessage(f.always.json), f.always.json
	case p.message == Request && f.oneOf != nil:
		for _, one := range f.oneOf {
			s.Enum = append(s.Enum, appendString(nil, one))
		}
	default:
		p.describeValue(f, s)
	}
	if f.secret {
		s.Format = "password"
	}
	s.Description = strings.Join(append([]string{f.about}, p.remarks(f)...), ". ")
	s.Description = strings.TrimPrefix(s.Description, ". ")
	return s
}

// describeValue describes a value by the keys of its row.
func (p *plan) describeValue(f *mapping, s *Schema) {
	request, in := p.message == Request, f.digitsIn(p.fromForm)
	moved := f.isMoved()
	s.Type = Types{"string"}
	switch {
	case f.pattern[0] != "":
		s.Pattern = "^" + digitPlace.ReplaceAllString(regexp.QuoteMeta(f.pattern[p.from]), `[0-9]`) + "$"
	case f.as == "" && f.exampleKind == boolean:
		s.Type = Types{"boolean"}
	case f.as == "" && f.exampleKind == number:
		s.Type = Types{"number"}
	case f.as == "":
		s.MinLength, s.MaxLength = f.min, f.max
		if f.Required {
			s.MinLength = max(s.MinLength, 1)
		}
		if f.exactDigits > 0 {
			s.Pattern = fmt.Sprintf("^[0-9]{%d}$", f.exactDigits)
		}
	case in == number && (!moved || f.as == "digits" && f.Shift[p.from] > 0):
		s.Type, s.Minimum, s.Maximum = Types{"integer"}, f.min, f.max
	case in == number:
		s.Type = Types{"number"}
	case f.width[p.from] > 0:
		s.Pattern = fmt.Sprintf("^[0-9]{%d}$", f.width[p.from])
	case request && moved:
		s.Pattern = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`
	case request:
		s.Pattern = `^(0|[1-9][0-9]*)$`
	}
	// What else the value can be. Between words and digits without pairs, both stay as they are.
	var others []json.RawMessage
	for _, one := range f.Values.list {
		others = append(others, json.RawMessage(one.Values[p.from].json))
	}
	if f.Empty.kind != absent && in == text && s.Pattern != "" {
		others = append(others, json.RawMessage(`""`))
	}
	words := !request && f.mayBeWord() && f.Otherwise != "drop"
	switch {
	case words && in == number:
		s.Type = append(s.Type, "string")
	case len(others) == 0:
	case request && f.onlyPairs:
		s.Type, s.Pattern, s.Enum = nil, "", others
	default:
		*s = Schema{AnyOf: []*Schema{{Enum: others}, {Type: s.Type, Pattern: s.Pattern}}, Example: s.Example}
	}
	if in == number && s.Type != nil && (f.state >= 0 || f.Otherwise == "drop") {
		s.Type = append(s.Type, "null")
	}
}

// digitPlace finds the places of digits in a pattern.
var digitPlace = regexp.MustCompile("[" + digitPlaces + "]")

// remarks returns what else a client has to know of a field.
func (p *plan) remarks(f *mapping) (list []string) {
	add := func(format string, values ...any) { list = append(list, fmt.Sprintf(format, values...)) }
	for _, value := range slices.Sorted(maps.Keys(f.Means)) {
		shown := strconv.Quote(value)
		if c, ok := f.Values.find(0, p.from, value); ok && p.from != 0 {
			shown = c.json
		}
		add("%s: %s", shown, f.Means[value])
	}
	if p.message != Request {
		return list
	}
	inText := f.digits && f.digitsIn(p.fromForm) == text
	if inText && f.min > 0 {
		add("At least %d", f.min)
	}
	if inText && f.max > 0 {
		add("At most %d", f.max)
	}
	if f.Code != p.table.invalid {
		add("A wrong value is refused with %s", p.table.codeOf(p.from, f.Code))
	}
	other := p.table.forms[otherOf(p.from)].name
	switch refusal := p.table.codeOf(p.from, f.lossCode); {
	case f.loss == "refuse" && f.always.kind != absent:
		add("A backend of the form %s can have %s only: another value is refused with %s",
			other, f.always.json, refusal)
	case f.loss == "refuse":
		add("A backend of the form %s cannot have it: refused with %s", other, refusal)
	case f.loss == "drop":
		add("A backend of the form %s does not get it", other)
	}
	return list
}
