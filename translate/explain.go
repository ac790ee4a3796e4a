package translate

import (
	"slices"
	"strings"
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
	call := t.Start()
	defer call.Release()
	out, err := call.Request(nil, src)
	return newExplainer(call, t.request).explain(src, out, err)
}

// ExplainReply translates an upstream's reply like [Call.Reply], and says what became of each field. request is the
// client's request. If it is nil, nothing is echoed, and a success may be about anything.
func (t *Translation) ExplainReply(request []byte, status int, src []byte) *Explanation {
	call := t.Start()
	defer call.Release()
	if call.alone = request == nil; request != nil {
		_, _ = call.Request(nil, request) // the reply to a refused request is read like one to an empty request
	}
	out, err := call.Reply(nil, status, src)
	x := newExplainer(call, t.reply)
	for slot, f := range t.request.fields {
		if f.secret {
			x.addSecret(call.request[slot])
		}
	}
	return x.explain(src, out, err)
}

// Explain translates a callback like [Callback.Translate], and says what became of each field.
func (c *Callback) Explain(src []byte, from, to Form) *Explanation {
	out, n, err := c.Translate(nil, src, from, to)
	if n.plan == nil {
		return &Explanation{Err: err}
	}
	call := startCallback(n.plan)
	call.Report, call.success = n.Report, true
	e := newExplainer(call, n.plan).explain(src, out, err)
	e.Recognised = n.Recognised
	return e
}

// An explainer explains one message. It compares the input with the output of the translation, and uses the plan to
// find which leaf became which.
type explainer struct {
	*Explanation
	call    *Call
	plan    *plan
	outputs map[place]leaf // the leaves of the output that no entry explains yet
}

func newExplainer(call *Call, p *plan) *explainer {
	return &explainer{&Explanation{}, call, p, map[place]leaf{}}
}

func (x *explainer) explain(src, out []byte, err error) *Explanation {
	x.Output, x.Err = slices.Clone(out), err
	x.Report, x.call.Report = x.call.Report, Report{} // the call is used again
	fault := checkJSON(src, x.plan.table.depth)
	switch {
	case fault != nil && err != nil:
		known := x.plan.message == Request && x.call.translation.HasRequestField(fault.field)
		x.Fields = []ExplainedField{{
			Source: fault.field, Outcome: OutcomeRefused, Reason: fault.reason.String(), Code: x.code(),
			Offset: fault.at, Unknown: !known,
		}}
		return x.Explanation
	case len(src) == 0:
		return x.Explanation
	case fault != nil: // a callback that is not JSON passes
		x.Fields = []ExplainedField{{Outcome: OutcomeSame, Before: string(src), After: string(out), Unknown: true}}
		return x.Explanation
	}
	found := false
	leaves, more := x.plan.firstLeaves(x.plan.root, src, func(l leaf) bool {
		cause := !found && err != nil && x.isCause(l)
		found = found || cause
		return cause
	})
	if x.More = more; err != nil {
		x.explainRefused(leaves)
		return x.Explanation
	}
	var outputs []leaf
	if x.plan.from != x.plan.to {
		wanted := map[place]bool{}
		for _, l := range leaves {
			wanted[l.target()] = true
		}
		delete(wanted, nowhere)
		x.plan.visitLeaves(x.plan.envelope(x.plan.to, x.plan.out), out, func(l leaf) {
			if more == 0 || !l.isOneOfMany() || wanted[l.place(l.node)] { // else it can be of a leaf that is left out
				outputs = append(outputs, l)
			}
		})
	}
	for _, l := range outputs {
		x.outputs[l.place(l.node)] = l
	}
	for _, l := range leaves {
		x.Fields = append(x.Fields, x.explainLeaf(l))
	}
	for _, l := range outputs {
		if _, left := x.outputs[l.place(l.node)]; left {
			x.Fields = append(x.Fields, x.explainAdded(l))
		}
	}
	return x.Explanation
}

// describe returns an entry with what the table says about a leaf.
func (x *explainer) describe(l leaf) ExplainedField {
	f := ExplainedField{Unknown: l.entry == nil, Offset: -1}
	if r := l.plan.field(l.entry); r != nil {
		role := r.Role
		if role == noRole && r.equal >= 0 {
			role = x.call.translation.request.fields[r.equal].Role
		}
		f.Row, f.About, f.Secret = &r.row.source, r.about, r.secret
		f.Role, f.Public = role.name, (r.digits || role.Public) && !f.Secret
	}
	if l.entry != nil && l.entry.node == nil {
		f.Public = f.Public || l.entry.slot == l.plan.codeSlot() || l.entry.slot == l.plan.flagSlot()
	}
	return f
}

// describeInput returns an entry for a leaf of the input.
func (x *explainer) describeInput(l leaf) ExplainedField {
	f := x.describe(l)
	f.Source, f.Before, f.Offset = l.path, l.raw, l.offset
	if f.Secret {
		x.addSecret(l.value)
	}
	return f
}

func (x *explainer) addSecret(v value) {
	if !v.countsAsAbsent() {
		x.secrets = append(x.secrets, strings.Clone(v.text()))
	}
}

// explainLeaf explains a leaf of a message that was translated.
func (x *explainer) explainLeaf(l leaf) ExplainedField {
	f := x.describeInput(l)
	out := l // between equal forms
	if x.plan.from != x.plan.to {
		at, ok := l.target(), false
		if out, ok = x.outputs[at]; !ok {
			f.Outcome, f.Reason = x.whyAbsent(l)
			return f
		}
		delete(x.outputs, at)
	}
	f.Target, f.After = out.path, out.raw
	mismatch, fits := x.fits(l)
	switch {
	case !fits && (f.After != "null" || f.Before == "null"): // null is that of `otherwise`
		f.Outcome, f.Reason = OutcomePassed, mismatch.String()
	case f.Before != f.After:
		f.Outcome = OutcomeConverted
	case f.Source != f.Target:
		f.Outcome = OutcomeRenamed
	default:
		f.Outcome = OutcomeSame
	}
	return f
}

// fits reports whether a value has its documented type.
func (x *explainer) fits(l leaf) (Mismatch, bool) {
	p := x.plan
	f, r := l.plan.field(l.entry), unconverted
	switch {
	case f != nil && x.call.success && x.call.repeatsAnother(f, l.value):
		return Mismatch{ofRequest, "another"}, false
	case p.from == p.to:
		return Mismatch{}, true
	case l.entry != nil && l.entry.node != nil && l.node == nil: // an item
		return Mismatch{"an object", l.typeName()}, false
	case f != nil && f.each != nil:
		return f.mismatchOf(l.value), l.kind == null && p.message == Request || l.raw[0] == '['
	case f != nil:
		r = f
	case l.plan == p && l.entry != nil && l.entry.node == nil && l.entry.slot == p.codeSlot():
		_, replaced := p.table.codeIn(p.from, p.to, x.call.code)
		return Mismatch{"", l.typeName()}, x.call.success || !replaced
	case l.entry == nil || l.entry.node != nil || l.entry.slot != l.plan.textSlot():
		r = nil
	}
	if r == nil || p.message == Reply && f != nil && p.noValue(f, l.value, x.call.reply) {
		return Mismatch{}, true
	}
	out, fits := r.append(nil, l.value, p.message != Request)
	fits = fits && (l.kind != null || p.message == Request || f == nil || !f.countsNull(out))
	return r.mismatchOf(l.value), fits
}

// whyAbsent explains why a leaf is not in the output.
func (x *explainer) whyAbsent(l leaf) (Outcome, string) {
	p, r := x.plan, l.plan.field(l.entry)
	other := string(p.toForm.name)
	switch {
	case p.message == Reply && !x.call.success:
		return OutcomeOmitted, "a failure has only its code and text"
	case l.entry == nil:
		return OutcomeDropped, "is not a field of this operation"
	case r == nil && l.entry.node == nil && !x.call.translation.operation.bare[p.to]:
		return OutcomeOmitted, "the envelope of " + other + " has no place for it"
	case r == nil && l.entry.node == nil:
		return OutcomeOmitted, "a success in " + other + " has no envelope"
	case r == nil && l.kind == null,
		r != nil && !slices.Contains(x.Report.Dropped, l.reported(r)) && l.countsAsAbsent():
		return OutcomeOmitted, "an empty value"
	case r != nil && r.omits(l.value):
		return OutcomeOmitted, other + " leaves the field out instead"
	case r == nil:
		return OutcomeDropped, wrongType("an object", l.typeName())
	case !slices.Contains(x.Report.Dropped, l.reported(r)):
		return OutcomeOmitted, "in " + other + " it is always " + r.always.text
	}
	return OutcomeDropped, other + " has no place for it"
}

// explainAdded explains a leaf of the output that is not from the input.
func (x *explainer) explainAdded(l leaf) ExplainedField {
	f := x.describe(l)
	f.Target, f.After, f.Outcome = l.path, l.raw, OutcomeDefaulted
	r := l.plan.field(l.entry)
	if r == nil || r.echo < 0 {
		return f
	}
	f.Outcome, l.value = OutcomeEchoed, x.call.request[r.echo]
	f.Request, f.Before = x.call.translation.request.fields[r.echo].source, strings.Clone(l.raw)
	if mismatch, fits := x.fits(l); !fits {
		f.Reason = mismatch.String()
	}
	return f
}

// explainRefused explains the leaves of a message that was refused.
func (x *explainer) explainRefused(leaves []leaf) {
	at := slices.IndexFunc(leaves, x.isCause)
	refused := ExplainedField{Offset: -1}
	for i, l := range leaves {
		f := x.describeInput(l)
		if f.Outcome = OutcomeUnused; i == at {
			refused = f
		}
		x.Fields = append(x.Fields, f)
	}
	refused.Outcome, refused.Code = OutcomeRefused, x.code()
	switch err := x.Err.(type) {
	case *Refusal:
		refused.Source, refused.Reason = err.Field, err.Reason.String()
	case *UnusableReply:
		refused.Reason = err.Reason
	}
	if at >= 0 {
		x.Fields[at] = refused
		return
	}
	for slot, f := range x.plan.fields {
		if refused.Source != "" && f.source == refused.Source { // the field is missing
			missing := x.describe(leaf{plan: x.plan, entry: &entry{slot: slot}})
			refused.Row, refused.About, refused.Role = missing.Row, missing.About, missing.Role
		}
	}
	x.Fields = slices.Insert(x.Fields, 0, refused)
}

// code returns the code of the refusal, or "" for a reply.
func (x *explainer) code() string {
	if refusal, ok := x.Err.(*Refusal); ok {
		return refusal.Code
	}
	return ""
}

// isCause reports whether the message was refused because of this leaf.
func (x *explainer) isCause(l leaf) bool {
	p := x.plan
	switch err := x.Err.(type) {
	case *Refusal:
		known := p.message == Request && x.call.translation.HasRequestField(err.Field) && err.Reason.Format != notAField
		return err.Field == l.path && known == (l.entry != nil)
	case *UnusableReply:
		if r := l.plan.field(l.entry); r != nil {
			return err.Field == r.source
		}
		isCode := l.entry != nil && l.entry.node == nil && l.entry.slot == l.plan.codeSlot()
		return l.node == nil || isCode && (l.kind != text || l.countsAsAbsent())
	}
	return false
}

// notAField is the reason for a field without a row.
const notAField = "is not a field of this operation"
