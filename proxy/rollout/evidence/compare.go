package evidence

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// An Answer is what one upstream said to a call.
type Answer struct {
	Form    translate.Form // of the upstream
	Request []byte         // as that upstream got it: it says what the answer must be about
	Status  int
	Body    []byte
}

// A Class is what a comparison came to.
type Class string

// The classes.
const (
	Same     Class = "same"
	Differs  Class = "differs"
	NotThere Class = "not_there" // a backend says for certain that it has no such bill: neither for nor against
	Moved    Class = "moved"     // a difference that was gone, or another one, when the first upstream was asked again
	NoAnswer Class = "unclear"   // a backend did not answer, or says that it cannot just now
)

// classes are all of them.
var classes = []Class{Same, Differs, NotThere, Moved, NoAnswer}

// A Kind is what a difference is in.
type Kind string

// The kinds. A difference in one of the first four is a mistake, however rare.
const (
	InBill  Kind = "bill" // the answer is about another one than was asked for
	InCode  Kind = "code"
	InState Kind = "state"
	InMoney Kind = "money"
	InOther Kind = "other"
)

// grave reports whether one such difference is enough.
func (k Kind) grave() bool { return k != InOther }

// A Difference is one field in which two answers differ. What the two backends have there is masked, unless the table says
// that the field names nobody.
type Difference struct {
	Path          string // in the first form of the table; the name of the code, where the codes differ
	Kind          Kind
	First, Second string
}

// A Comparison is what two answers to the same call show.
type Comparison struct {
	Class       Class
	Differences []Difference // of Differs; in the order of the table, one for a path
	Why         string       // of NoAnswer: which side, and what it lacks. It quotes no answer.
	Bill        string       // that the call is about, "" if about none
	Succeeded   [2]bool      // which of the two are successes
	ReadBack    bool         // by Shadow.Check
	Request     string       // the id of the call
	At          time.Time    // when the call was compared
}

// exchanged is the comparison with its two answers in the other order.
func (c Comparison) exchanged() Comparison {
	c.Succeeded[0], c.Succeeded[1] = c.Succeeded[1], c.Succeeded[0]
	c.Differences = slices.Clone(c.Differences)
	for i, d := range c.Differences {
		c.Differences[i].First, c.Differences[i].Second = d.Second, d.First
	}
	return c
}

// codePath is the path of a difference in the codes. No row may have such a path.
const codePath = "(code)"

// compareAnswers compares two answers to the same call of an operation about a bill, which both forms have. Each is brought to
// the first form of the table by its rows, and read as the answer to its own request. The first one's is what a partner
// got. What differs in the fields of ignore, by their paths in the first form, does not count. A field is compared if a
// row names it and both upstreams' forms have it; see [translate.Fact.Alike] for what is the same. Failures are compared
// by their codes in the catalogue's form; their texts are for people.
func compareAnswers(op *translate.Operation, a, b Answer, ignore []string) Comparison {
	shared := a.Form != b.Form
	first, second := read(op, a, shared), read(op, b, shared)
	c := Comparison{Bill: first.bill, Succeeded: [2]bool{first.success, second.success}}
	switch {
	case first.why != "":
		c.Class, c.Why = NoAnswer, "first: "+first.why
	case second.another != "":
		c.Class, c.Differences = Differs, []Difference{{second.another, InBill, "(as asked)", "(another)"}}
	case second.why != "":
		c.Class, c.Why = NoAnswer, "second: "+second.why
	case first.missing || second.missing:
		c.Class = NotThere
	case first.code != second.code:
		c.Class = Differs
		known, keys := op.Table().Catalogue(), []string{first.key, second.key}
		c.Differences = []Difference{{codePath, InCode, maskCode(first.code, known, keys), maskCode(second.code, known, keys)}}
	default:
		c.Class = Same
		if c.Differences = compareFacts(first, second, ignore); len(c.Differences) > 0 {
			c.Class = Differs
		}
	}
	return c
}

// reading is an answer that has been read.
type reading struct {
	why     string // it is none; "" if it is one
	another string // of a success about something else than was asked for: the path, in the upstream's form, of what is
	code    string // in the catalogue's form
	success bool
	missing bool
	bill    string
	key     string // the partner's
	facts   []translate.Fact
}

func read(op *translate.Operation, a Answer, shared bool) reading {
	// Between equal forms bytes pass as they are, and the facts bring the fields to the first form by the same rows that
	// a translation goes by.
	translation := op.Translation(a.Form, a.Form)
	if translation == nil {
		return reading{why: "its form lacks the operation"}
	}
	call := translation.Start()
	defer call.Release()
	if _, err := call.Request(nil, a.Request); err != nil {
		return reading{why: "the request cannot be read"}
	}
	r := reading{bill: strings.Clone(call.Value(billing.Bill)), key: strings.Clone(call.Value(billing.Partner))}
	if _, err := call.Reply(nil, a.Status, a.Body); err != nil {
		var none *translate.NoAnswer
		errors.As(err, &none)
		r.why, r.another = "no answer", none.Field
		return r
	}
	table := op.Table()
	r.code, r.success = table.Code(call.Code(), a.Form, table.Forms()[0]), call.Succeeded()
	if table.Means(a.Form, call.Code(), translate.Unavailable) { // that the other backend was available just then is no difference
		r.why = r.code
		return r
	}
	r.missing = table.Means(a.Form, call.Code(), translate.NotFound)
	r.facts = call.Facts(shared)
	return r
}

// Created is what a create asked for, as far as a read can show it.
type Created struct{ Bill, Amount string }

// compareCreated compares what a read shows of a bill, soon after its create was taken, with what the create asked for: the bill,
// its state, and of a paid one what was paid. An unpaid one need not show an amount, but shows no other than was asked for.
// A bill that is cancelled or destroyed by then has Moved.
func compareCreated(op *translate.Operation, asked Created, a Answer) Comparison {
	shown := read(op, a, false)
	c := Comparison{Bill: strings.Clone(asked.Bill), Class: Same, Succeeded: [2]bool{true, shown.success}, ReadBack: true}
	switch {
	case shown.another != "":
		c.Differences = []Difference{{shown.another, InBill, "(as asked)", "(another)"}}
	case shown.why != "":
		c.Class, c.Why = NoAnswer, shown.why
		return c
	case shown.missing:
		c.Class = NotThere
		return c
	case !shown.success:
		c.Differences = []Difference{{codePath, InCode, "(success)", maskCode(shown.code, op.Table().Catalogue(), []string{shown.key})}}
	default:
		state, amount := shown.of(billing.State), shown.of(billing.Amount)
		switch {
		case state.Empty: // then it shows no bill
			c.Class, c.Why = NoAnswer, "no state in it"
			return c
		case state.Means == billing.Unpaid || state.Means == billing.Paid:
		case billing.Final(state.Means):
			c.Class = Moved
			return c
		default:
			c.Differences = append(c.Differences, Difference{state.Path, InState, billing.Unpaid + expected, example(state, shown.key)})
		}
		if state.Means == billing.Paid && amount.Empty && asked.Amount != "" {
			c.Class, c.Why = NoAnswer, "paid, and no amount in it"
			return c
		}
		shows := !amount.Empty && (state.Means == billing.Paid || strings.Trim(amount.Text, "0") != "")
		if shows && asked.Amount != "" && amount.Text != asked.Amount {
			c.Differences = append(c.Differences, Difference{amount.Path, InMoney, legible(translate.Fact{Text: asked.Amount, Role: billing.Amount, Public: true}) + expected, example(amount, shown.key)})
		}
	}
	if len(c.Differences) > 0 {
		c.Class = Differs
	}
	return c
}

// expected stands behind what a create asked for, where no backend said it.
const expected = " (as asked)"

// of is the first fact of a role; a table that has none shows nothing.
func (r reading) of(role string) translate.Fact {
	for _, f := range r.facts {
		if f.Role == role {
			return f
		}
	}
	return translate.Fact{Role: role, Empty: true}
}

// unapproved reports whether the bill was never paid.
func (r reading) unapproved() bool {
	state := r.of(billing.State).Means
	return state == billing.Unpaid || state == billing.Destroyed
}

// compareFacts compares two answers of one code, so that both are successes or neither is (no other code is paired with that
// of a success). Their fields are those of the same rows.
func compareFacts(first, second reading, ignore []string) []Difference {
	var found []Difference
	// Without an approval a number of it says nothing: a 0 that means a payment method otherwise is like an empty one.
	unapproved := first.unapproved() && second.unapproved()
	for i, f := range first.facts {
		g := second.facts[i]
		if f.Alike(g) || unapproved && (f.None || f.Zero) && (g.None || g.Zero) || slices.ContainsFunc(ignore, func(path string) bool { return covers(path, f.Path) }) {
			continue
		}
		d := Difference{Path: f.Path, Kind: InOther}
		switch f.Role {
		case billing.Amount:
			d.Kind = InMoney
		case billing.State:
			d.Kind = InState
		}
		d.First, d.Second = example(f, first.key, second.key), example(g, first.key, second.key)
		found = append(found, d)
	}
	return found
}

// covers reports whether a path is the field, or an object that it is in. Whole names count, not beginnings of them.
func covers(path, field string) bool {
	return path != "" && (path == field || strings.HasPrefix(field, path+"."))
}

// example is a value as a report may show it. A key is not shown at all, wherever a mistake in the table put it.
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

// maskCode shows a code of the catalogue as it is. Any other is an upstream's own word.
func maskCode(code string, known, keys []string) string {
	if slices.Contains(known, code) {
		return code
	}
	return example(translate.Fact{Text: code, JSON: code, Public: true}, keys...)
}

// legible is a value of a field that names nobody as it is, if it looks like what such a field holds, and masked otherwise: a
// backend that fills a wrong field must not put a name, a phone or a card into a report.
func legible(f translate.Fact) string {
	longest := 6 // digits: phones, cards and accounts have more
	if f.Role == billing.Amount {
		longest = 9 // a phone without its first 0 has ten
	}
	if f.Public && (f.Paired || isCode(f.Text) || isNumber(f.Text, longest) || isMoment(f.Text)) {
		return printable(f.Text, func(c rune) rune { return c })
	}
	return masked(f.Text)
}

// isCode tells codes such as F, CARD_VAN and BILL_002 from words, which may be names: it has at most two letters, or a _ or a digit.
func isCode(text string) bool {
	if text == "" || len(text) > 20 || text[0] < 'A' || text[0] > 'Z' {
		return false
	}
	return strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && (len(text) <= 2 || strings.ContainsAny(text, "0123456789_"))
}

// isNumber tells amounts and numeric codes.
func isNumber(text string, longest int) bool {
	whole, part, _ := strings.Cut(text, ".")
	return whole != "" && strings.Trim(whole+part, "0123456789") == "" && len(text) <= longest
}

// isMoment tells the 14 digits of a date-time.
func isMoment(text string) bool {
	_, err := time.Parse("20060102150405", text)
	return err == nil
}

// longestExample is how many characters of a value are shown.
const longestExample = 64

// masked shows what a value looks like, and not what it is: digits become 9, letters a, and its length is kept. Signs
// of ASCII stay, whatever else there is becomes a question mark.
func masked(text string) string {
	return printable(text, func(c rune) rune {
		switch {
		case unicode.IsDigit(c):
			return '9'
		case unicode.IsLetter(c):
			return 'a'
		}
		return c
	})
}

// printable keeps a text short and in ASCII, after each character was replaced.
func printable(text string, replace func(rune) rune) string {
	var out strings.Builder
	n := 0
	for _, c := range text {
		if n++; n > longestExample {
			out.WriteString("…")
			break
		}
		if c = replace(c); c < ' ' || c >= utf8.RuneSelf || c == 0x7f {
			c = '?'
		}
		out.WriteRune(c)
	}
	return out.String()
}
