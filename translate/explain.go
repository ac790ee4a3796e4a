package translate

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unsafe"
)

// An Outcome says what became of a field of a message.
type Outcome string

// The outcomes of a field.
const (
	OutcomeSame      Outcome = "same"      // the same bytes at the same path
	OutcomeRenamed   Outcome = "renamed"   // the same bytes at another path
	OutcomeConverted Outcome = "converted" // written as the other form documents it
	OutcomePassed    Outcome = "passed"    // unchanged, or other_code: another type than documented, or no pair
	OutcomeDefaulted Outcome = "defaulted" // the output got the field from the table
	OutcomeEchoed    Outcome = "echoed"    // the output got the field from the request
	OutcomeDropped   Outcome = "dropped"   // the other form has no place for it
	OutcomeOmitted   Outcome = "omitted"   // not in the output, and nothing is lost; Reason says why
	OutcomeRefused   Outcome = "refused"   // the message is refused because of this field
	OutcomeUnused    Outcome = "unused"    // the message is refused because of another field
)

// An ExplainedField says what became of one field. It has the value, which may be personal data.
type ExplainedField struct {
	Source  string // path in the input, from the top of the document; "" if the output got the field from elsewhere
	Target  string // path in the output; "" if the field is not there
	Request string // of an echoed field: its path in the request
	Outcome Outcome
	Reason  string // of a passed, dropped, omitted, refused or echoed field; it never has the value
	Code    string // of a refused field of a request: the code of the refusal

	Before, After string // raw JSON; "" for none. Before is in the input, or in the request for an echoed field
	Offset        int    // of the value in the input; -1 for none

	Row     *Row   // the row that decided; nil for the envelope and for a field without a row
	About   string // what the field holds
	Role    string // of its row, or of the row of the request that it must equal; "" for none
	Unknown bool   // the field has no row: the sender chose its name
	Secret  bool   // the value must not be shown
	Public  bool   // the value is not personal data
}

// An Explanation says what a translation did with each field of one message.
type Explanation struct {
	// Fields has an entry for each leaf of the input, in the order of the document, then one for each leaf that the
	// output got from elsewhere. A leaf is a value that the table does not look into. A message that was refused for
	// no leaf of it, but because a field is missing or since it is not JSON, has one more entry, the first.
	Fields []ExplainedField

	// More is the number of fields without a row and of fields in lists that Fields does not have: there are too many.
	More int

	Output     []byte // nil if the message was refused
	Err        error  // of the translation: a [*Refusal], an [*UnusableReply] or nil
	Report     Report
	Recognised Recognition // of a callback

	secrets []string // the contents of the secret fields of the message and of its request
}

// HasSecret reports whether a text contains the value of a secret field of the message or of its request. An upstream
// can write a key into any field.
func (e *Explanation) HasSecret(content string) bool {
	return slices.ContainsFunc(e.secrets, func(secret string) bool { return strings.Contains(content, secret) })
}

// ExplainRequest translates a client's request like [Call.Request], and says what became of each field.
func (t *Translation) ExplainRequest(src []byte) *Explanation {
	call, x := t.Start(), &trace{src: slices.Clone(src)}
	defer call.Release()
	call.trace = x
	out, err := call.Request(nil, x.src)
	return x.end(call, t.request, out, err)
}

// ExplainReply translates an upstream's reply like [Call.Reply], and says what became of each field. request is the
// client's request. If it is nil, nothing is echoed, and a success may be about anything.
func (t *Translation) ExplainReply(request []byte, status int, src []byte) *Explanation {
	call, x := t.Start(), &trace{src: bytes.Clone(bytes.TrimPrefix(src, byteOrderMark))}
	defer call.Release()
	if call.alone = request == nil; request != nil {
		// The reply to a refused request is read like one to an empty request.
		_, _ = call.Request(nil, slices.Clone(request))
	}
	call.trace = x
	out, err := call.Reply(nil, status, x.src)
	for slot, f := range t.request.fields {
		x.keepSecret(f, call.request[slot])
	}
	return x.end(call, t.reply, out, err)
}

// Explain translates a callback like [Callback.Translate], and says what became of each field.
func (c *Callback) Explain(src []byte, from, to Form) *Explanation {
	x := &trace{src: slices.Clone(src)}
	out, n, err := c.translate(nil, x.src, from, to, x)
	if n.plan == nil {
		return &Explanation{Err: err}
	}
	call := startCallback(n.plan)
	if n.Recognised != Translated {
		call.trace = x
		call.scan(n.plan, x.src, call.reply)
	}
	call.Report, x.Recognised = n.Report, n.Recognised
	return x.end(call, n.plan, out, err)
}

// A trace explains a message while it is translated: the scanner begins the entry of each value, and emit ends it.
type trace struct {
	Explanation
	src    []byte
	few    int           // fields without a row and in lists
	at     map[*byte]int // by the first byte of a value: its entry, unless it is in the output
	misfit string        // why a value from elsewhere does not fit

	envelope []value // of a reply, as it was read
}

func (x *trace) reset() {
	if x != nil {
		*x = trace{src: x.src, at: map[*byte]int{}}
	}
}

// maxExplained is how many fields without a row and fields in lists an explanation has. A sender can write 500,000 of
// them into a message, each of which takes much more memory than its bytes.
const maxExplained = 1000

// add adds an entry with what the table says about a field, and reports whether there is room: none of those that are
// limited needs to be shown.
func (x *trace) add(c *Call, f *mapping, one ExplainedField) bool {
	if (one.Unknown || len(c.within) > 0) && (f == nil || !f.secret) {
		if x.few++; x.few > maxExplained {
			x.More++
			return false
		}
	}
	if f != nil {
		one.by(f)
		one.Secret, one.Public = f.secret, f.public()
	}
	x.Fields = append(x.Fields, one)
	return true
}

// by says by which row an entry was made.
func (one *ExplainedField) by(f *mapping) {
	one.Row, one.About, one.Role = &f.row.source, f.about, f.Role.name
}

// read begins the entry of a value of the input. name is that of a field without an entry of the table.
func (x *trace) read(c *Call, p *plan, n *node, e *entry, name string, v value) {
	if x == nil {
		return
	}
	one, f := ExplainedField{Before: v.raw, Offset: offsetIn(x.src, v)}, p.field(e)
	if e == nil {
		one.Unknown, one.Source = true, quoteName(joinPath(n.top, c.at(joinPath(n.path, name))))
	} else {
		one.Source = joinPath(n.top, c.at(n.pathOf(e)))
		one.Public = e.node == nil && p.part(e) != textSlot
	}
	if p.from == p.to {
		one.Target, one.After, one.Outcome = one.Source, one.Before, OutcomeSame
	}
	x.keepSecret(f, v)
	if x.add(c, f, one) {
		x.at[unsafe.StringData(v.raw)] = len(x.Fields) - 1
	}
}

func (x *trace) keepSecret(f *mapping, v value) {
	if f != nil && f.secret && !v.countsAsAbsent() {
		x.secrets = append(x.secrets, strings.Clone(v.text()))
	}
}

// decide says what became of a value.
func (x *trace) decide(v value, o Outcome, reason string) {
	if x == nil || v.kind == absent {
		return
	}
	if at, ok := x.at[unsafe.StringData(v.raw)]; ok {
		x.Fields[at].Outcome, x.Fields[at].Reason = o, reason
	} else if o == OutcomePassed {
		x.misfit = reason
	}
}

// wrote ends the entry of a value that was written into an entry of an object of the output, or adds that of a value
// from elsewhere.
func (x *trace) wrote(c *Call, p *plan, n *node, e *entry, v value, after string) {
	if x == nil {
		return
	}
	part, f := p.part(e), p.field(e)
	if part >= 0 {
		v = x.envelope[part]
	}
	first := unsafe.StringData(v.raw)
	at, ok := x.at[first]
	if delete(x.at, first); !ok {
		one := ExplainedField{Outcome: OutcomeDefaulted, Offset: -1, Public: part == flagSlot || part == codeSlot}
		if f != nil && f.class == Echoed && v.kind != absent {
			one.Outcome, one.Reason, one.Before = OutcomeEchoed, x.misfit, strings.Clone(v.raw)
			one.Request = c.translation.request.fields[f.of].source
		} else if v.kind != absent { // there is no room, or it is a list, whose items have entries
			return
		}
		if at = len(x.Fields); !x.add(c, f, one) {
			return
		}
	}
	one := &x.Fields[at]
	path := n.path
	if e != nil {
		path = n.pathOf(e)
	}
	if path, x.misfit = joinPath(n.top, c.pathIn(path, true)), ""; one.Unknown {
		path = quoteName(path)
	}
	switch one.Target, one.After = path, after; {
	case one.Offset < 0 || one.Outcome == OutcomePassed:
	case one.Before != after:
		one.Outcome, one.Reason = OutcomeConverted, ""
	case one.Source != path:
		one.Outcome = OutcomeRenamed
	default:
		one.Outcome = OutcomeSame
	}
}

// end returns the explanation of a message that was translated, or refused.
func (x *trace) end(c *Call, p *plan, out []byte, err error) *Explanation {
	x.Output, x.Err, x.Report = out, err, c.Report
	c.Report, c.trace = Report{}, nil // the call is used again
	fault, doc := checkJSON(x.src, p.table.depth), bytes.Trim(x.src, " \t\r\n")
	one, only := ExplainedField{Unknown: true}, true
	switch {
	case fault != nil && err != nil:
		one.Source, one.Offset = fault.field, fault.at
		one.Unknown = p.message != Request || !c.translation.HasRequestField(fault.field)
	case fault != nil && len(x.src) > 0: // of a callback
		one.Before = string(x.src)
	case fault == nil && doc[0] != '{':
		one.Before, one.Offset = string(doc), bytes.IndexByte(x.src, doc[0])
	default:
		only = false
	}
	if only {
		one.After, one.Outcome = one.Before, OutcomeSame
		x.Fields = []ExplainedField{one}
	}
	if err != nil {
		x.refuse(p, only)
		return &x.Explanation
	}
	failed := p.message == Reply && !c.success
	for i := range x.Fields {
		switch f := &x.Fields[i]; {
		case f.After != "":
		case failed:
			f.Outcome, f.Reason = OutcomeOmitted, "a failure has only its code and text"
		case f.Outcome == OutcomePassed: // a value in the place of an object
			f.Outcome = OutcomeDropped
		case f.Outcome == "":
			f.Outcome, f.Reason = OutcomeOmitted, "the other envelope has no place for it"
		}
	}
	return &x.Explanation
}

// refuse ends the explanation of a message that was refused: because of its only entry, or of that of a value.
func (x *trace) refuse(p *plan, only bool) {
	one, of := ExplainedField{Offset: -1}, value{}
	switch err := x.Err.(type) {
	case *Refusal:
		one.Source, one.Code, one.Reason, of = err.Field, err.Code, err.Reason.String(), err.of
	case *UnusableReply:
		one.Reason, of = err.Reason, err.of
	}
	if of.kind != absent {
		one.Offset = offsetIn(x.src, of)
	}
	x.Fields = slices.DeleteFunc(x.Fields, func(f ExplainedField) bool { return f.Offset < 0 })
	found := false
	for i := range x.Fields {
		f := &x.Fields[i]
		f.Outcome, f.Reason, f.Target, f.After = OutcomeUnused, "", "", ""
		if only || f.Offset == one.Offset {
			f.Outcome, f.Reason, f.Code, f.Source = OutcomeRefused, one.Reason, one.Code, cmp.Or(one.Source, f.Source)
			found = true
		}
	}
	if found {
		return
	}
	one.Outcome, one.Unknown = OutcomeRefused, one.Offset >= 0 && !p.paths[PathInTable(one.Source)]
	for _, f := range p.fields {
		if f.source != "" && f.source == one.Source { // the field is missing
			one.by(f)
		}
	}
	x.Fields = slices.Insert(x.Fields, 0, one)
}

const emptyValue = "an empty value"
