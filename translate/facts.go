package translate

import (
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// An Aspect is what a field of a reply is to whoever compares replies.
type Aspect string

// The aspects, by the roles of the table's rows.
const (
	Plain  Aspect = ""
	Amount Aspect = amountRole
	Code   Aspect = codeRole
	State  Aspect = stateRole
	Secret Aspect = "secret" // the partner's key: it is never shown
)

// A Fact is one field of a reply, brought to the first form by its row.
type Fact struct {
	Path   string // in the first form
	Aspect Aspect
	JSON   string // the raw value, "" where the reply has none
	Text   string // of a string its content, of all else the raw text
	Paired bool   // it is a value that the row's pairs know
	Empty  bool   // missing, null, "" or what the row declares to be empty, which count as absent
	None   bool   // it says that there is no value: empty, or what the table takes for the same; see Alike
	Zero   bool   // it is the 0 of a row with as: digits, no amount: a form that writes numbers has it where there is no value, too
	Public bool   // the row says that the field names nobody: a state, an amount, a code, or digits such as a date
}

// Alike tells whether two facts of one row say the same. A number and a string of the same characters do: which of the
// two is written is the form's convention, and real backends mix them. The characters are compared, never a number, so
// that "030000" and 30000 differ, as 30000.0 and 30000 do. A value that has a pair is not like one that has none, though
// they be spelled alike: what has no pair means something that the table does not know.
//
// Values that say that there is none are alike: missing, null and "", what the row declares to be empty, and a value that a pair
// makes "" in the other form. Whether another 0 says so depends on more than its row: see Zero.
func (f Fact) Alike(g Fact) bool {
	switch {
	case f.None || g.None:
		return f.None == g.None
	case f.Paired || g.Paired:
		return f.Paired == g.Paired && f.Text == g.Text
	}
	return f.kind() == g.kind() && f.Text == g.Text
}

// kind is what must be the same for two values to be alike.
func (f Fact) kind() kind {
	if v := valueOf(gjson.Parse(f.JSON)); v.kind != number {
		return v.kind
	}
	return text
}

// Facts are the fields of the last reply, in the order of the table, if it was a success of an operation that is about
// one bill. Only rows that the first form has are among them; shared leaves out what the other form lacks. They outlive
// the call.
func (c *Call) Facts(shared bool) []Fact {
	if !c.success || !c.translation.operation.OfBill() {
		return nil
	}
	p := c.translation.reply
	var facts []Fact
	for slot, r := range p.rows {
		if r.path[0] == "" || shared && r.lone() >= 0 {
			continue
		}
		v := c.reply[slot]
		f := Fact{Path: r.path[0], Aspect: c.aspect(r), Empty: v.nothing() || r.isEmpty(v)}
		f.None, f.Zero = r.none(v, p.from)
		f.None = f.None || f.Empty
		f.Public = f.Aspect != Secret && (r.digits || f.Aspect != Plain)
		if v.kind != absent {
			f.JSON, f.Paired = r.first(v, p.from, p.table.forms[0].digits)
			f.Text = value{f.JSON, valueOf(gjson.Parse(f.JSON)).kind}.text()
			if v.kind == composite {
				f.Text = string(Canonical(nil, []byte(v.raw)))
			}
		}
		facts = append(facts, f)
	}
	return facts
}

// none tells whether a value says that there is none, and whether it is a 0 that may say so.
func (r *row) none(v value, from int) (none, zero bool) {
	if v.nothing() || v.kind == composite {
		return v.nothing(), false
	}
	other, paired := r.pairs.find(from, v.text())
	none = paired && other.text == ""
	return none, !none && v.text() == "0" && r.digits && r.role != amountRole
}

// first brings a value to the first form, and tells whether the row's pairs know it. The JSON is a copy.
func (r *row) first(v value, from int, digits kind) (json string, paired bool) {
	if len(r.pairs) > 0 && v.kind != composite {
		if _, paired = r.pairs.find(from, v.text()); from == 0 || !paired {
			return string([]byte(v.raw)), paired // it stands in the first form already, or passes as it is
		}
	}
	out, _ := r.append(nil, v, from, digits, true)
	return string(out), paired
}

// aspect is what the row is by its role. The partner's key in a reply has the name that it has in the request.
func (c *Call) aspect(r *row) Aspect {
	for _, asked := range c.translation.request.rows {
		if asked.role == partnerRole && asked.path[0] == r.path[0] {
			return Secret
		}
	}
	switch r.role {
	case amountRole:
		return Amount
	case stateRole:
		return State
	case codeRole:
		return Code
	}
	return Plain
}

// Shown are the fields that a reply of the operation may have, by their paths in the first form: those of Facts.
func (o *Operation) Shown() (paths []string) {
	for _, r := range o.rows[reply] {
		if r.path[0] != "" {
			paths = append(paths, r.path[0])
		}
	}
	return paths
}

// Reader is the operation by which the gateway reads a bill: the only one that, in both forms, is a read whose request names
// its partner and its bill, and whose reply shows the bill's state. Other reads of a bill, which an overlay may add, say less.
func (t *Table) Reader() (*Operation, error) {
	var readers []string
	var reader *Operation
	for _, o := range t.operations {
		showsState := slices.ContainsFunc(o.rows[reply], func(r *row) bool { return r.role == stateRole && r.lone() < 0 })
		if o.Effect == Read && o.paths[0] != "" && o.paths[1] != "" && o.Placed() && showsState {
			readers, reader = append(readers, o.Name), o
		}
	}
	switch len(readers) {
	case 0:
		return nil, errors.New("no operation of the table reads a bill: a read that both forms have, with role: partner and role: bill in its request and role: state in its reply")
	case 1:
		return reader, nil
	}
	return nil, errors.New(strings.Join(readers, " and ") + " read a bill and show its state, but exactly one must: leave role: state out of the reply of the others")
}

// Table is the table that the operation is of.
func (o *Operation) Table() *Table { return o.table }
