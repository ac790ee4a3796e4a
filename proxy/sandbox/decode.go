package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"unicode/utf8"
)

// The names of the operations.
const (
	opCreate      = "bill.create"
	opResend      = "bill.resend"
	opRead        = "bill.read"
	opDestroy     = "bill.destroy"
	opCancel      = "bill.cancel"
	opRegister    = "mapping.register"
	opMappings    = "mapping.list"
	opStatus      = "mapping.status"
	opMapMerchant = "merchant.map"
	opMerchants   = "merchant.list"
)

// An operation is an operation of the interface, with its path in each form ("Endpoints"). Those on sub-businesses
// have one.
type operation struct {
	name, v2, legacy string
	run              func(*Service, *tables, *call) result // after check
}

var operations = []operation{
	{opCreate, "/bill", "/if/bill/send", (*Service).create},
	{opResend, "/bill/resend", "/if/bill/resend", (*Service).resend},
	{opRead, "/bill/read", "/if/bill/read", (*Service).findBill},
	{opDestroy, "/bill/destroy", "/if/bill/destroy", (*Service).destroy},
	{opCancel, "/bill/cancel", "/if/bill/cancel", (*Service).cancel},
	{opRegister, "/auth/mapping", "/auth/mapping", (*Service).register},
	{opMappings, "/read/mapping", "/read/mapping", (*Service).listMappings},
	{opStatus, "/auth/mapping/status", "/auth/mapping/status", (*Service).status},
	{opMapMerchant, "/auth/merchant/mapping", "/auth/merchant/mapping", (*Service).mapMerchant},
	{opMerchants, "/read/merchant", "/read/merchant", (*Service).listMerchants},
}

// A call is a decoded call of a partner, independent of its form.
type call struct {
	Bill // what the call has of a bill; the price has the digits exactly as sent
	op   string
	form form
	base string // the base of URLs in the reply

	partner *Partner // set by check

	hash, cancelNote                           string
	businessNumber, redirectURL, temporaryCode string // of sub-business operations

	textPrice bool   // the price was a string
	wrongType string // the path of the first field that does not have its documented type
}

// nested reports whether the bill's fields are inside the object `bill`.
func (c *call) nested() bool { return c.form == formV2 || c.op == opCreate }

// path returns the path of a bill's field in the caller's form, for a refusal.
func (c *call) path(v2 string) string {
	if c.nested() {
		return "bill." + c.form.name(v2)
	}
	return c.form.name(v2)
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

// invalid refuses a field of the bill.
func (c *call) invalid(v2 string) result { return refuseField(codeInvalid, c.path(v2)) }

// decode decodes a request and never fails: a missing field is empty, and a field of a wrong type is recorded in
// wrongType.
func decode(op string, f form, root map[string]json.RawMessage) call {
	r := reader{form: f, members: root}
	c := call{op: op, form: f}
	c.Partner = r.textOrNothing("apiKey")
	switch op {
	case opRegister:
		c.Member, c.Merchant = r.text("memberId"), r.text("merchantId")
		c.businessNumber = r.text("businessNumber")
		c.CallbackURL, c.redirectURL = r.text("callbackUrl"), r.text("redirectUrl")
	case opMapMerchant:
		c.Member, c.Merchant = r.text("memberId"), r.text("merchantId")
		c.temporaryCode = r.text("temporaryMerchantCd")
		r.text("memberIdx") // only its type is checked: the document does not explain it
	case opMappings, opMerchants:
	case opStatus:
		c.Member, c.Merchant = r.text("member"), r.text("merchant")
	default:
		c.Member, c.Merchant = r.text("member"), r.text("merchant")
		c.decodeBill(&r)
	}
	c.wrongType, c.textPrice = r.wrong, r.textPrice
	return c
}

func (c *call) decodeBill(r *reader) {
	if c.nested() {
		r.enter("bill")
	}
	c.ID = r.text("billId")
	switch c.op {
	case opRead, opResend:
		return
	case opCancel:
		c.cancelNote = r.text("cancelReason")
	case opCreate:
		c.SendType = sendTalk // the legacy form has no sendType
		if c.form == formV2 {
			c.SendType = r.textOrNothing("sendType")
		}
		c.Issuer, c.Product, c.MemberName = r.text("billIssuer"), r.text("productName"), r.text("memberName")
		c.SupplyPrice, c.Tax = r.text("supplyPrice"), r.text("tax")
		c.Phone, c.Message, c.ExpireDt = r.text("phone"), r.text("message"), r.text("expireDt")
		c.CallbackURL, c.PageRedirectURL = r.text("callbackUrl"), r.text("pageRedirectUrl")
	}
	c.Price, c.hash = r.amount("price"), r.text("hash")
}

// A reader reads the fields of an object by their v2 names, and records the first one that has a wrong type.
type reader struct {
	form    form
	members map[string]json.RawMessage
	prefix  string
	wrong   string
	// textPrice is set if the price is a string.
	textPrice bool
}

// value returns the raw JSON of a field, or nil if it is absent, is null, or does not exist in this form.
func (r *reader) value(v2 string) json.RawMessage {
	name := r.form.name(v2)
	v := r.members[name]
	if name == "" || string(v) == "null" {
		return nil
	}
	return v
}

func (r *reader) setWrong(v2 string) {
	r.wrong = cmp.Or(r.wrong, r.prefix+r.form.name(v2))
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

// enter continues with the fields of a field that must be an object.
func (r *reader) enter(name string) {
	var inner map[string]json.RawMessage
	if v := r.value(name); v != nil {
		var ok bool
		if inner, ok = parseObject(v); !ok {
			r.setWrong(name)
		}
	}
	r.members, r.prefix = inner, name+"."
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
