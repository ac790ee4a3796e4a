package translate

import (
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/tidwall/gjson"
)

// A Translation is one operation between a client's form and an upstream's form. It is immutable and safe for
// concurrent use.
type Translation struct {
	operation *Operation
	request   *plan
	reply     *plan

	calls sync.Pool
}

// newTranslation makes the plans, and finds the slots of the request that the reply refers to.
func newTranslation(o *Operation, client, upstream int) *Translation {
	t := &Translation{operation: o, request: o.plan(Request, client, upstream), reply: o.plan(Reply, upstream, client)}
	for _, f := range t.reply.fields {
		for slot, asked := range t.request.fields {
			is := f.class != Echoed && (f.must || f.repeats) && asked.Role == f.Role && asked.source != ""
			if f.of < 0 && (is || f.class == Echoed && asked.row == f.asked) {
				f.of = slot
			}
			f.secret = f.secret || asked.secret && f.Path[0] != "" && asked.Path[0] == f.Path[0]
		}
	}
	t.calls.New = func() any {
		return &Call{translation: t, request: make([]value, t.request.size), reply: make([]value, t.reply.size)}
	}
	return t
}

// Operation returns the operation that this translates.
func (t *Translation) Operation() *Operation { return t.operation }

// SameForm reports whether client and upstream speak the same form. Then bytes pass unchanged.
func (t *Translation) SameForm() bool { return t.request.from == t.request.to }

// HasRequestField reports whether the table has path as a field of the request, or as an object that holds fields of
// it. The path of a [Refusal] that is not in the table was written by the sender and must not be logged.
func (t *Translation) HasRequestField(path string) bool {
	return !strings.Contains(path, itself) && t.request.paths[PathInTable(path)]
}

// ClientPath returns the path that a field of the request has in the client's form, by that in the upstream's form, or
// "" if either form lacks it.
func (t *Translation) ClientPath(path string) string {
	for _, f := range t.request.fields {
		if f.target == path && path != "" {
			return f.source
		}
	}
	return ""
}

// Start begins one exchange.
func (t *Translation) Start() *Call { return t.calls.Get().(*Call) }

// StartReply begins the translation of a reply whose request is not known: nothing is echoed, and a success may be
// about anything.
func (t *Translation) StartReply() *Call {
	call := t.Start()
	call.alone = true
	return call
}

// StartWith begins an exchange with the request that another call has read, so that the request is read only once.
// Both calls must be of the same operation and the same form of the client, and t must not change the form. The bytes
// of the request must not be modified until both calls are released.
func (t *Translation) StartWith(other *Call) *Call {
	call := t.Start()
	copy(call.request, other.request)
	call.body = other.body
	call.lists, call.asked = append(call.lists[:0], other.lists[:other.asked]...), other.asked
	return call
}

// A Call translates one exchange: its request, then its reply. It is not safe for concurrent use.
type Call struct {
	// Report is what the last Request or Reply changed. Each of them resets it.
	Report Report

	translation *Translation
	request     []value
	reply       []value
	passed      [][]passing // by object
	nesting
	body       []byte // of the request; the slots hold parts of it
	translated bool   // Translate has succeeded
	code       string
	status     int // of the last reply
	success    bool
	alone      bool     // there is no request
	rejected   *Refusal // of a request that goes to no form
	refusal    *Refusal // of a request that this translation cannot carry
	trace      *trace   // explains the message; mostly nil
}

// Release makes the call available for reuse. Neither the call nor its Report may be used afterwards.
func (c *Call) Release() {
	c.reset(c.request)
	clear(c.reply)
	c.body, c.translated, c.code, c.success, c.rejected, c.refusal = nil, false, "", false, nil, nil
	c.dropLists(0)
	c.asked, c.alone = 0, false
	c.translation.calls.Put(c)
}

// Code returns the code of the reply in the first form, or "" if the reply was unusable.
func (c *Call) Code() string {
	return c.translation.reply.fromForm.inFirst(c.code)
}

// Means reports whether the code of the reply has one of the meanings in the table.
func (c *Call) Means(meanings ...Meaning) bool {
	return Envelope{form: c.translation.reply.fromForm}.Means(c.code, meanings...)
}

// Operation returns the operation of the call.
func (c *Call) Operation() *Operation { return c.translation.operation }

// Succeeded reports whether the upstream replied with a success.
func (c *Call) Succeeded() bool { return c.success }

// Request appends the client's request to dst, in the upstream's form. Between equal forms it returns src itself. If
// the error is a [*Refusal], nothing may be sent. src must not be modified before Release, since the reply may echo
// from it.
func (c *Call) Request(dst, src []byte) ([]byte, error) {
	if refusal := c.parse(src); refusal != nil {
		return nil, refusal
	}
	return c.Translate(dst)
}

// Read is the first part of Request: it reads the request, so that Value can be used, and makes the checks that do
// not depend on the upstream's form. Translate is the second part. The error is a [*Refusal].
func (c *Call) Read(src []byte) error {
	refusal := c.parse(src)
	if refusal == nil {
		refusal = c.checkFields(c.translation.request, c.request, false)
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// parse reads a request into the slots. A value that this translation cannot represent is kept as a refusal for
// Translate.
func (c *Call) parse(src []byte) *Refusal {
	p := c.translation.request
	c.translated, c.body = false, nil
	c.dropLists(0)
	isObject, refusal := c.take(p, src, c.request)
	c.asked = len(c.lists)
	if refusal == nil && !isObject {
		refusal = p.table.refusal("", why(wantObject, valueOf(gjson.ParseBytes(src)).typeName()))
	}
	if refusal == nil {
		refusal = p.checkSpelling(c.request)
	}
	if refusal == nil {
		c.body = src
	}
	return refusal
}

// take is the intake of what others send, requests and callbacks: it refuses what two readers could read differently.
func (c *Call) take(p *plan, src []byte, slots []value) (isObject bool, _ *Refusal) {
	c.rejected, c.refusal = nil, nil
	isObject, fault := c.scan(p, src, slots)
	if fault != nil {
		return false, p.table.refusal(fault.field, fault.reason)
	}
	return isObject, c.rejected
}

// checkFields checks the bounds of the fields of a request, if the table says bounds: enforce or another form gets it.
// If lose is true, it checks which fields of a message are lost, too.
func (c *Call) checkFields(p *plan, slots []value, lose bool) (refused *Refusal) {
	strict, enforced := p.message == Request, p.table.bounds == "enforce"
	if !enforced && !lose {
		return nil
	}
	for slot, f := range p.fields {
		v := slots[slot]
		if strict {
			refused = f.checkBounds(v, enforced)
		}
		if refused == nil && lose && f.class == Lossy && v.kind != absent {
			refused = c.lose(p, f, v)
		}
		if refused != nil {
			refused.Field = c.at(refused.Field)
			return refused
		}
		if f.each == nil {
			continue
		}
		for item := range c.each(f, v) {
			if refused = c.checkFields(f.each, item, lose); refused != nil {
				return refused
			}
		}
	}
	return nil
}

// lose reports a field that the other form has no place for, or refuses a request if its row does not allow to drop it.
func (c *Call) lose(p *plan, f *mapping, v value) *Refusal {
	always, none := f.always.kind != absent, p.message == Request && v.countsAsAbsent()
	switch {
	case always && (none || v.is(f.always)):
		c.trace.decide(v, OutcomeOmitted, "the other form always means this value")
	case none && f.loss == "refuse":
		c.trace.decide(v, OutcomeOmitted, emptyValue)
	case p.message != Request, f.loss == "drop":
		c.report(OutcomeDropped, f.source, v, Detail{})
	default:
		return &Refusal{f.lossCode, f.source, f.noPlace(p.toForm.name, v), v}
	}
	return nil
}

// noPlace says what a form does not have. It names the value of a sender only if the table lists it.
func (f *mapping) noPlace(form Form, v value) Detail {
	if f.always.kind == absent {
		return why(NoPlace, form)
	}
	if i := slices.Index(f.oneOf, v.text()); i >= 0 && v.kind == text {
		return why("%v has no place for it (%v): there it is always %v", form, f.oneOf[i], f.always.text)
	}
	return why("%v has no place for it: there it is always %v", form, f.always.text)
}

// Translate appends the request that Read has read to dst, in the upstream's form. Between equal forms it returns the
// bytes that were read. If the error is a [*Refusal], nothing may be sent.
func (c *Call) Translate(dst []byte) ([]byte, error) {
	p, refusal := c.translation.request, c.refusal
	switch {
	case refusal != nil:
	case c.translation.SameForm():
		dst, refusal = c.body, c.checkFields(p, c.request, false)
	default:
		dst, refusal = c.write(p, dst, c.request)
	}
	if refusal != nil {
		return nil, refusal
	}
	c.translated = true
	return dst, nil
}

// unsafeString returns src as a string without a copy. The caller must not modify src as long as the string is used.
func unsafeString(src []byte) string { return unsafe.String(unsafe.SliceData(src), len(src)) }
