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
	repeated   []int // by slot of the reply: the slot of the request whose value it repeats, or -1
	// By slot of the reply: the field is secret by its own role, or since the request has a field with the same path and a secret role.
	secretSlots []bool
	calls       sync.Pool
}

// link finds the slots of the request that the reply refers to.
func (t *Translation) link() {
	slots := [2]map[string]int{{}, {}}
	for slot, r := range t.request.rows {
		slots[0][r.path[0]], slots[1][r.path[1]] = slot, slot
	}
	slotOf := func(form int, path string) int {
		if slot, ok := slots[form][path]; ok && path != "" {
			return slot
		}
		return -1
	}
	for _, r := range t.reply.rows {
		echo := -1
		// The reply goes to the client, so it echoes the request in the client's form.
		if r.Echo != "" && r.onlyForm() == t.reply.to {
			echo = slotOf(r.onlyForm(), r.Echo)
		}
		t.echoSlots = append(t.echoSlots, echo)
		t.equalSlots = append(t.equalSlots, slotOf(0, r.MustEqualRequest))
		t.repeated = append(t.repeated, slotOf(0, r.RepeatsRequest))
		requested := slotOf(0, r.path[0])
		t.secretSlots = append(t.secretSlots, r.role.Secret || requested >= 0 && t.request.rows[requested].role.Secret)
	}
	t.calls.New = func() any {
		return &Call{translation: t, request: make([]value, t.request.slots()), reply: make([]value, t.reply.slots())}
	}
}

// Operation returns the operation that this translates.
func (t *Translation) Operation() *Operation { return t.operation }

// SameForm reports whether client and upstream speak the same form. Then bytes pass unchanged.
func (t *Translation) SameForm() bool { return t.request.from == t.request.to }

// HasRequestField reports whether the table has path as a field of the request, or as an object that holds fields of it. The
// path of a [Refusal] that is not in the table was written by the sender and must not be logged.
func (t *Translation) HasRequestField(path string) bool {
	for _, r := range t.request.rows {
		if known := r.path[t.request.from]; path != "" && (known == path || strings.HasPrefix(known, path+".")) {
			return true
		}
	}
	return false
}

// Start begins one exchange.
func (t *Translation) Start() *Call { return t.calls.Get().(*Call) }

// StartWith begins an exchange with the request that another call has read, so that the request is read only once. Both calls
// must be of the same operation and the same form of the client, and t must not change the form. The bytes of the request must
// not be modified until both calls are released.
func (t *Translation) StartWith(other *Call) *Call {
	call := t.Start()
	copy(call.request, other.request)
	call.body = other.body
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
	body        []byte // of the request; the slots hold parts of it
	translated  bool   // Translate has succeeded
	code        string
	success     bool
	rejected    *Refusal // of a request that goes to no form
	refusal     *Refusal // of a request that this translation cannot carry
}

// passedField is a field without a row that passes into an object of the output.
type passedField struct {
	object     int
	key, value string // raw JSON
}

// Release makes the call available for reuse. Neither the call nor its Report may be used afterwards.
func (c *Call) Release() {
	c.reset(c.request)
	clear(c.reply)
	c.body, c.translated, c.code, c.success, c.rejected, c.refusal = nil, false, "", false, nil, nil
	c.translation.calls.Put(c)
}

// Code returns the code of the reply in the upstream's form, or "" if the reply was unusable.
func (c *Call) Code() string { return c.code }

// Means reports whether the code of the reply has one of the meanings in the table.
func (c *Call) Means(meanings ...Meaning) bool {
	p := c.translation.reply
	return p.table.Means(p.table.forms[p.from].name, c.code, meanings...)
}

// Operation returns the operation of the call.
func (c *Call) Operation() *Operation { return c.translation.operation }

// Succeeded reports whether the upstream replied with a success.
func (c *Call) Succeeded() bool { return c.success }

// Request appends the client's request to dst, in the upstream's form. Between equal forms it returns src itself. If the error
// is a [*Refusal], nothing may be sent. src must not be modified before Release, since the reply may echo from it.
func (c *Call) Request(dst, src []byte) ([]byte, error) {
	if refusal := c.parse(src); refusal != nil {
		return nil, refusal
	}
	return c.Translate(dst)
}

// Read is the first part of Request: it reads the request, so that Value can be used, and makes the checks that do not depend on
// the upstream's form. Translate is the second part. The error is a [*Refusal].
func (c *Call) Read(src []byte) error {
	if refusal := c.parse(src); refusal != nil {
		return refusal
	}
	if refusal := c.enforceBounds(); refusal != nil {
		return refusal
	}
	return nil
}

// parse reads a request into the slots. A value that this translation cannot represent is kept as a refusal for Translate.
func (c *Call) parse(src []byte) *Refusal {
	p := c.translation.request
	c.translated, c.body, c.rejected, c.refusal = false, nil, nil, nil
	isObject, fault := c.scan(p, src, c.request)
	if fault != nil {
		c.rejected, c.refusal = nil, nil
		return &Refusal{p.table.invalid, fault.field, fault.reason, false}
	}
	if !isObject {
		return &Refusal{p.table.invalid, "", wrongType("an object", valueOf(gjson.ParseBytes(src)).typeName()), false}
	}
	if c.rejected != nil {
		return c.rejected
	}
	c.body = src
	return nil
}

// enforceBounds checks the bounds of every field that the client's form has, if the table says bounds: enforce.
func (c *Call) enforceBounds() *Refusal {
	p := c.translation.request
	if p.table.bounds != "enforce" {
		return nil
	}
	for slot, r := range p.rows {
		if path := r.path[p.from]; path != "" {
			if refusal := r.checkBounds(c.request[slot], path, true); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// Translate appends the request that Read has read to dst, in the upstream's form. Between equal forms it returns the bytes that
// were read. If the error is a [*Refusal], nothing may be sent.
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
	for slot, r := range p.rows {
		if refusal := c.checkLoss(p, r, c.request[slot], p.table.bounds == "enforce"); refusal != nil {
			return nil, refusal
		}
	}
	dst = append(dst, '{')
	dst, slot := c.emit(p, dst, c.request)
	if slot >= 0 {
		r, v := p.rows[slot], c.request[slot]
		reason := wrongType(wholeNumber, v.notDigits())
		if !r.digits || len(r.pairs.list) > 0 && v.kind != composite {
			reason = "has a value without a counterpart in " + string(p.table.forms[p.to].name)
		}
		return nil, &Refusal{r.Malformed, r.path[p.from], reason, false}
	}
	c.translated = true
	return append(dst, '}'), nil
}

// checkLoss checks the bounds of a value, and whether its row allows to drop it if the upstream's form has no place for it.
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
		return nil // the upstream's form always means this value
	case r.Loss == "refuse" && v.countsAsAbsent():
		return nil
	case r.Loss == "drop":
		c.Report.Dropped = append(c.Report.Dropped, path)
		return nil
	}
	reason := string(p.table.forms[p.to].name) + " has no place for it"
	if r.defaultValue != nil {
		reason = string(p.table.forms[p.to].name) + " has no place for it: there it is always " + r.defaultValue.text
	}
	return &Refusal{Code: r.LossCode, Field: path, Reason: reason, CannotCarry: true}
}

// unsafeString returns src as a string without a copy. The caller must not modify src as long as the string is used.
func unsafeString(src []byte) string { return unsafe.String(unsafe.SliceData(src), len(src)) }
