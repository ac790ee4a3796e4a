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

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// A Schema describes a value of a message, in the words of JSON Schema 2020-12.
type Schema struct {
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"`   // one as text, or a list
	Format      string             `json:"format,omitempty"` // "password" if the value must not be shown
	Enum        []json.RawMessage  `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	MinLength   int                `json:"minLength,omitempty"`
	MaxLength   int                `json:"maxLength,omitempty"`
	Minimum     int                `json:"minimum,omitempty"`
	Maximum     int                `json:"maximum,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`

	// Example is a value. If it is nil, examples of messages leave the value out.
	Example json.RawMessage `json:"-"`

	required bool
}

// Schema returns the schema of a message of the operation in a form that has the operation. That of a reply is one of
// a success. Bounds are those of the table, whoever checks them. Examples have what both forms can carry.
func (o *Operation) Schema(m Message, f Form) *Schema {
	t, from := o.Translation(f, f), o.table.formIndex(f)
	if t == nil {
		return &Schema{}
	}
	switch both := o.translations[from][otherOf(from)]; {
	case m == Reply:
		s := t.reply.schema(t.reply.out, o.bare[from])
		if o.list {
			p, result := o.planOf(Reply, o.rows[Reply], from, from, "drop", true), o.table.forms[from].Result
			items := p.schema(p.root, false)
			s.Properties[result] = &Schema{Type: "array", Items: items}
			s.Example, _ = sjson.SetRawBytes(s.Example, result+".0", items.Example)
		}
		return s
	case both != nil:
		t = both
	}
	s, call := t.request.schema(t.request.root, false), t.Start()
	defer call.Release()
	if o.hash != nil && call.Read(s.Example) == nil {
		if signed, err := call.Sign(); err == nil {
			s.Example, _ = sjson.SetBytes(s.Example, t.request.fields[o.hash.in].source, signed.Hash)
		}
	}
	return s
}

// Schema returns the schema of the callback in a form.
func (c *Callback) Schema(f Form) *Schema {
	p := c.plan(f, f)
	return p.schema(p.root, false)
}

// FailureSchema returns the schema of a failure.
func (e Envelope) FailureSchema() *Schema {
	t := e.form.table
	s := schemaOf(gjson.ParseBytes(e.AppendFailure(nil, t.invalid, "the reason")))
	s.Required = segments(e.form.shows())[:1]
	said := map[string]bool{t.forms[0].code.text: true}
	add := func(code string, means Meaning) {
		if !said[code] {
			said[code] = true
			s.Description += fmt.Sprintf("%s: %s\n", code, cmp.Or(means, open))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(e.form.known)) { // which the catalogue may have with another meaning
		add(code, e.form.known[code])
	}
	for _, first := range t.Catalogue {
		if code, _ := t.forms[0].codeIn(e.form, first); !said[first] {
			add(code, t.inCatalogue[first].Means)
		}
	}
	return s
}

// schemaOf returns the schema of a failure by an example of one.
func schemaOf(v gjson.Result) *Schema {
	s := &Schema{Type: jsonType[valueOf(v).kind], Example: json.RawMessage(v.Raw), Properties: map[string]*Schema{}}
	if v.IsObject() {
		v.ForEach(func(key, v gjson.Result) bool {
			s.Properties[key.Str] = schemaOf(v)
			return true
		})
	}
	return s
}

// jsonType is the JSON type of a value. A row without an example is text.
var jsonType = map[kind]string{
	absent: "string", null: "null", boolean: "boolean", number: "integer", text: "string", composite: "object",
}

// schema returns the schema of an object of the input. A success that is bare is known by some of its fields.
func (p *plan) schema(n *node, bare bool) *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}, Example: json.RawMessage("{")}
	for i := range n.names {
		e := &n.names[i]
		v := p.entrySchema(e, bare)
		if v == nil {
			continue
		}
		if s.Properties[e.name()] = v; v.Example != nil {
			s.Example = append(append(comma(s.Example), e.key...), v.Example...)
		}
		if v.required {
			s.Required, s.required = append(s.Required, e.name()), true
		}
	}
	s.Example = append(s.Example, '}')
	return s
}

// entrySchema returns the schema of a member of an object, or nil if a success has none.
func (p *plan) entrySchema(e *entry, bare bool) *Schema {
	fixed := func(text string) *Schema {
		return &Schema{Enum: []json.RawMessage{json.RawMessage(text)}, Example: json.RawMessage(text), required: true}
	}
	switch n, part := e.node, p.part(e); {
	case n != nil && len(n.names) == 0:
		return nil // no result, or the error of a success
	case n != nil:
		return p.schema(n, bare)
	case part == flagSlot:
		return fixed(p.fromForm.flagIs[1].json)
	case part == codeSlot:
		return fixed(p.fromForm.code.json)
	case part == textSlot:
		return &Schema{Type: "string", Example: appendString(nil, cmp.Or(p.table.successText.text, "ok"))}
	}
	f := p.fields[e.slot]
	s := p.fieldSchema(f)
	s.required = f.Required || bare && (f.Means != nil || f.must && !f.Role.Secret)
	return s
}

// fieldSchema returns the schema of a field. Without an example in the table it has an invented one, and none if the
// other form would refuse the field.
func (p *plan) fieldSchema(f *mapping) *Schema {
	s := &Schema{Description: f.about, Type: "array", Example: json.RawMessage("[]")}
	switch {
	case f.each != nil:
		if f.each.root.plain {
			s.Items = f.each.fieldSchema(f.each.fields[0])
		} else {
			s.Items = f.each.schema(f.each.root, false)
		}
		s.Example = slices.Concat([]byte("["), s.Items.Example, []byte("]"))
	case f.list: // the table does not look into it
	case p.message == Request && f.oneOf != nil:
		s.Type = "string"
		for _, one := range f.oneOf {
			s.Enum = append(s.Enum, appendString(nil, one))
		}
		s.Example = s.Enum[0]
	default:
		p.describeValue(f, s)
	}
	if f.always.kind != absent && (f.target == "" || p.message == callbackMessage) {
		s.Example = json.RawMessage(f.always.json)
	} else if f.target == "" && f.loss == "refuse" {
		s.Example = nil
	}
	if f.secret {
		s.Format = "password"
	}
	for _, value := range slices.Sorted(maps.Keys(f.Means)) {
		shown, _ := f.Values.find(0, p.from, value)
		s.Description += fmt.Sprintf(". %q: %s", cmp.Or(shown.text, value), f.Means[value])
	}
	return s
}

// describeValue describes a single value by the keys of its row.
func (p *plan) describeValue(f *mapping, s *Schema) {
	request, as, word := p.message == Request, f.exampleKind, cmp.Or(f.example, f.name())
	integer := f.as == "digits" && (!f.isMoved() || f.Shift[p.from] > 0)
	if f.as != "" {
		as = f.digitsIn(p.fromForm)
	}
	types := []string{jsonType[as]}
	if as == number && !integer {
		types[0] = "number"
	}
	switch digits := max(f.exactDigits, f.width[p.from]); {
	case f.conversion == rearranged:
		s.Pattern = "^" + digitPlace.ReplaceAllString(regexp.QuoteMeta(f.pattern[p.from]), "[0-9]") + "$"
		word = digitPlace.ReplaceAllString(f.pattern[p.from], "1")
	case digits > 0:
		if s.Pattern = fmt.Sprintf("^[0-9]{%d}$", digits); len(word) != digits || !allDigits(word) {
			word = strings.Repeat("1", digits)
		}
	case f.conversion == untouched:
		if s.MinLength, s.MaxLength = f.min, f.max; f.Required {
			s.MinLength = max(f.min, 1)
		}
		if f.checkLength(word).Format != "" {
			word = strings.Repeat("1", max(f.min, 1))
		}
	default:
		if !isDecimal(word) || f.checkNumber(word).Format != "" {
			word = strconv.Itoa(cmp.Or(f.min, f.max, 1000))
		}
		if as == number {
			s.Minimum, s.Maximum = f.min, f.max
		} else if request && f.empty.kind == absent {
			s.Pattern = map[bool]string{true: "^(0|[1-9][0-9]*)$", false: "^-?(0|[1-9][0-9]*)([.][0-9]+)?$"}[integer]
		}
	}
	if f.Means != nil && f.Means[word] == "" {
		word = slices.Min(slices.Collect(maps.Keys(f.Means)))
	}
	if s.Example = json.RawMessage(word); as == text || as == absent {
		s.Example = appendString(nil, word)
	}
	for _, one := range f.Values.list {
		v := one.Values[p.from]
		if types = append(types, jsonType[v.kind]); v.kind == text && s.Pattern != "" {
			s.Pattern += "|^" + regexp.QuoteMeta(v.text) + "$"
		}
		if request && f.onlyPairs { // else other values pass
			s.Enum = append(s.Enum, json.RawMessage(v.json))
		}
		s.Example = json.RawMessage(f.Values.list[0].Values[p.from].json)
	}
	if as == number && !request && f.mayBeWord() && f.otherwise != "drop" { // words stay as they are
		types = append(types, "string")
	}
	if as == number && (f.state >= 0 || f.otherwise == "drop") {
		types = append(types, "null")
	}
	slices.Sort(types)
	types = slices.Compact(types)
	if s.Type = types[0]; len(types) > 1 {
		s.Type = types
	}
}

// digitPlace finds the places of digits in a pattern.
var digitPlace = regexp.MustCompile("[" + digitPlaces + "]")
