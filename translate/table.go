package translate

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"
)

// A Form names one of the two forms of the table, "v2" or "legacy" in the billing table.
type Form string

// An Effect says what an operation does at the upstream. A call of a Write is never sent twice, and a Write
// whose answer did not arrive has an unknown outcome.
type Effect string

// The effects that an operation can have.
const (
	Read  Effect = "read"
	Write Effect = "write"
)

// A Table is a compiled table. It is immutable and safe for concurrent use.
type Table struct {
	forms      [2]form
	success    success
	invalid    string
	bounds     string // "upstream" or "enforce"
	unknown    map[Message][2]string
	options    map[string]bool
	roles      map[string]*role
	catalogue  []string
	catalogued map[string]Meaning    // of the codes of the catalogue that have one
	meanings   [2]map[string]Meaning // of codes in one form
	codes      pairs
	operations []*Operation
	callback   *Callback
	depth      int
	yaml       func() ([]byte, error)
}

// form is how one form writes its envelope.
type form struct {
	name       Form
	code, text string
	result     string // the name under which a result stands, "" for the top level
	digits     kind   // what `as: digits` is in this form: number or text
	prefix     string // of the paths of calls in this form, "" for none
}

// success is the code of a success, and the text of one that came bare, both also as JSON.
type success struct{ code, codeJSON, text, textJSON string }

// A Message is one of the two messages of an operation.
type Message string

// The messages.
const (
	Request Message = "request"
	Reply   Message = "reply"

	callbackMessage Message = "callback" // of a callback: the upstream sends it by itself; values are treated as in a reply
)

// An Operation is one operation of the interface in the forms that have it.
type Operation struct {
	Name    string
	Effect  Effect
	Created string // the role that names what a success has created; "" if it creates nothing
	Explain bool   // whether a write without a reply may be explained by a read

	paths        [2]string         // "" where a form lacks the operation
	noEnvelope   int               // the form whose successful reply has no envelope, -1 for none
	sets         map[string]string // by role: the value after a success
	list         bool
	rows         map[Message][]*row
	table        *Table
	translations [2][2]*Translation
}

// Path is the operation's path in the form, with a leading slash, or "" where the form lacks the operation.
func (o *Operation) Path(f Form) string {
	if i := o.table.formIndex(f); i >= 0 {
		return o.paths[i]
	}
	return ""
}

// Translation is the operation between a client's form and an upstream's form, or nil where one of them lacks the
// operation.
func (o *Operation) Translation(client, upstream Form) *Translation {
	c, u := o.table.formIndex(client), o.table.formIndex(upstream)
	if c < 0 || u < 0 {
		return nil
	}
	return o.translations[c][u]
}

// Compile reads the base table, lays the overlays over it in order and compiles the result. A document nested
// deeper than depth is refused by every call. The error is of type [Problems], each with file, line and column.
func Compile(depth int, base File, overlays ...File) (*Table, error) {
	s, err := load(base, overlays...)
	if err != nil {
		return nil, err
	}
	t := &Table{depth: depth, yaml: sync.OnceValues(func() ([]byte, error) { return render(s.root) })}
	s.readTable(t)
	if s.problems = append(s.problems, s.missingNew...); len(s.problems) == 0 {
		for _, o := range t.operations {
			o.compile()
		}
		if t.callback != nil {
			t.callback.compile()
		}
		return t, nil
	}
	return nil, slices.Compact(s.problems.Sorted()) // a mistake in common rows is one of every message that has them
}

// Operations are the operations of the table, in its order. The caller must not modify the slice.
func (t *Table) Operations() []*Operation { return t.operations }

// Operation is the named operation, or nil.
func (t *Table) Operation(name string) *Operation {
	for _, o := range t.operations {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// HasRole tells whether a message of the operation has a field with a role: one field that each of the given forms has, or, if
// none is given, any form.
func (o *Operation) HasRole(m Message, role string, forms ...Form) bool {
	return slices.ContainsFunc(o.rows[m], func(r *row) bool {
		return r.hasRole(role) && !slices.ContainsFunc(forms, func(f Form) bool { i := o.table.formIndex(f); return i < 0 || r.path[i] == "" })
	})
}

// Sets is the value that the field with a role has after a success of the operation, and what the value means; both are "" if
// the operation does not set it.
func (o *Operation) Sets(role string) (value, means string) {
	if value = o.sets[role]; value == "" {
		return "", ""
	}
	return value, o.table.meaning(role, value)
}

// meaning is what a value of a role means by the rows of the table.
func (t *Table) meaning(role, value string) string {
	for _, o := range t.operations {
		for _, r := range o.rows[Reply] {
			if r.hasRole(role) && r.means[value] != "" {
				return r.means[value]
			}
		}
	}
	return ""
}

// hasMeanings tells whether the values of a role have a meaning by the rows of the table.
func (t *Table) hasMeanings(role string) bool {
	return slices.ContainsFunc(t.operations, func(o *Operation) bool {
		return slices.ContainsFunc(o.rows[Reply], func(r *row) bool { return r.hasRole(role) && r.means != nil })
	})
}

// PassThrough is an operation named name that the table does not have: it exists in one form, so that its bytes are never
// changed. Its request has a field with the role if another operation of that form has; nothing else is known of its
// messages. It counts as a write.
func (t *Table) PassThrough(name string, f Form, role string) *Operation {
	o := &Operation{Name: name, Effect: Write, noEnvelope: -1, rows: map[Message][]*row{}, table: t}
	form := t.formIndex(f)
	o.paths[form] = "/"
	for _, known := range t.operations {
		for _, r := range known.rows[Request] {
			if r.hasRole(role) && r.path[form] != "" && o.rows[Request] == nil {
				o.rows[Request] = []*row{r}
			}
		}
	}
	o.compile()
	return o
}

// Callback is what the upstream sends of itself, or nil where the table has none.
func (t *Table) Callback() *Callback { return t.callback }

// Forms are the two forms of the table; the first is the one whose codes the catalogue lists.
func (t *Table) Forms() [2]Form { return [2]Form{t.forms[0].name, t.forms[1].name} }

// Catalogue lists the codes that refusals and metrics may name. The caller must not modify it.
func (t *Table) Catalogue() []string { return t.catalogue }

// FormOf is the form of the calls to a path: the one with the longest prefix that the path starts with, or else the first.
func (t *Table) FormOf(path string) Form {
	found := t.forms[0]
	for _, f := range t.forms {
		if f.prefix != "" && strings.HasPrefix(path, f.prefix) && len(f.prefix) > len(found.prefix) {
			found = f
		}
	}
	return found.name
}

// Code brings a code of one form to the other by the table's pairs; a code without a pair stays as it is.
func (t *Table) Code(code string, from, to Form) string {
	f, u := t.formIndex(from), t.formIndex(to)
	if f < 0 || f == u {
		return code
	}
	if paired, ok := t.codes.find(f, code); ok {
		return paired.text
	}
	return code
}

// intern is a code that outlives the message it was read from: the catalogue's intern string where it has it.
func (t *Table) intern(code string) string {
	for _, known := range t.catalogue {
		if known == code {
			return known
		}
	}
	return strings.Clone(code)
}

// TextName is the name of the text in a form's envelope.
func (t *Table) TextName(f Form) string { return t.forms[t.formIndex(f)].text }

// AppendFailure appends a failure of our own in a form: code and text, and null for a result. code is one of
// the catalogue and is brought to the form by the table's pairs; "" is written as null, which no careful client
// can take for a refusal.
func (t *Table) AppendFailure(dst []byte, f Form, code, text string) []byte {
	to := t.forms[t.formIndex(f)]
	dst = append(append(append(dst, `{"`...), to.code...), `":`...)
	if code == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, t.Code(code, t.forms[0].name, f))
	}
	dst = append(append(append(dst, `,"`...), to.text...), `":`...)
	dst = appendString(dst, text)
	if to.result != "" {
		dst = append(append(append(dst, `,"`...), to.result...), `":null`...)
	}
	return append(dst, '}')
}

// YAML is the table with its overlays laid over it, as a file that [Compile] reads. The caller must not modify it.
func (t *Table) YAML() ([]byte, error) { return t.yaml() }

// render writes the tree of a table. It may be called once for a tree: the dumper changes the nodes.
func render(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	d, err := yaml.NewDumper(&out, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, err
	}
	if err := d.Dump(root); err != nil {
		return nil, err
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// formNames are the names of the forms, as a list that may be added to.
func (t *Table) formNames() []string {
	return []string{string(t.forms[0].name), string(t.forms[1].name)}
}

func (t *Table) formIndex(f Form) int {
	switch f {
	case t.forms[0].name:
		return 0
	case t.forms[1].name:
		return 1
	}
	return -1
}
