package sandbox

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A form is a form of the interface.
type form string

const (
	formV2     form = "v2"
	formLegacy form = "legacy"
)

// formOf returns the form of any path ("Versioning").
func formOf(path string) form {
	if strings.HasPrefix(path, "/if/") {
		return formLegacy
	}
	return formV2
}

// legacyNames are the legacy names of fields with a v2 name ("Bill creation input" to "Approval and payment data"). A
// field that is not here has the same name in both forms. An empty name is a field that the legacy form does not have.
var legacyNames = func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(legacyText) {
		v2, legacy, _ := strings.Cut(strings.TrimSpace(line), " ")
		names[v2] = legacy
	}
	return names
}()

//go:embed legacy.txt
var legacyText string

// name returns the name of a field, or "" if the form does not have it.
func (f form) name(v2 string) string {
	if legacy, differs := legacyNames[v2]; differs && f == formLegacy {
		return legacy
	}
	return v2
}

// A field is a field of a reply: its v2 name and its value, which is a string or raw JSON. A nil value is omitted.
type field struct {
	name  string
	value any
}

// object encodes the fields that the form has.
func (f form) object(fields ...field) json.RawMessage {
	var members [][]byte
	for _, m := range fields {
		if name := f.name(m.name); name != "" && m.value != nil {
			members = append(members, slices.Concat(marshal(name), []byte(":"), marshal(m.value)))
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}"))
}

// v2Envelope is the reply of every v2 and sub-business operation ("Response envelope").
type v2Envelope struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// pick returns the fields with some names, in the order of the names.
func pick(names string, values map[string]any) (fields []field) {
	for name := range strings.FieldsSeq(names) {
		fields = append(fields, field{name, values[name]})
	}
	return fields
}

// success encodes the reply to a call that was carried out ("Bill operations"). In legacy a read has no code and no
// msg, as in the document's example.
func (s *Service) success(c *call) []byte {
	fields := s.reply(c)
	if c.form == formLegacy {
		if c.op.name != opRead {
			fields = append([]field{{"code", codeSuccess}, {"msg", messageOf(codeSuccess)}}, fields...)
		}
		return c.form.object(fields...)
	}
	if fields != nil {
		c.data = c.form.object(fields...)
	}
	return marshal(v2Envelope{codeSuccess, messageOf(codeSuccess), c.data})
}

// reply returns the fields of the reply to a bill operation, or nil.
func (s *Service) reply(c *call) []field {
	values, names := s.record(c.form, &c.found), c.op.reply
	switch {
	case c.op.name == opRead:
		return pick(recordFields, values)
	case !strings.HasPrefix(c.op.name, "bill."):
		return nil
	}
	values["member"], values["merchant"], values["hash"] = c.Member, c.Merchant, c.hash
	if c.form == formLegacy {
		names = c.op.legacyReply
		if s.opt.NoLegacyShortURL {
			delete(values, "shortUrl")
		}
		if s.opt.SwapLegacySend && c.op.name == opCreate {
			values["member"], values["merchant"] = c.Merchant, c.Member
		}
	}
	return pick(names, values)
}

// eachText calls do for each text of a Bill, an Approval or a Merchant, with its v2 names, which are in the tag v2.
func eachText(of any, do func(v2 string, text *string)) {
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		for name := range strings.FieldsSeq(v.Type().Field(i).Tag.Get("v2")) {
			do(name, v.Field(i).Addr().Interface().(*string))
		}
	}
}

// recordFields are those of a read, in their order ("Approval and payment data").
const recordFields = "apiKey billId catId apprPayType apprCardType apprDt apprOriginDt apprPrice apprIssuer " +
	"apprIssuerCd apprIssuerNum apprAcquirerCd apprAcquirerNm apprNum apprOriginNum apprResCd apprMonthly apprState " +
	"apprCashNum apprCashTrader apprCashIssuanceNumber apprCardMerchantNum dscTxNum cardType apprSign udItem"

// record returns the values of a read by their fields, and those of the create. For an unpaid bill those of the payment
// are empty. Fields that the document does not call numbers are strings.
func (s *Service) record(f form, b *Bill) map[string]any {
	var a Approval
	var price, outcome, payType, cashClass, at string
	if b.Approval != nil {
		a = *b.Approval
		price, outcome, payType, at = b.Price, codeSuccess, strconv.Itoa(slices.Index(methods, a.Method)), stamp(a.At)
		cashClass = v2CashClasses[a.CashClass]
	}
	number := s.number
	if f == formLegacy {
		payType, cashClass, number = a.Method, a.CashClass, func(text string) any { return text }
	}
	values := map[string]any{
		"apprPayType": number(payType), "apprDt": number(at), "apprOriginDt": number(at), "apprPrice": price,
		"apprNum": a.Num, "apprResCd": outcome, "apprCashTrader": cashClass, "apprSign": "",
		"udItem": rawJSON("null"), // the document allows null
	}
	if b.Cancel != nil {
		cancelled := stamp(b.Cancel.At)
		values["apprDt"], values["apprNum"], values["apprCancelDt"] = number(cancelled), b.Cancel.Num, cancelled
	}
	add := func(name string, text *string) { values[name] = *text }
	eachText(b, add)
	eachText(&a, add)
	return values
}

// number returns a numeric field of a v2 read. digits is empty if there is no value.
func (s *Service) number(digits string) any {
	if digits == "" {
		switch s.opt.NumbersWhenUnpaid {
		case "null":
			return rawJSON("null")
		case "empty":
			return ""
		case "omit":
			return nil
		}
		digits = "0"
	}
	if s.opt.NumbersAsStrings {
		return digits
	}
	return rawJSON(digits)
}

// v2CashClasses are the v2 words for the classes of a cash receipt. The document does not have the words.
var v2CashClasses = map[string]string{cashPersonal: "PERSONAL", cashBusiness: "BUSINESS"}

// failure encodes a refusal. The text never has a value of the request.
func (s *Service) failure(f form, refused refusal) []byte {
	code, text := refused.code, messageOf(refused.code)
	if refused.field != "" {
		text += " (" + refused.field + ")"
	}
	if f == formLegacy {
		// A legacy failure may have another code than that of the catalogue.
		code = cmp.Or(s.opt.LegacyCodes[code], s.opt.LegacyCodes["*"], code)
		return f.object(field{"code", code}, field{"msg", text})
	}
	return marshal(v2Envelope{code, text, nil})
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // all values have JSON
	return bytes.TrimRight(b.Bytes(), "\n")
}

func rawJSON(s string) json.RawMessage { return json.RawMessage(s) }
