package translate

import "github.com/tidwall/gjson"

// A Fact is one field of a reply, brought to the first form by its row.
type Fact struct {
	Path         string // in the first form
	Role         string // of the row, "" if it has none
	Means        string // what the value says, by the means of the row; "" if it has no meaning
	Secret       bool   // the value must not be shown
	JSON         string // the raw value, "" where the reply has none
	Text         string // of a string its content, of all else the raw text
	Paired       bool   // it is a value that the row's pairs know
	Empty        bool   // missing, null, "" or what the row declares to be empty, which count as absent
	NoValue      bool   // it says that there is no value: empty, or what the table takes for the same; see Alike
	MaybeNoValue bool   // it is the 0 of a row with as: digits, and 0 is not a value of its role: a form that writes numbers has it for "no value", too
	Public       bool   // the value names nobody, by the role of the row or since it has as: digits, as dates have
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
	case f.NoValue || g.NoValue:
		return f.NoValue == g.NoValue
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

// Facts are the fields of the last reply, in the order of the table, if it was a success. Only rows that the first form has
// are among them; shared leaves out what the other form lacks. They outlive the call.
func (c *Call) Facts(shared bool) []Fact {
	if !c.success {
		return nil
	}
	p := c.translation.reply
	var facts []Fact
	for slot, r := range p.rows {
		if r.path[0] == "" || shared && r.onlyForm() >= 0 {
			continue
		}
		v := c.reply[slot]
		f := Fact{Path: r.path[0], Secret: c.isSecret(r), Empty: v.countsAsAbsent() || r.isEmpty(v)}
		public := r.digits
		if r.role != nil {
			f.Role, public = r.role.name, public || r.role.public
		}
		f.NoValue, f.MaybeNoValue = r.noValue(v, p.from)
		f.NoValue = f.NoValue || f.Empty
		f.Public = public && !f.Secret
		if v.kind != absent {
			f.JSON, f.Paired = r.inFirstForm(v, p.from, p.table.forms[0].digits)
			f.Text = value{f.JSON, valueOf(gjson.Parse(f.JSON)).kind}.text()
			if v.kind == composite {
				f.Text = string(Canonical(nil, []byte(v.raw)))
			}
			f.Means = r.meaning(v, p.from)
		}
		facts = append(facts, f)
	}
	return facts
}

// noValue tells whether a value says that there is noValue, and whether it is a 0 that may say so.
func (r *row) noValue(v value, from int) (none, zero bool) {
	if v.countsAsAbsent() || v.kind == composite {
		return v.countsAsAbsent(), false
	}
	other, paired := r.pairs.find(from, v.text())
	none = paired && other.text == ""
	return none, !none && v.text() == "0" && r.digits && (r.role == nil || !r.role.zeroIsValue)
}

// inFirstForm brings a value to the inFirstForm form, and tells whether the row's pairs know it. The JSON is a copy.
func (r *row) inFirstForm(v value, from int, digits kind) (json string, paired bool) {
	if len(r.pairs) > 0 && v.kind != composite {
		if _, paired = r.pairs.find(from, v.text()); from == 0 || !paired {
			return string([]byte(v.raw)), paired // it stands in the first form already, or passes as it is
		}
	}
	out, _ := r.appendValue(nil, v, from, digits, true)
	return string(out), paired
}

// isSecret tells whether a row of the reply has the field of a isSecret role: the reply has it under the name that the request has.
func (c *Call) isSecret(r *row) bool {
	for _, asked := range c.translation.request.rows {
		if asked.role != nil && asked.role.secret && asked.path[0] == r.path[0] {
			return true
		}
	}
	return r.role != nil && r.role.secret
}

// ReplyPaths are the fields that a reply of the operation may have, by their paths in the first form: those of Facts.
func (o *Operation) ReplyPaths() (paths []string) {
	for _, r := range o.rows[Reply] {
		if r.path[0] != "" {
			paths = append(paths, r.path[0])
		}
	}
	return paths
}

// Table is the table that the operation is of.
func (o *Operation) Table() *Table { return o.table }
