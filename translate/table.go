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
	unknown    map[message][2]string
	options    map[string]bool
	catalogue  []string
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
}

// success is the code of a success, and the text of one that came bare, both also as JSON.
type success struct{ code, codeJSON, text, textJSON string }

// message is which of the two messages of an operation a plan or row belongs to.
type message string

const (
	request message = "request"
	reply   message = "reply"
	notice  message = "notice" // of a callback: it comes unasked, and is lenient as a reply is
)

// An Operation is one operation of the interface in the forms that have it.
type Operation struct {
	Name    string
	Effect  Effect
	Creates bool // it makes a bill, which did not exist before

	paths        [2]string // "" where a form lacks the operation
	bare         int       // the form whose successful reply has no envelope, -1 for none
	list         bool
	rows         map[message][]*row
	table        *Table
	translations [2][2]*Translation
}

// Path is the operation's path in the form, with a leading slash, or "" where the form lacks the operation.
func (o *Operation) Path(f Form) string {
	if i := o.table.index(f); i >= 0 {
		return o.paths[i]
	}
	return ""
}

// Translation is the operation between a client's form and an upstream's form, or nil where one of them lacks the
// operation.
func (o *Operation) Translation(client, upstream Form) *Translation {
	c, u := o.table.index(client), o.table.index(upstream)
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
	s.table(t)
	if s.problems = append(s.problems, s.unmarked...); len(s.problems) == 0 {
		for _, o := range t.operations {
			o.compile()
		}
		if t.callback != nil {
			t.callback.compile()
		}
		return t, nil
	}
	return nil, s.problems.Sorted()
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

// OfBill tells whether a request of the operation is about one bill.
func (o *Operation) OfBill() bool {
	return slices.ContainsFunc(o.rows[request], func(r *row) bool { return r.role == billRole })
}

// PassThrough is an operation named name that the table does not have: of one form alone, so that its bytes are never
// changed. Nothing of its messages is known but the partner's key, where the form has that elsewhere. It counts as a write.
func (t *Table) PassThrough(name string, f Form) *Operation {
	o := &Operation{Name: name, Effect: Write, bare: -1, rows: map[message][]*row{}, table: t}
	form := t.index(f)
	o.paths[form] = "/"
	for _, known := range t.operations {
		for _, r := range known.rows[request] {
			if r.role == partnerRole && r.path[form] != "" && o.rows[request] == nil {
				o.rows[request] = []*row{r}
			}
		}
	}
	o.compile()
	return o
}

// Placed tells whether a request of the operation names its partner and its bill, in each form that has the operation.
func (o *Operation) Placed() bool {
	for form, path := range o.paths {
		for _, role := range []string{partnerRole, billRole} {
			if path != "" && !slices.ContainsFunc(o.rows[request], func(r *row) bool { return r.role == role && r.path[form] != "" }) {
				return false
			}
		}
	}
	return true
}

// Callback is what the upstream sends of itself, or nil where the table has none.
func (t *Table) Callback() *Callback { return t.callback }

// Forms are the two forms of the table; the first is the one whose codes the catalogue lists.
func (t *Table) Forms() [2]Form { return [2]Form{t.forms[0].name, t.forms[1].name} }

// Catalogue lists the codes that refusals and metrics may name. The caller must not modify it.
func (t *Table) Catalogue() []string { return t.catalogue }

// Code brings a code of one form to the other by the table's pairs; a code without a pair stays as it is.
func (t *Table) Code(code string, from, to Form) string {
	f, u := t.index(from), t.index(to)
	if f < 0 || f == u {
		return code
	}
	if paired, ok := t.codes.find(f, code); ok {
		return paired.text
	}
	return code
}

// own is a code that outlives the message it was read from: the catalogue's own string where it has it.
func (t *Table) own(code string) string {
	for _, known := range t.catalogue {
		if known == code {
			return known
		}
	}
	return strings.Clone(code)
}

// TextName is the name of the text in a form's envelope.
func (t *Table) TextName(f Form) string { return t.forms[t.index(f)].text }

// AppendFailure appends a failure of our own in a form: code and text, and null for a result. code is one of
// the catalogue and is brought to the form by the table's pairs; "" is written as null, which no careful client
// can take for a refusal.
func (t *Table) AppendFailure(dst []byte, f Form, code, text string) []byte {
	to := t.forms[t.index(f)]
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

func (t *Table) index(f Form) int {
	switch f {
	case t.forms[0].name:
		return 0
	case t.forms[1].name:
		return 1
	}
	return -1
}
