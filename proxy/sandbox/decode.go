package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// The names of operations that have rules of their own.
const (
	opCreate      = "bill.create"
	opRead        = "bill.read"
	opRegister    = "mapping.register"
	opMappings    = "mapping.list"
	opStatus      = "mapping.status"
	opMapMerchant = "merchant.map"

	opNone = "none" // a path or a method that no operation has
)

// An operation is an operation of the interface, with its path in each form ("Endpoints"). Those on sub-businesses
// have one. Fields have their v2 names; a form that does not have a field ignores it.
type operation struct {
	name, v2, legacy string
	run              func(*call) error // after check
	request          string            // the fields beside apiKey; those after bill may be inside it
	reply            string            // the fields of a success; an unpaid bill lacks some
	legacyReply      string            // with those of the envelope, which a read of the document's example lacks
}

const (
	ofBill      = "member merchant bill billId "
	named       = "apiKey member merchant billId hash "
	legacyNamed = "code msg " + named
	cancelled   = "apprNum apprOriginNum apprCancelDt"
)

var operations = []operation{
	{
		opCreate, "/bill", "/if/bill/send", (*call).create,
		ofBill + "sendType billIssuer productName memberName supplyPrice tax phone message expireDt callbackUrl " +
			"pageRedirectUrl price hash",
		named + "shortUrl", legacyNamed + "shortUrl",
	},
	{"bill.resend", "/bill/resend", "/if/bill/resend", (*call).move, ofBill, "apiKey billId", "code msg"},
	{opRead, "/bill/read", "/if/bill/read", (*call).findBill, ofBill, recordFields, recordFields},
	{
		"bill.destroy", "/bill/destroy", "/if/bill/destroy", (*call).move, ofBill + "price hash",
		"apiKey billId", legacyNamed,
	},
	{
		"bill.cancel", "/bill/cancel", "/if/bill/cancel", (*call).move, ofBill + "cancelReason price hash",
		named + cancelled, legacyNamed + cancelled,
	},
	{
		opRegister, "/auth/mapping", "", (*call).register,
		"memberId merchantId businessNumber callbackUrl redirectUrl", "url", "",
	},
	{
		opMappings, "/read/mapping", "", (*call).list, "",
		"partnerMember partnerMerchant companyNm branchNm businessNumber ceoName email mappingStatus regDt updDt", "",
	},
	{
		opStatus, "/auth/mapping/status", "", (*call).status, "member merchant",
		"apiKey member merchant companyNm branchNm businessNumber reviewStatus", "",
	},
	{
		opMapMerchant, "/auth/merchant/mapping", "", (*call).mapMerchant,
		"memberId merchantId temporaryMerchantCd memberIdx", "", "", // only the type of memberIdx is checked
	},
	{
		"merchant.list", "/read/merchant", "", (*call).list, "",
		"memberId merchantId companyName branchName ceoName email businessNumber", "",
	},
}

// operationOf returns the operation with a path, or one with the name "none".
func operationOf(path string) operation {
	for _, o := range operations {
		if path == o.v2 || path == o.legacy && path != "" {
			return o
		}
	}
	return operation{name: opNone}
}

// A call is a decoded call of a partner, independent of its form.
type call struct {
	Bill      // what the call has of a bill; the price has the digits exactly as sent
	op        operation
	form      form
	texts     map[string]string // the texts of all fields, by their v2 names
	wrongType string            // the path of the first field that does not have its documented type
	notObject bool              // the body is not a JSON object, or has a duplicate name

	// While the call is answered:
	x       *Exchange
	opt     *Options
	t       *tables
	partner *Partner // set by check

	// The result of a success:
	found Bill // of a bill operation
	data  any  // of a sub-business operation
}

// onBill reports whether the operation is one on a bill.
func (c *call) onBill() bool { return strings.HasPrefix(c.op.name, "bill.") }

// checks records that a check begins. It returns true.
func (c *call) checks(name string) bool {
	c.x.Checked = append(c.x.Checked, name)
	return true
}

// nested reports whether the bill's fields are inside the object `bill`.
func (c *call) nested() bool { return c.form == formV2 || c.op.name == opCreate }

// An invalid is the path of a wrong field, with which a call is refused.
type invalid string

func (invalid) Error() string { return codeInvalid }

// invalid refuses a field of the bill.
func (c *call) invalid(v2 string) error {
	path := c.form.name(v2)
	if c.nested() {
		path = "bill." + path
	}
	return invalid(path)
}

// decode decodes a request and never fails: a missing field is empty, a field of a wrong type is recorded in
// wrongType, and a body that is not an object in notObject.
func decode(op operation, f form, body []byte) *call {
	members, isObject := parseObject(body)
	c := &call{op: op, form: f, notObject: !isObject, texts: map[string]string{}}
	if f == formLegacy {
		c.SendType = sendTalk // the legacy form has no sendType
	}
	prefix := ""
	for name := range strings.FieldsSeq("apiKey " + op.request) {
		own := f.name(name)
		v, path := members[own], prefix+own
		switch given := own != "" && v != nil && string(v) != "null"; {
		case name == "bill" && c.nested():
			var ok bool
			members, ok = parseObject(v)
			prefix = "bill."
			if ok || !given {
				continue
			}
		case name == "bill", !given:
			continue
		case v[0] == '"':
			var text string
			_ = json.Unmarshal(v, &text) // parseObject has validated it
			c.texts[name] = text
			continue
		case name == "apiKey" || name == "sendType":
			continue // a wrong type has a code of its own, that of a missing field
		case name == "price" && (v[0] == '-' || isDigits(string(v[:1]))):
			c.texts[name] = string(v) // not parsed: the hash covers exactly these digits
			continue
		}
		c.wrongType = cmp.Or(c.wrongType, path)
	}
	eachText(&c.Bill, func(name string, text *string) {
		if given, ok := c.texts[name]; ok {
			*text = given
		}
	})
	return c
}

// parseObject returns the fields of a JSON object. It is stricter than encoding/json, which ignores case in names,
// accepts duplicate names and repairs invalid UTF-8.
func parseObject(raw []byte) (map[string]json.RawMessage, bool) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, _ := dec.Token(); t != json.Delim('{') {
		return nil, false
	}
	members := map[string]json.RawMessage{}
	for n := 1; dec.More(); n++ {
		name, _ := dec.Token() // all errors are impossible: raw is valid
		var v json.RawMessage
		_ = dec.Decode(&v)
		if members[name.(string)] = v; len(members) < n {
			return nil, false
		}
	}
	return members, true
}
