package sandbox

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// An operation is the name of an operation, such as bill.create.
type operation string

const (
	opNone        operation = "none"
	opCreate      operation = "bill.create"
	opResend      operation = "bill.resend"
	opRead        operation = "bill.read"
	opDestroy     operation = "bill.destroy"
	opCancel      operation = "bill.cancel"
	opRegister    operation = "mapping.register"
	opMappings    operation = "mapping.list"
	opStatus      operation = "mapping.status"
	opMapMerchant operation = "merchant.map"
	opMerchants   operation = "merchant.list"
)

// operations are all operations of the interface.
var operations = []operation{
	opCreate, opResend, opRead, opDestroy, opCancel, opRegister, opMappings, opStatus, opMapMerchant, opMerchants,
}

// operationOf returns the operation of a path ("Endpoints").
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

// A call is a decoded call of a partner, independent of its form.
type call struct {
	op    operation
	form  form
	base  string // the base of URLs in the reply
	names *fieldNames

	key, member, merchant string
	// The fields of a bill. price has the digits exactly as sent.
	billID, sendType, issuer, product, price, supplyPrice, tax, memberName   string
	phone, message, expireDt, hash, callbackURL, pageRedirectURL, cancelNote string
	// The fields of sub-business operations.
	businessNumber, redirectURL, temporaryCode string

	textPrice bool   // the price was a string
	wrongType string // the path of the first field that does not have its documented type
}

// fieldPath returns the path of a bill's field in the caller's form, for a refusal.
func (c *call) fieldPath(name string) string {
	if c.names.nested(c.op) {
		return "bill." + name
	}
	return name
}

// A result is the result of a call.
type result struct {
	code  string
	field string // of a refusal: the path of the wrong field, or ""
	bill  Bill   // of a successful bill operation
	data  any    // of a successful sub-business operation
}

var succeeded = result{code: codeSuccess}

func refuse(code string) result { return result{code: code} }

func refuseField(code, field string) result { return result{code: code, field: field} }

// fieldNames are the names of the fields in one form. An empty name is a field that the form does not have.
type fieldNames struct {
	apiKey, billID, sendType, issuer, product, price, supplyPrice, tax, memberName string
	phone, message, expireDt, hash, callbackURL, pageRedirectURL, cancelNote       string
	// nested reports whether the bill's fields of an operation are inside the object `bill`.
	nested func(operation) bool
}

// decode decodes a request and never fails: a missing field is empty, and a field of a wrong type is recorded in
// wrongType.
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
		r.text("memberIdx") // only its type is checked: the document does not explain it
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
		c.sendType = sendTalk // the legacy form has no sendType
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

// A reader reads the fields of an object, and records the first one that has a wrong type.
type reader struct {
	members map[string]json.RawMessage
	prefix  string
	wrong   string
	// textPrice is set if the price is a string.
	textPrice bool
}

// value returns the raw JSON of a field, or nil if it is absent, is null, or does not exist in this form.
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

// text returns a field that must be a string.
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

// textOrNothing returns a field whose wrong types have a code of their own. They count as absent.
func (r *reader) textOrNothing(name string) string {
	if v := r.value(name); v != nil && v[0] == '"' {
		return unquote(v)
	}
	return ""
}

// amount returns the digits of a price, a JSON number or a string. It does not parse them, because the hash covers
// exactly these digits.
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

// object returns a reader for a field that must be an object.
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

// parseObject returns the fields of a JSON object. It is stricter than encoding/json, which ignores case in names,
// accepts duplicate names and repairs invalid UTF-8.
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
		return "" // impossible: parseObject has validated it
	}
	return s
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
