package translate

import (
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

	echoSlots  []int // by slot of the reply: the slot of the request that is echoed there, or -1
	equalSlots []int // by slot of the reply: the slot of the request that a success must equal, or -1
	calls      sync.Pool
}

// link resolves what the reply takes from the request.
func (c *Translation) link() {
	slotOf := func(form int, path string) int {
		for slot, r := range c.request.rows {
			if path != "" && r.path[form] == path {
				return slot
			}
		}
		return -1
	}
	for _, r := range c.reply.rows {
		echo := -1
		// The reply goes to the client's form, so what it echoes is in the request as the client wrote it.
		if r.echo != "" && r.onlyForm() == c.reply.to {
			echo = slotOf(r.onlyForm(), r.echo)
		}
		c.echoSlots = append(c.echoSlots, echo)
		c.equalSlots = append(c.equalSlots, slotOf(0, r.mustEqual))
	}
	c.calls.New = func() any {
		return &Call{translation: c, request: make([]value, c.request.slots()), reply: make([]value, c.reply.slots())}
	}
}

// Operation is what this is a translation of.
func (c *Translation) Operation() *Operation { return c.operation }

// SameForm tells whether client and upstream speak one form, so that bytes pass untouched.
func (c *Translation) SameForm() bool { return c.request.from == c.request.to }

// HasRequestField tells whether path is a field of the request, or an object that holds some, by the table. What a refusal
// names may also be a word of the sender's, which is not for a log.
func (c *Translation) HasRequestField(path string) bool {
	for _, r := range c.request.rows {
		if own := r.path[c.request.from]; path != "" && (own == path || strings.HasPrefix(own, path+".")) {
			return true
		}
	}
	return false
}

// Start begins one exchange.
func (c *Translation) Start() *Call { return c.calls.Get().(*Call) }

// A Call carries one exchange: its request, then its reply. It is not safe for concurrent use.
type Call struct {
	// Report is what the last Request or Reply changed. It is reset by each of them.
	Report Report

	translation *Translation
	request     []value
	reply       []value
	passed      []passedField
	body        []byte // the bytes of the request that the slots hold
	carriedBody []byte // the same once the request was carried, nil before
	code        string
	success     bool
	rejected    *Refusal // of a request that goes to no form
	refusal     *Refusal // of a request that this translation cannot carry
}

// passedField is a field without a row on its way into an object of the output.
type passedField struct {
	object     int
	key, value string // raw JSON
}

// Release gives the call back for reuse. Neither it nor its Report may be used after.
func (c *Call) Release() {
	clear(c.request)
	clear(c.reply)
	clear(c.passed)
	c.passed, c.body, c.carriedBody, c.code, c.success, c.rejected, c.refusal = c.passed[:0], nil, nil, "", false, nil, nil
	c.Report.reset()
	c.translation.calls.Put(c)
}

// Code is the code of the reply in the upstream's form, "" when it was not an answer.
func (c *Call) Code() string { return c.code }

// Succeeded tells whether the reply was the upstream's own success.
func (c *Call) Succeeded() bool { return c.success }

// Request appends the client's request to dst as the upstream's form has it. Between equal forms it returns src
// itself. The error is a [*Refusal]: then nothing may be sent. src must not be modified before Release: the
// reply may echo from it.
func (c *Call) Request(dst, src []byte) ([]byte, error) {
	if refusal := c.parse(src); refusal != nil {
		return nil, refusal
	}
	return c.Carry(dst)
}

// Read reads the client's request, so that Value can be asked for, and checks what does not depend on the upstream's form. Carry
// then does the rest of Request. The error is a [*Refusal].
func (c *Call) Read(src []byte) error {
	if refusal := c.parse(src); refusal != nil {
		return refusal
	}
	if refusal := c.enforceBounds(); refusal != nil {
		return refusal
	}
	return nil
}

// StartWith starts an exchange in this translation, which must not change the form, with the request that another call of the
// operation and the client's form has read: the request is not read again. Both calls need src until they are released.
func (c *Translation) StartWith(other *Call) *Call {
	call := c.Start()
	copy(call.request, other.request)
	call.body = other.body
	return call
}

// parse reads a request into the slots. What this translation cannot carry is kept for Carry, which refuses it.
func (c *Call) parse(src []byte) *Refusal {
	p := c.translation.request
	c.Report.reset()
	clear(c.request)
	clear(c.passed)
	c.passed, c.carriedBody, c.body, c.rejected, c.refusal = c.passed[:0], nil, nil, nil, nil
	if fault := checkJSON(src, p.table.depth); fault != nil {
		return &Refusal{p.table.invalid, fault.field, fault.reason}
	}
	doc := gjson.Parse(unsafeString(src))
	if !doc.IsObject() {
		return &Refusal{p.table.invalid, "", "must be a JSON object, but is " + valueOf(doc).typeName()}
	}
	c.walk(p, p.root, doc, c.request)
	if c.rejected != nil {
		return c.rejected
	}
	c.body = src
	return nil
}

// enforceBounds checks the bounds of every field of the client's form, if the table says so.
func (c *Call) enforceBounds() *Refusal {
	p := c.translation.request
	if p.table.bounds != "enforce" {
		return nil
	}
	for slot, r := range p.rows {
		if path := r.path[p.from]; path != "" { // nobody who speaks this form can send the other form's field
			if refusal := r.checkBounds(c.request[slot], path, true); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// Carry appends the request that Read has read to dst as the upstream's form has it. Between equal forms it returns the bytes
// that were read. The error is a [*Refusal]: then nothing may be sent.
func (c *Call) Carry(dst []byte) ([]byte, error) {
	p := c.translation.request
	if c.refusal != nil {
		return nil, c.refusal
	}
	if c.translation.SameForm() {
		if refusal := c.enforceBounds(); refusal != nil {
			return nil, refusal
		}
		c.carriedBody = c.body
		return c.body, nil
	}
	for slot, r := range p.rows {
		if refusal := c.checkLoss(p, r, c.request[slot], p.table.bounds == "enforce"); refusal != nil {
			return nil, refusal
		}
	}
	dst = append(dst, '{')
	dst, slot := c.emit(p, dst, c.request)
	if slot >= 0 {
		r, v := p.rows[slot], c.request[slot]
		reason := "must be a whole number in digits, but is " + display(v)
		if !r.digits {
			reason = "has no counterpart in " + string(p.table.forms[p.to].name) + ": " + display(v)
		}
		return nil, &Refusal{r.malformed, r.path[p.from], reason}
	}
	c.carriedBody = c.body
	return append(dst, '}'), nil
}

// checkLoss judges a value of a request and, where the upstream's form has no place for it, its loss.
func (c *Call) checkLoss(p *plan, r *row, v value, enforce bool) *Refusal {
	path := r.path[p.from]
	if path == "" {
		return nil
	}
	if refusal := r.checkBounds(v, path, enforce); refusal != nil || r.path[p.to] != "" || v.kind == absent {
		return refusal
	}
	switch {
	case r.defaultValue != nil && (v.countsAsAbsent() || v.kind == r.defaultValue.kind && v.text() == r.defaultValue.text):
		return nil // what the other form means without saying it
	case r.loss == "refuse" && v.countsAsAbsent():
		return nil
	case r.loss == "drop":
		c.Report.Dropped = append(c.Report.Dropped, path)
		return nil
	}
	return &Refusal{r.lossCode, path, string(p.table.forms[p.to].name) + " has no place for it: " + display(v)}
}

// unsafeString reads src as a string without a copy. The caller promised not to modify src.
func unsafeString(src []byte) string { return unsafe.String(unsafe.SliceData(src), len(src)) }
