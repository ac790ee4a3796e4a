package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"
)

// A Form is the name of a form of a table.
type Form string

// An Effect says whether an operation changes anything at the upstream. A Write is never sent twice. If its reply is
// lost, its outcome is unknown.
type Effect string

// The effects of an operation.
const (
	Read  Effect = "read"
	Write Effect = "write"
)

// A Table is a compiled table. It is immutable, also in its fields, and safe for concurrent use.
type Table struct {
	Operations []*Operation          // in the order of the table
	Callback   *Callback             // nil if there is none
	Catalogue  []string              // the codes that refusals and metrics may name
	Meanings   []CodeMeaning         // the codes that have a meaning: those of the catalogue, then those of the forms
	Own        map[OwnFailure]string // the codes of the catalogue for the gateway's own failures
	Changes    []RowChange           // what the overlays change in the rows of the table, in their order
	// Nouns are the words for what calls are about, and for who answers them, in each language.
	Nouns struct{ Ko, En []string }
	// Version is a hash of what the table says, with its overlays: of everything that can change a message or what it
	// means, and so without descriptions and comments. What was counted with one version does not count for another.
	Version string
	// YAML returns the table with its overlays applied, as a file that [Compile] reads. The caller must not modify it.
	YAML func() ([]byte, error)

	forms  []form // the first two, then those that are like one of them
	roles  map[string]*role
	fields map[string]*fieldText // by name of the field
	files  []File                // the base table, then the overlays
	limits
	codes
}

// limits are what a message can have.
type limits struct {
	bounds  string             // who checks them: "upstream" or "enforce"
	unknown map[Message]string // what happens to a field without a row
	depth   int                // the deepest nesting of a message
}

// codes are those of a table for the gateway.
type codes struct {
	successText constant // of a success that came without an envelope
	invalid     string   // of a refusal if the row names none
	inCatalogue map[string]CodeMeaning
}

// A Message is the kind of a message: the request or the reply of an operation.
type Message string

// The kinds of messages.
const (
	Request Message = "request"
	Reply   Message = "reply"

	callbackMessage Message = "callback" // sent by the upstream by itself; its values are like those of a reply
)

// An Operation is one operation of the interface, in one form or in both.
type Operation struct {
	Name    string
	Effect  Effect
	Created string // the role that names what a success has created; "" if nothing is created
	// StateReturns reports whether what the request is about can come back to an earlier state, so that an equal
	// callback can be news.
	StateReturns bool

	hash         *operationHash    // nil if its requests have no hash
	paths        byForm[string]    // "" if the form lacks the operation
	bare         byForm[bool]      // whether a successful reply has no envelope
	status       byForm[int]       // of a success; 0 for any 2xx
	sets         map[string]string // by role: the value of the field after a success
	list         bool              // the result is a list, which is never translated
	rows         map[Message][]*row
	table        *Table
	translations [][]*Translation // by the forms of client and upstream
}

// Path returns the operation's path in the form, with a leading slash, or "" if the form lacks the operation.
func (o *Operation) Path(f Form) string {
	return ofForm(o.table, f, o.paths)
}

// Translation returns the translation of the operation between a client's form and an upstream's form, or nil if one
// of the forms lacks the operation.
func (o *Operation) Translation(client, upstream Form) *Translation {
	return ofForm(o.table, upstream, ofForm(o.table, client, o.translations))
}

// Compile reads the base table, applies the overlays in order and compiles the result. Messages that nest deeper than
// depth are refused. The error is of type [Problems], each with file, line and column.
func Compile(depth int, base File, overlays ...File) (*Table, error) {
	t := &Table{limits: limits{depth: depth}, files: slices.Concat([]File{base}, overlays)}
	s, problems := load(t)
	if len(problems) > 0 {
		return nil, problems
	}
	t.Changes, t.Version = s.changes, s.version()
	t.YAML = sync.OnceValues(func() ([]byte, error) { // once, since the dumper changes the nodes
		return yaml.Dump(s.root, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	})
	for _, o := range t.Operations {
		o.compile()
	}
	if t.Callback != nil {
		t.Callback.compile()
	}
	return t, nil
}

// Operation returns the named operation, or nil.
func (t *Table) Operation(name string) *Operation {
	for _, o := range t.Operations {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// HasRole reports whether a message of the operation has a field with the role. If forms are given, all of them must
// have the field.
func (o *Operation) HasRole(m Message, role string, forms ...Form) bool {
	return slices.ContainsFunc(o.rows[m], func(r *row) bool {
		lacks := func(f Form) bool { return ofForm(o.table, f, r.Path) == "" }
		return r.Role.name == role && !slices.ContainsFunc(forms, lacks)
	})
}

// RequestRow returns the row of the request that has a role, or nil. filled reports that it writes a constant: whoever
// calls, the upstream gets the same value. converted reports that the value can have another text in the other form.
func (o *Operation) RequestRow(role string) (of *Row, filled, converted bool) {
	for _, r := range o.rows[Request] {
		if r.Role.name == role {
			of, filled = &r.source, filled || r.always.kind != absent
			converted = converted || r.Values.replace || r.pattern[0] != "" || slices.Max(r.Shift) > 0
		}
	}
	return of, filled, converted
}

// MayLack reports whether a successful reply is complete without the field that has the role.
func (o *Operation) MayLack(role string) bool {
	return slices.ContainsFunc(o.rows[Reply], func(r *row) bool { return r.Role.name == role && r.optional })
}

// Sets returns the value that the field with a role has after a success of the operation, and what the value means.
// Both are "" if the operation does not set the field.
func (o *Operation) Sets(role string) (value, means string) {
	value = o.sets[role]
	return value, o.table.role(role).meaning(value, 0)
}

// PathOf returns the path, in a form, of the field with a role in a message of the operation, or "" if there is none.
func (o *Operation) PathOf(m Message, role string, form Form) string {
	for _, r := range o.rows[m] {
		if r.Role.name == role {
			return ofForm(o.table, form, r.Path)
		}
	}
	return ""
}

// States returns the meanings of a role.
func (t *Table) States(role string) States {
	r := t.role(role)
	return States{r.means, r, t}
}

// role returns a role of the table, or noRole.
func (t *Table) role(name string) *role { return cmp.Or(t.roles[name], noRole) }

// PassThrough returns a write of one form that is not in the table. Its bytes are never changed. If another operation
// of the form has a field with the role, [Call.Value] finds the role in the same place of its request.
func (t *Table) PassThrough(name string, f Form, role string) *Operation {
	o, form := t.newOperation(name, ""), t.formIndex(f)
	if form < 0 {
		return o
	}
	o.paths[form] = "/"
	for _, known := range t.Operations {
		for _, r := range known.rows[Request] {
			if r.Role.name == role && r.Path[form] != "" && o.rows[Request] == nil {
				o.rows[Request] = []*row{r}
			}
		}
	}
	o.compile()
	return o
}

// newOperation returns an operation without rows, with the same path in each form.
func (t *Table) newOperation(name, path string) *Operation {
	return &Operation{
		Name: name, Effect: Write, paths: t.everywhere(path), bare: make(byForm[bool], len(t.forms)),
		status: make(byForm[int], len(t.forms)), rows: map[Message][]*row{}, table: t,
	}
}

// Forms returns the two forms of the table, which clients speak. The codes are those of the first.
func (t *Table) Forms() [2]Form { return [2]Form{t.forms[0].name, t.forms[1].name} }

// BackendForms returns the forms that upstreams can speak: the two of the table, and those that are like one of them.
func (t *Table) BackendForms() (forms []Form) {
	for _, f := range t.forms {
		forms = append(forms, f.name)
	}
	return forms
}

// InCatalogue reports whether the catalogue has the code.
func (t *Table) InCatalogue(code string) bool {
	_, ok := t.inCatalogue[code]
	return ok
}

// FormOf returns the form that a path belongs to: the one with the longest prefix of the path, or the first form.
func (t *Table) FormOf(path string) Form {
	found, longest := t.forms[0].name, 0
	for _, f := range t.forms {
		if strings.HasPrefix(path, f.Prefix) && len(f.Prefix) > longest {
			found, longest = f.name, len(f.Prefix)
		}
	}
	return found
}

// intern returns a code as a string that does not refer to the message: that of the catalogue, or a copy.
func (t *Table) intern(code string) string {
	if known, ok := t.inCatalogue[code]; ok {
		return known.Code
	}
	return strings.Clone(code)
}

// ByStage reports whether a rollout sends calls of the operation to the backend of the partner's stage, though they
// name no bill. Otherwise they go to the default upstream: writes, and what only one form has.
func (o *Operation) ByStage() bool { return o.Effect == Read && o.paths[0] != "" && o.paths[1] != "" }

// checkForm returns an error if the table has no such form.
func (t *Table) checkForm(f Form) error {
	if t.formIndex(f) < 0 {
		return fmt.Errorf("the table has no form %q, only %q", f, t.BackendForms())
	}
	return nil
}

// formIndex returns the index of a form, or -1.
func (t *Table) formIndex(f Form) int {
	for i := range t.forms {
		if t.forms[i].name == f {
			return i
		}
	}
	return -1
}

// everywhere returns a text for each form.
func (t *Table) everywhere(text string) byForm[string] {
	return slices.Repeat(byForm[string]{text}, len(t.forms))
}

// ofForm returns what a list has for a form, or the zero value if the table has no such form.
func ofForm[T any](t *Table, f Form, list []T) (of T) {
	if i := t.formIndex(f); i >= 0 && i < len(list) {
		return list[i]
	}
	return of
}
