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

// object encodes the fields with some v2 names that the form has, in the order of the names. A value is a text or raw
// JSON; nil is omitted.
func (f form) object(names string, values map[string]any) json.RawMessage {
	var members [][]byte
	for v2 := range strings.FieldsSeq(names) {
		if name, v := f.name(v2), values[v2]; name != "" && v != nil {
			members = append(members, slices.Concat(marshal(name), []byte(":"), marshal(v)))
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

// reply returns the envelope of a code.
func reply(code string, data any) v2Envelope { return v2Envelope{code, messageOf(code), data} }

// success encodes the reply to a call that was carried out ("Bill operations").
func (c *call) success() []byte {
	values := c.opt.record(c.form, &c.found)
	values["hash"], values["code"], values["msg"] = c.texts["hash"], codeSuccess, messageOf(codeSuccess)
	switch {
	case c.form == formLegacy:
		if c.opt.NoLegacyShortURL {
			delete(values, "shortUrl")
		}
		if c.opt.SwapLegacySend && c.op.name == opCreate {
			values["member"], values["merchant"] = c.Merchant, c.Member
		}
		return c.form.object(c.op.legacyReply, values)
	case c.onBill():
		c.data = c.form.object(c.op.reply, values)
	}
	return marshal(reply(codeSuccess, c.data))
}

// eachText calls do for each text of a Bill, an Approval or a Merchant, with its v2 names, which are in the tag v2.
func eachText(of any, do func(v2 string, text *string)) {
	v := reflect.ValueOf(of).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		for name := range strings.FieldsSeq(field.Tag.Get("v2")) {
			do(name, v.FieldByIndex(field.Index).Addr().Interface().(*string))
		}
	}
}

// recordFields are those of a read, in their order ("Approval and payment data").
const recordFields = "apiKey billId catId apprPayType apprCardType apprDt apprOriginDt apprPrice apprIssuer " +
	"apprIssuerCd apprIssuerNum apprAcquirerCd apprAcquirerNm apprNum apprOriginNum apprResCd apprMonthly apprState " +
	"apprCashNum apprCashTrader apprCashIssuanceNumber apprCardMerchantNum dscTxNum cardType apprSign udItem"

// record returns the values of a read by their fields, and those of the create. For an unpaid bill those of the payment
// are empty. Fields that the document does not call numbers are strings.
func (o *Options) record(f form, b *Bill) map[string]any {
	var a Approval
	var price, outcome, payType, cashClass, at string
	if b.Approval != nil {
		a = *b.Approval
		price, outcome, payType, at = b.Price, codeSuccess, strconv.Itoa(slices.Index(methods, a.Method)), stamp(a.At)
		cashClass = v2CashClasses[a.CashClass]
	}
	if f == formLegacy {
		payType, cashClass = a.Method, a.CashClass
	}
	values := map[string]any{
		"apprPayType": o.number(f, payType), "apprDt": o.number(f, at), "apprOriginDt": o.number(f, at),
		"apprPrice": price, "apprNum": a.Num, "apprResCd": outcome, "apprCashTrader": cashClass, "apprSign": "",
		"udItem": rawJSON("null"), // the document allows null
	}
	if b.Cancel != nil {
		at = stamp(b.Cancel.At)
		values["apprDt"], values["apprNum"], values["apprCancelDt"] = o.number(f, at), b.Cancel.Num, at
	}
	add := func(name string, text *string) { values[name] = *text }
	eachText(b, add)
	eachText(&a, add)
	return values
}

// unpaidNumbers are the values of numbers that a bill does not have, besides 0.
var unpaidNumbers = map[string]any{"null": rawJSON("null"), "empty": "", "omit": nil}

// number returns a numeric field of a read: a text in the legacy form. digits is empty if there is no value.
func (o *Options) number(f form, digits string) any {
	shown, special := unpaidNumbers[o.NumbersWhenUnpaid]
	switch {
	case f == formLegacy:
		return digits
	case digits == "" && special:
		return shown
	case o.NumbersAsStrings:
		return cmp.Or(digits, "0")
	}
	return rawJSON(cmp.Or(digits, "0"))
}

// v2CashClasses are the v2 words for the classes of a cash receipt. The document does not have the words.
var v2CashClasses = map[string]string{cashPersonal: "PERSONAL", cashBusiness: "BUSINESS"}

// failure encodes a refusal. The text never has a value of the request.
func (o *Options) failure(f form, x *Exchange) []byte {
	code, text := x.Code, messageOf(x.Code)
	if x.Field != "" {
		text += " (" + x.Field + ")"
	}
	if f == formLegacy {
		// A legacy failure may have another code than that of the catalogue.
		code = cmp.Or(o.LegacyCodes[code], o.LegacyCodes["*"], code)
		return f.object("code msg", map[string]any{"code": code, "msg": text})
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
