package translate

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"
)

// A Fact is one field of a reply, translated to the first form, so that replies in different forms can be compared.
type Fact struct {
	Path         string // in the first form
	Role         string // "" for none
	Means        string // what the value means, by the means of its row; "" for nothing
	Secret       bool   // the value must not be shown
	JSON         string // the raw value; "" if the reply lacks the field
	Text         string // the content of a string, or the raw text of any other value
	Paired       bool   // the row has a pair for the value
	Empty        bool   // missing, null, "", or the number of the row's `empty`
	NoValue      bool   // the value means "no value": it is Empty, or a pair makes it "" or missing in the other form
	MaybeNoValue bool   // the 0 of an `as: digits` row: it may mean "no value" unless its role is exact
	Exact        bool   // by the table, one difference is too many
	Public       bool   // not personal data: its role is public, or its row has `as: digits`, as dates have
}

// Alike reports whether two facts of the same row have the same value. All facts with NoValue are alike.
//
// A number and a string with the same characters are alike, since backends use both types. The characters are
// compared, not the numbers: "030000" and 30000 differ, and so do 30000.0 and 30000. A value with a pair differs from
// every value without one, because the table does not know what the other value means.
func (f Fact) Alike(g Fact) bool {
	switch {
	case f.NoValue || g.NoValue:
		return f.NoValue == g.NoValue
	case f.Paired || g.Paired:
		return f.Paired == g.Paired && f.Text == g.Text
	}
	return f.comparedKind() == g.comparedKind() && f.Text == g.Text
}

// comparedKind returns the type of the value for a comparison, in which numbers count as text.
func (f Fact) comparedKind() kind {
	if v := valueOf(gjson.Parse(f.JSON)); v.kind != number {
		return v.kind
	}
	return text
}

// Facts returns the fields of the last reply if it was a success, in the order of the table. Rows without a path in
// the first form are left out, and with shared also those without a path in the other form. The facts stay valid
// after Release.
func (c *Call) Facts(shared bool) []Fact {
	if !c.success {
		return nil
	}
	p := c.translation.reply
	var facts []Fact
	for slot, r := range p.fields {
		if r.Path[0] == "" || shared && r.onlyForm() >= 0 {
			continue
		}
		v, says := c.reply[slot], cmp.Or(r.shown, r.row)
		f := Fact{Path: says.Path[0], Role: says.Role.name, Secret: r.secret, Exact: says.exact}
		f.Empty = v.countsAsAbsent() || r.isEmpty(v) || v.is(r.absent[p.from])
		f.Public = r.public()
		f.JSON, f.Paired = c.inFirstForm(p, slot, v)
		to := otherOf(p.fromForm.like)
		other, _ := r.Values.find(p.from, to, v.text())
		isNone := other.text == "" || other.kind == null || other == r.absent[to]
		f.NoValue = f.Empty || p.noValue(r, v, c.reply) || f.Paired && isNone
		f.MaybeNoValue = !f.NoValue && v.text() == "0" && r.digits && !r.Role.Exact
		f.Text, f.Means = r.comparable(f.JSON), r.meaning(v, p.from)
		facts = append(facts, f)
	}
	return facts
}

// inFirstForm returns a copy of a value, as the first form writes it, and whether the row has a pair for it.
func (c *Call) inFirstForm(p *plan, slot int, v value) (json string, paired bool) {
	f, out, report := p.first.fields[slot], []byte(nil), c.Report
	switch {
	case v.kind == absent:
	case f.each != nil:
		out, _ = c.emitList(p.first, f, v, nil)
	default:
		out, _ = f.append(nil, v, true)
		_, paired = f.Values.find(p.from, 0, v.text())
	}
	c.Report = report
	return string(out), paired && v.kind != composite
}

// comparable returns the text of a value in the first form: 2.5 and 2.50 are one decimal.
func (r *row) comparable(json string) string {
	v := valueOf(gjson.Parse(json))
	switch text := v.text(); {
	case v.kind == composite:
		return string(Canonical(nil, []byte(json)))
	case r.isMoved() && isDecimal(text) && strings.Contains(text, "."):
		return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	default:
		return text
	}
}

// ComparableValue returns a copy of [Call.Value] as a [Fact] has it.
func (c *Call) ComparableValue(role string) string {
	if c.Value(role) == "" {
		return ""
	}
	p := c.translation.request
	slot := p.roles[role]
	json, _ := c.inFirstForm(p, slot, c.request[slot])
	return p.fields[slot].comparable(json)
}

// Table returns the table of the operation.
func (o *Operation) Table() *Table { return o.table }
