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

// skipped is the class, in the metrics, of comparisons over a limit, or at the end of the gateway.
const skipped Class = "skipped"

// classes are all of them.
var classes = []Class{Same, Differs, NotThere, Moved, NoAnswer, skipped}

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

// A Difference is one field in which two answers differ. The values are hidden unless the field is public by the table.
type Difference struct {
	Path string `json:"path"` // in the first form of the table; codePath if the codes differ
	Kind Kind   `json:"kind"`
	Old  string `json:"old"` // of the first answer, or of the create
	New  string `json:"new"`
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
	first, second, table := read(op, a, shared), read(op, b, shared), op.Table()
	c := compareCodes(table, first, second)
	if c.Class == Same {
		state := second.of(billing.State)
		c.States = state.Path != ""
		c.Paid = billing.Paid(table, state.Means) && billing.Paid(table, first.of(billing.State).Means)
		if c.Differences = compareFacts(table, first, second, ignore); len(c.Differences) > 0 {
			c.Class = Differs
		}
	}
	return c
}

// compareCodes compares two answers without their fields.
func compareCodes(table *translate.Table, first, second reading) Comparison {
	c := Comparison{Class: Same, Bill: first.bill, Succeeded: [2]bool{first.success, second.success}}
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
		mask := func(code string) string {
			if table.InCatalogue(code) {
				return code
			}
			return example(translate.Fact{Text: code, Role: codePath, Public: true}, first.key, second.key)
		}
		c.Differences = []Difference{{codePath, InCode, mask(first.code), mask(second.code)}}
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
	r.code, r.success = call.Code(), call.Succeeded()
	says := billing.SaysOf(call, a.Status)
	r.unclear = call.Means(translate.Unavailable) || // unavailable at one of two moments is not a difference
		says == billing.Nothing && (a.Status >= 500 || r.success && a.Status/100 != 2)
	r.missing = says == billing.NotFound
	r.facts = call.Facts(shared)
	return r
}

// CompareCreated compares the read of a bill shortly after its create with the create: the bill, its state,
// and its amount if it is paid or the read has one. If the bill is already cancelled or destroyed, the class is Moved.
func CompareCreated(op *translate.Operation, bill, amount string, a Answer) Comparison {
	table, shown := op.Table(), read(op, a, false)
	c := compareCodes(table, reading{
		bill: strings.Clone(bill), code: table.SuccessCode(table.Forms()[0]), success: true,
	}, shown)
	c.ReadBack, c.States = true, true
	state, price := shown.of(billing.State), shown.of(billing.Amount)
	unpaid, paid := billing.Unpaid(table, state.Means), billing.Paid(table, state.Means)
	differs := func(kind Kind, f translate.Fact, asked string) {
		c.Class = Differs
		c.Differences = append(c.Differences, Difference{f.Path, kind, asked + " (requested)", example(f, shown.key)})
	}
	switch {
	case c.Class != Same:
	case state.Empty, paid && price.Empty && amount != "": // a success without a state shows no bill
		c.Class = NoAnswer
	case !unpaid && !paid && billing.Final(table, state.Means):
		c.Class = Moved
	default:
		if c.Paid = paid; !unpaid && !paid {
			differs(InState, state, billing.Begins(table))
		}
		shows := !price.Empty && (paid || strings.Trim(price.Text, "0") != "")
		if shows && amount != "" && price.Text != amount {
			differs(InMoney, price, legibleAmount(amount))
		}
	}
	return c
}

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
			slices.ContainsFunc(ignore, func(path string) bool {
				return path == f.Path || strings.HasPrefix(f.Path, path+".") // of an object that contains it
			}) {
			continue
		}
		kind := InOther
		switch {
		case f.Role == billing.Amount:
			kind = InMoney
		case f.Role == billing.State:
			kind = InState
		case f.Exact:
			kind = InExact
		}
		keys := []string{first.key, second.key}
		found = append(found, Difference{f.Path, kind, example(f, keys...), example(g, keys...)})
	}
	return found
}

// example is a value as a report may show it. A key is never shown, also if a mistake in the table put it into
// another field.
func example(f translate.Fact, keys ...string) string {
	switch {
	case f.Empty:
		return "(missing)"
	case f.Secret:
		return "(key)"
	}
	for _, key := range keys {
		if key != "" && strings.Contains(f.Text, key) {
			return "(key)"
		}
	}
	// A backend that fills a wrong field must not put a name, a phone or a card into a report.
	if f.Public && f.Paired || billing.Legible(f.Role, f.Public, f.Text) {
		return f.Text
	}
	return billing.Hidden
}

// legibleAmount is an amount if people may see it.
func legibleAmount(text string) string {
	return example(translate.Fact{Text: text, Role: billing.Amount, Public: true})
}
