package sandbox

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// operation is a name that metrics and counts know an operation by.
type operation string

const (
	opNone     operation = "none"
	opCreate   operation = "bill.create"
	opResend   operation = "bill.resend"
	opRead     operation = "bill.read"
	opDestroy  operation = "bill.destroy"
	opCancel   operation = "bill.cancel"
	opRegister operation = "mapping.register"
	opMappings operation = "mapping.list"
	opStatus   operation = "mapping.status"
	opMapMerchant operation = "merchant.map"
	opMerchants   operation = "merchant.list"
)

// operations are those that a call can be of.
var operations = []operation{
	opCreate, opResend, opRead, opDestroy, opCancel, opRegister, opMappings, opStatus, opMapMerchant, opMerchants,
}

// operationOf is the path table of the document ("Endpoints").
func operationOf(path string) operation {
	switch path {
	case "/bill", "/if/bill/send":
		return opCreate
	case "/bill/resend", "/if/bill/resend":
		return opResend
	case "/bill/read", "/if/bill/read":
		return opRead
	case "/bill/destroy", "/if/bill/destroy":
		return opDestroy
	case "/bill/cancel", "/if/bill/cancel":
		return opCancel
	case "/auth/mapping":
		return opRegister
	case "/read/mapping":
		return opMappings
	case "/auth/mapping/status":
		return opStatus
	case "/auth/merchant/mapping":
		return opMapMerchant
	case "/read/merchant":
		return opMerchants
	}
	return opNone
}

// call is one call of a partner, whichever form it came in.
type call struct {
	op    operation
	form  form
	base  string // what stands before the paths of urls in the reply
	names *fieldNames

	key, member, merchant string
	// The members of a bill; which of them an operation has is the document's.
	// price is the digits exactly as they were sent.
	billID, sendType, issuer, product, price, supplyPrice, tax, memberName   string
	phone, message, expireDt, hash, callbackURL, pageRedirectURL, cancelNote string
	// What only the sub-business operations have.
	businessNumber, redirectURL, temporaryCode string

	// textPrice tells whether the price was a string.
	textPrice bool
	// wrongType is the first field, as the caller spells it, that is not of its
	// documented type.
	wrongType string
}

// fieldPath is the place of a bill's field as the caller spells it, for a refusal.
func (c *call) fieldPath(name string) string {
	if c.names.nested(c.op) {
		return "bill." + name
	}
	return name
}

// result is what came of a call: a code, and with 0000 what the reply shows.
type result struct {
	code  string
	field string // the field at fault as the caller spells it, if one is
	bill  Bill
	data  any // of a sub-business operation
}

var succeeded = result{code: codeSuccess}

func refuse(code string) result { return result{code: code} }

func refuseField(code, field string) result { return result{code: code, field: field} }

// fieldNames is how one form spells a bill call. A name that is empty is a field
// that the form does not have.
type fieldNames struct {
	apiKey, billID, sendType, issuer, product, price, supplyPrice, tax, memberName string
	phone, message, expireDt, hash, callbackURL, pageRedirectURL, cancelNote       string
	// nested tells whether an operation keeps its bill's fields in `bill`.
	nested func(operation) bool
}

// decode reads a call out of a request. It never fails: what is missing is
// empty, what is of another type is noted, and run says what follows.
func decode(op operation, f form, root map[string]json.RawMessage) call {
	c := call{op: op, form: f, names: f.fieldNames()}
	r := reader{members: root}
	n := c.names
	c.key = r.textOrNothing(n.apiKey)
	switch op {
	case opRegister:
		c.member, c.merchant = r.text("memberId"), r.text("merchantId")
		c.businessNumber, c.callbackURL, c.redirectURL = r.text("businessNumber"), r.text("callbackUrl"), r.text("redirectUrl")
		c.wrongType = r.wrong
		return c
	case opMapMerchant:
		c.member, c.merchant = r.text("memberId"), r.text("merchantId")
		c.temporaryCode = r.text("temporaryMerchantCd")
		r.text("memberIdx") // its meaning is not shown; only its type is held to
		c.wrongType = r.wrong
		return c
	case opMappings, opMerchants:
		return c
	}
	c.member, c.merchant = r.text("member"), r.text("merchant")
	if op == opStatus {
		c.wrongType = r.wrong
		return c
	}
	if n.nested(op) {
		r = r.object("bill")
	}
	c.billID = r.text(n.billID)
	switch op {
	case opCreate:
		c.sendType = sendTalk // what a form that does not say does
		if n.sendType != "" {
			c.sendType = r.textOrNothing(n.sendType)
		}
		c.issuer, c.product, c.memberName = r.text(n.issuer), r.text(n.product), r.text(n.memberName)
		c.supplyPrice, c.tax = r.text(n.supplyPrice), r.text(n.tax)
		c.phone, c.message, c.expireDt = r.text(n.phone), r.text(n.message), r.text(n.expireDt)
		c.callbackURL, c.pageRedirectURL = r.text(n.callbackURL), r.text(n.pageRedirectURL)
		c.price, c.hash = r.amount(n.price), r.text(n.hash)
	case opCancel:
		c.cancelNote = r.text(n.cancelNote)
		c.price, c.hash = r.amount(n.price), r.text(n.hash)
	case opDestroy:
		c.price, c.hash = r.amount(n.price), r.text(n.hash)
	}
	c.wrongType, c.textPrice = r.wrong, r.textPrice
	return c
}

// reader takes members out of an object and remembers the first that is of
// another type than asked for.
type reader struct {
	members map[string]json.RawMessage
	prefix  string
	wrong   string
	// textPrice tells whether the amount was a string.
	textPrice bool
}

// value is the raw text of a member, nil when it is absent, null or has no name
// in this form.
func (r *reader) value(name string) json.RawMessage {
	v, ok := r.members[name]
	if name == "" || !ok || string(v) == "null" {
		return nil
	}
	return v
}

func (r *reader) setWrong(name string) {
	if r.wrong == "" {
		r.wrong = r.prefix + name
	}
}

// text is a string member.
func (r *reader) text(name string) string {
	v := r.value(name)
	if v == nil {
		return ""
	}
	if v[0] != '"' {
		r.setWrong(name)
		return ""
	}
	return unquote(v)
}

// textOrNothing is a string member whose other types have a code of their own: they
// read as absent.
func (r *reader) textOrNothing(name string) string {
	if v := r.value(name); v != nil && v[0] == '"' {
		return unquote(v)
	}
	return ""
}

// amount is the digits of a price as they were sent, a JSON number or a string:
// never parsed, since the hash is over this very text.
func (r *reader) amount(name string) string {
	v := r.value(name)
	switch {
	case v == nil:
		return ""
	case v[0] == '"':
		r.textPrice = true
		return unquote(v)
	case v[0] == '-' || isDigit(v[0]):
		return string(v)
	}
	r.setWrong(name)
	return ""
}

// object is a member that is an object; one that is not reads as empty.
func (r *reader) object(name string) reader {
	inner := reader{prefix: name + ".", wrong: r.wrong}
	v := r.value(name)
	if v == nil {
		return inner
	}
	members, ok := parseObject(v)
	if !ok && inner.wrong == "" {
		inner.wrong = name
	}
	inner.members = members
	return inner
}

// parseObject splits a JSON object into its members, and refuses what is not
// exactly one: encoding/json alone would match names in any case, take the last
// of two equal names and mend broken UTF-8.
func parseObject(raw []byte) (map[string]json.RawMessage, bool) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, false
		}
		name, ok := t.(string)
		if !ok {
			return nil, false
		}
		if _, twice := members[name]; twice {
			return nil, false
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, false
		}
		members[name] = v
	}
	return members, true
}

func unquote(v json.RawMessage) string {
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "" // cannot be: parseObject has checked it
	}
	return s
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
