package evidence

import (
	"errors"
	"slices"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// An Answer is one upstream's answer to a call.
type Answer struct {
	Form    translate.Form // of the upstream
	Request []byte         // as that upstream got it: the answer must be about its bill
	Status  int
	Body    []byte
}

// A Class is the result of a comparison.
type Class string

// The classes.
const (
	Same     Class = "same"
	Differs  Class = "differs"
	NotThere Class = "not_there" // a backend has no such bill: the comparison does not count
	Moved    Class = "moved"     // the first upstream's answer had changed when it was called again
	NoAnswer Class = "unclear"   // a backend did not answer, or is in maintenance
)

// classes are all of them.
var classes = []Class{Same, Differs, NotThere, Moved, NoAnswer}

// A Kind is the kind of a difference.
type Kind string

// The kinds. One difference of any kind but the last is enough for FAIL.
const (
	InBill  Kind = "bill" // the answer is about another bill
	InCode  Kind = "code"
	InState Kind = "state"
	InMoney Kind = "money"
	InExact Kind = "exact" // another row that the table declares exact: an approval's number or time
	InOther Kind = "other"
)

// grave reports whether one such difference is enough for FAIL.
func (k Kind) grave() bool { return k != InOther }

// A Difference is one field in which two answers differ. The values are hidden unless the field is public by the table.
type Difference struct {
	Path          string // in the first form of the table; codePath if the codes differ
	Kind          Kind
	First, Second string
}

// A Comparison is the comparison of two answers to the same call.
type Comparison struct {
	Class       Class
	Differences []Difference // of Differs; in the order of the table, at most one for a path
	Bill        string       // of the call, "" if it has none
	Succeeded   [2]bool      // whether the answers are successes
	ReadBack    bool         // of a bill with its create, or with what was seen of it
	States      bool         // the answers have the state of the bill
	Paid        bool         // the bill is paid
	Request     string       // the id of the call
	At          time.Time    // when the call was compared
}

// codePath is the path of a difference in the codes. No row may have such a path.
const codePath = "(code)"

// compareAnswers compares two answers to the same call of an operation that both forms have; the partner got the
// first one. Each is read as the answer to its own request and translated to the first form of the table. Fields are
// compared if a row names them and the forms of both upstreams have them, except those of ignore (paths in the first
// form); see [translate.Fact.Alike]. Failures are compared by their codes in the catalogue's form, not by their
// texts.
func compareAnswers(op *translate.Operation, a, b Answer, ignore []string) Comparison {
	shared := a.Form != b.Form
	first, second := read(op, a, shared), read(op, b, shared)
	c := Comparison{Bill: first.bill, Succeeded: [2]bool{first.success, second.success}}
	switch {
	case first.unclear:
		c.Class = NoAnswer
	case second.another != "":
		c.Class, c.Differences = Differs, []Difference{{second.another, InBill, "(requested)", "(another)"}}
	case second.unclear:
		c.Class = NoAnswer
	case first.missing || second.missing:
		c.Class = NotThere
	case first.code != second.code:
		c.Class = Differs
		known, keys := op.Table().Catalogue(), []string{first.key, second.key}
		c.Differences = []Difference{{
			codePath, InCode, maskCode(first.code, known, keys),
			maskCode(second.code, known, keys),
		}}
	default:
		c.Class = Same
		state := second.of(billing.State)
		c.States = state.Path != ""
		table := op.Table()
		c.Paid = billing.Paid(table, state.Means) && billing.Paid(table, first.of(billing.State).Means)
		if c.Differences = compareFacts(table, first, second, ignore); len(c.Differences) > 0 {
			c.Class = Differs
		}
	}
	return c
}

// A reading is what was read from an answer.
type reading struct {
	unclear bool   // the answer cannot be used
	another string // for a success about another bill: the path, in the upstream's form, of the field that shows it
	code    string // in the catalogue's form
	success bool
	missing bool
	bill    string
	key     string // the partner's
	facts   []translate.Fact
}

func read(op *translate.Operation, a Answer, shared bool) reading {
	// From a form to itself the bytes pass unchanged. The facts have the fields in the first form, by the rows of a
	// translation.
	translation := op.Translation(a.Form, a.Form)
	if translation == nil {
		return reading{unclear: true}
	}
	call := translation.Start()
	defer call.Release()
	if _, err := call.Request(nil, a.Request); err != nil {
		return reading{unclear: true}
	}
	r := reading{bill: strings.Clone(call.Value(billing.Bill)), key: strings.Clone(call.Value(billing.Partner))}
	if _, err := call.Reply(nil, a.Status, a.Body); err != nil {
		none, _ := errors.AsType[*translate.UnusableReply](err)
		r.unclear, r.another = true, none.Field
		return r
	}
	table := op.Table()
	r.code, r.success = table.Code(call.Code(), a.Form, table.Forms()[0]), call.Succeeded()
	says := billing.SaysOf(call, a.Status)
	r.unclear = call.Means(translate.Unavailable) || // unavailable at one of two moments is not a difference
		says == billing.Nothing && (a.Status >= 500 || r.success && a.Status/100 != 2)
	r.missing = says == billing.NotFound
	r.facts = call.Facts(shared)
	return r
}

// Created are the values of a create that a read shows.
type Created struct{ Bill, Amount string }

// CompareCreated compares the read of a bill shortly after its create with the create: the bill, its state,
// and its amount if it is paid or the read has one. If the bill is already cancelled or destroyed, the class is Moved.
func CompareCreated(op *translate.Operation, asked Created, a Answer) Comparison {
	shown := read(op, a, false)
	state, price := shown.of(billing.State), shown.of(billing.Amount)
	table := op.Table()
	unpaid, paid := billing.Unpaid(table, state.Means), billing.Paid(table, state.Means)
	c := Comparison{
		Bill: strings.Clone(asked.Bill), Class: Same, Succeeded: [2]bool{true, shown.success}, ReadBack: true,
		States: true,
	}
	differs := func(d Difference) { c.Class, c.Differences = Differs, append(c.Differences, d) }
	switch {
	case shown.another != "":
		differs(Difference{shown.another, InBill, "(requested)", "(another)"})
	case shown.unclear:
		c.Class = NoAnswer
	case shown.missing:
		c.Class = NotThere
	case !shown.success:
		code := maskCode(shown.code, table.Catalogue(), []string{shown.key})
		differs(Difference{codePath, InCode, "(success)", code})
	case state.Empty, paid && price.Empty && asked.Amount != "": // a success without a state shows no bill
		c.Class = NoAnswer
	case !unpaid && !paid && billing.Final(table, state.Means):
		c.Class = Moved
	default:
		c.Paid = paid
		if !unpaid && !paid {
			differs(Difference{state.Path, InState, billing.Begins(table) + expected, example(state, shown.key)})
		}
		shows := !price.Empty && (paid || strings.Trim(price.Text, "0") != "")
		if shows && asked.Amount != "" && price.Text != asked.Amount {
			differs(Difference{price.Path, InMoney, amount(asked.Amount) + expected, example(price, shown.key)})
		}
	}
	return c
}

// expected follows a value of a create, which is not from the answer of a backend.
const expected = " (requested)"

// of is the first fact of a role, an empty one if the table has none.
func (r reading) of(role string) translate.Fact {
	for _, f := range r.facts {
		if f.Role == role {
			return f
		}
	}
	return translate.Fact{Role: role, Empty: true}
}

// compareFacts compares the fields of two answers with equal codes. So both are successes or neither is, and their
// facts are those of the same rows.
func compareFacts(t *translate.Table, first, second reading, ignore []string) []Difference {
	var found []Difference
	// Without an approval its numbers have no meaning: 0, which is otherwise a payment method, is then equal to an
	// empty value.
	unapproved := billing.NeverPaid(t, first.of(billing.State).Means) &&
		billing.NeverPaid(t, second.of(billing.State).Means)
	for i, f := range first.facts {
		g := second.facts[i]
		if f.Secret && (strings.Contains(f.Text, "*") || strings.Contains(g.Text, "*")) {
			continue // masked: both were compared with the request
		}
		if f.Alike(g) || unapproved && (f.NoValue || f.MaybeNoValue) && (g.NoValue || g.MaybeNoValue) ||
			slices.ContainsFunc(ignore, func(path string) bool { return covers(path, f.Path) }) {
			continue
		}
		d := Difference{Path: f.Path, Kind: InOther}
		switch f.Role {
		case billing.Amount:
			d.Kind = InMoney
		case billing.State:
			d.Kind = InState
		default:
			if f.Exact {
				d.Kind = InExact
			}
		}
		d.First, d.Second = example(f, first.key, second.key), example(g, first.key, second.key)
		found = append(found, d)
	}
	return found
}

// covers reports whether a path is that of the field, or of an object that contains it.
func covers(path, field string) bool {
	return path != "" && (path == field || strings.HasPrefix(field, path+"."))
}

// example is a value as a report may show it. A key is never shown, also if a mistake in the table put it into
// another field.
func example(f translate.Fact, keys ...string) string {
	switch {
	case f.Empty && f.JSON == "":
		return "(missing)"
	case f.Empty && f.JSON == "null":
		return "(null)"
	case f.Empty:
		return "(empty)"
	case f.Secret:
		return "(key)"
	}
	for _, key := range keys {
		if key != "" && strings.Contains(f.Text, key) {
			return "(key)"
		}
	}
	return legible(f)
}

// maskCode shows codes of the catalogue as they are, and masks others like values.
func maskCode(code string, known, keys []string) string {
	if slices.Contains(known, code) {
		return code
	}
	return example(translate.Fact{Text: code, JSON: code, Role: codePath, Public: true}, keys...)
}

// legible is the value of a field if people may see it: a backend that fills a wrong field must not put a name, a phone
// or a card into a report.
func legible(f translate.Fact) string {
	if f.Public && f.Paired || billing.Legible(f.Role, f.Public, f.Text) {
		return f.Text
	}
	return billing.Hidden
}

// amount is an amount if people may see it.
func amount(text string) string {
	return legible(translate.Fact{Text: text, Role: billing.Amount, Public: true})
}
