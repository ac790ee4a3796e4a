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
	slotOf := func(wanted bool, is func(asked *mapping) bool) int {
		if !wanted {
			return -1
		}
		return slices.IndexFunc(t.request.fields, is)
	}
	for slot, f := range t.reply.fields {
		f.echo = slotOf(f.class == Echoed, func(asked *mapping) bool { return asked.row == f.asked })
		sameRole := func(asked *mapping) bool { return asked.Role == f.Role && asked.source != "" }
		f.equal, f.repeat = slotOf(f.must, sameRole), slotOf(f.repeats, sameRole)
		if f.equal >= 0 || f.repeat >= 0 {
			t.reply.refers = append(t.reply.refers, slot)
		}
		f.equalsSecret = f.equal >= 0 && t.request.fields[f.equal].secret
		requested := func(asked *mapping) bool { return asked.secret && f.Path[0] != "" && asked.Path[0] == f.Path[0] }
		f.secret = f.secret || slices.ContainsFunc(t.request.fields, requested)
	}
	t.calls.New = func() any {
		return &Call{translation: t, request: make([]value, t.request.slots()), reply: make([]value, t.reply.slots())}
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
	return path != "" && !strings.Contains(path, itself) && t.request.hasField(PathInTable(path))
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
	passed      []passedField
	lists       [][]value // of the request, then of the reply: the slots of all items of a list, one after the other
	asked       int       // how many lists the request has
	within      []step    // the item that is being read or written
	items       int       // how many items of lists the message has
	overflow    bool      // the message has more than maxItems
	body        []byte    // of the request; the slots hold parts of it
	translated  bool      // Translate has succeeded
	code        string
	status      int // of the last reply
	success     bool
	alone       bool     // there is no request
	rejected    *Refusal // of a request that goes to no form
	refusal     *Refusal // of a request that this translation cannot carry
}

// passedField is a field without a row that passes into an object of the output.
type passedField struct {
	into       *node
	key, value string // raw JSON
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

// Code returns the code of the reply in the upstream's form, or "" if the reply was unusable.
func (c *Call) Code() string { return c.code }

// Means reports whether the code of the reply has one of the meanings in the table.
func (c *Call) Means(meanings ...Meaning) bool {
	p := c.translation.reply
	return p.table.Means(p.fromForm.name, c.code, meanings...)
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
	if refusal := c.parse(src); refusal != nil {
		return refusal
	}
	if refusal := c.enforceBounds(); refusal != nil {
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
		c.rejected, c.refusal = nil, nil
		return false, p.table.refusal(fault.field, fault.reason)
	}
	return isObject, c.rejected
}

// enforceBounds checks the bounds of every field that the client's form has, if the table says bounds: enforce.
func (c *Call) enforceBounds() *Refusal {
	p := c.translation.request
	if p.table.bounds != "enforce" {
		return nil
	}
	return c.checkFields(p, c.request, true)
}

// checkFields checks the fields of a request, and those of the items of its lists: their bounds, or what may be lost.
func (c *Call) checkFields(p *plan, slots []value, bounds bool) (refusal *Refusal) {
	for slot, f := range p.fields {
		v := slots[slot]
		if bounds {
			refusal = f.checkBounds(v, true)
		} else {
			refusal = c.checkLoss(p, f, v)
		}
		if refusal != nil {
			refusal.Field = c.at(refusal.Field)
			return refusal
		}
		refusal = c.eachItem(f, f.each, v, func(item []value) *Refusal { return c.checkFields(f.each, item, bounds) })
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// Translate appends the request that Read has read to dst, in the upstream's form. Between equal forms it returns the
// bytes that were read. If the error is a [*Refusal], nothing may be sent.
func (c *Call) Translate(dst []byte) ([]byte, error) {
	p := c.translation.request
	if c.refusal != nil {
		return nil, c.refusal
	}
	if c.translation.SameForm() {
		if refusal := c.enforceBounds(); refusal != nil {
			return nil, refusal
		}
		c.translated = true
		return c.body, nil
	}
	if refusal := c.checkFields(p, c.request, false); refusal != nil {
		return nil, refusal
	}
	dst, refused := c.emitAll(p, dst, c.request)
	if refused != nil {
		return nil, refused
	}
	c.translated = true
	return dst, nil
}

// checkLoss checks the bounds of a value, and whether its row allows to drop it if the upstream's form has no place
// for it.
func (c *Call) checkLoss(p *plan, f *mapping, v value) *Refusal {
	refusal := f.checkBounds(v, p.table.bounds == "enforce")
	if refusal != nil || f.class != Lossy || v.kind == absent {
		return refusal
	}
	reason := why("%v has no place for it", p.toForm.name)
	switch always := f.always; {
	case always.kind != absent && (v.countsAsAbsent() || v.kind == always.kind && v.text() == always.text):
		return nil // the upstream's form always means this value
	case f.loss == "refuse" && v.countsAsAbsent():
		return nil
	case f.loss == "drop":
		c.report(&c.Report.Dropped, f.source)
		return nil
	case always.kind != absent:
		reason = why("%v has no place for it: there it is always %v", p.toForm.name, always.text)
	}
	return &Refusal{Code: f.lossCode, Field: f.source, Reason: reason}
}

// unsafeString returns src as a string without a copy. The caller must not modify src as long as the string is used.
func unsafeString(src []byte) string { return unsafe.String(unsafe.SliceData(src), len(src)) }
