package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
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

// legacyNames are the legacy names of fields with a v2 name. A field that is not here has the same name in both
// forms. An empty name is a field that the legacy form does not have.
var legacyNames = map[string]string{
	// "Bill creation input" and "Bill operations"
	"apiKey": "apikey", "billId": "bill_id", "sendType": "", "billIssuer": "bill_issuer", "productName": "product_nm",
	"supplyPrice": "", "tax": "", "memberName": "member_nm", "expireDt": "expire_dt", "callbackUrl": "callbackURL",
	"pageRedirectUrl": "", "cancelReason": "", "shortUrl": "shortURL", "apprCancelDt": "appr_cancel_dt",
	// "Approval and payment data"
	"catId": "appr_cat_id", "apprPayType": "appr_pay_type", "apprCardType": "appr_card_type",
	"apprDt": "appr_dt", "apprOriginDt": "appr_origin_dt", "apprPrice": "appr_price",
	"apprIssuer": "appr_issuer", "apprIssuerCd": "appr_issuer_cd", "apprIssuerNum": "appr_issuer_num",
	"apprAcquirerCd": "appr_acquirer_cd", "apprAcquirerNm": "appr_acquirer_nm", "apprNum": "appr_num",
	"apprOriginNum": "appr_origin_num", "apprResCd": "appr_res_cd", "apprMonthly": "appr_monthly",
	"apprState": "appr_state", "apprCashNum": "appr_cash_num", "apprCashTrader": "appr_cash_trader",
	"apprCashIssuanceNumber": "appr_cash_issuance_number", "apprCardMerchantNum": "", "dscTxNum": "",
	"cardType": "", "apprSign": "", "udItem": "",
}

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

// success encodes the reply to a call that was carried out ("Bill operations"). In legacy a read has no code and no
// msg, as in the document's example.
func (s *Service) success(c *call, res result) []byte {
	text, fields := messageOf(codeSuccess), s.reply(c, &res.bill)
	switch {
	case c.form == formLegacy && c.op == opRead:
		return c.form.object(fields...)
	case c.form == formLegacy:
		return c.form.object(append([]field{{"code", codeSuccess}, {"msg", text}}, fields...)...)
	case fields != nil:
		res.data = c.form.object(fields...)
	}
	return marshal(v2Envelope{codeSuccess, text, res.data})
}

// reply returns the fields of the reply to a bill operation, or nil.
func (s *Service) reply(c *call, b *Bill) []field {
	legacy := c.form == formLegacy
	member, merchant := c.Member, c.Merchant
	if legacy && c.op == opCreate && s.opt.SwapLegacySend {
		member, merchant = merchant, member
	}
	named := []field{
		{"apiKey", c.Partner}, {"member", member}, {"merchant", merchant}, {"billId", b.ID}, {"hash", c.hash},
	}
	switch {
	case c.op == opRead:
		return s.record(c.form, b)
	case c.op == opCancel:
		return append(named, []field{
			{"apprNum", b.Cancel.Num}, {"apprOriginNum", b.Approval.Num}, {"apprCancelDt", stamp(b.Cancel.At)},
		}...)
	case c.op == opCreate && !(legacy && s.opt.NoLegacyShortURL):
		return append(named, field{"shortUrl", b.ShortURL})
	case legacy && (c.op == opCreate || c.op == opDestroy):
		return named
	case !legacy && (c.op == opResend || c.op == opDestroy):
		return []field{{"apiKey", c.Partner}, {"billId", b.ID}}
	}
	return nil
}

// record returns the fields of a read ("Approval and payment data"). For an unpaid bill they are empty. Fields that the
// document does not call numbers are strings.
func (s *Service) record(f form, b *Bill) []field {
	var a Approval
	var price, outcome, payType, cashClass, at string
	if b.Approval != nil {
		a = *b.Approval
		price, outcome, payType, at = b.Price, codeSuccess, strconv.Itoa(s.opt.PayTypes[a.Method]), stamp(a.At)
		cashClass = v2CashClasses[a.CashClass]
	}
	number := s.number
	if f == formLegacy {
		payType, cashClass, number = a.Method, a.CashClass, func(text string) any { return text }
	}
	originAt, num := at, a.Num
	if b.Cancel != nil {
		at, num = stamp(b.Cancel.At), b.Cancel.Num
	}
	return []field{
		{"apiKey", b.Partner},
		{"billId", b.ID},
		{"catId", a.TerminalID},
		{"apprPayType", number(payType)},
		{"apprCardType", a.CardType},
		{"apprDt", number(at)},
		{"apprOriginDt", number(originAt)},
		{"apprPrice", price},
		{"apprIssuer", a.Issuer},
		{"apprIssuerCd", a.IssuerCode},
		{"apprIssuerNum", a.IssuerNum},
		{"apprAcquirerCd", a.AcquirerCode},
		{"apprAcquirerNm", a.Acquirer},
		{"apprNum", num},
		{"apprOriginNum", a.Num},
		{"apprResCd", outcome},
		{"apprMonthly", a.Months},
		{"apprState", b.State},
		{"apprCashNum", a.CashNum},
		{"apprCashTrader", cashClass},
		{"apprCashIssuanceNumber", a.CashRequest},
		{"apprCardMerchantNum", a.MerchantNum},
		{"dscTxNum", a.TxNum},
		{"cardType", a.CardType},
		{"apprSign", ""},
		{"udItem", rawJSON("null")}, // the document allows null
	}
}

// number returns a numeric field of a v2 read. digits is empty if there is no value.
func (s *Service) number(digits string) any {
	if digits == "" {
		switch s.opt.NumbersWhenUnpaid {
		case NullWhenUnpaid:
			return rawJSON("null")
		case EmptyWhenUnpaid:
			return ""
		case OmitWhenUnpaid:
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

// failure encodes a refusal. path is that of the wrong field, or empty. The text never has a value of the request.
func (s *Service) failure(f form, code, path string) []byte {
	text := messageOf(code)
	if path != "" {
		text += " (" + path + ")"
	}
	if f == formLegacy {
		return f.object(field{"code", s.legacyCode(code)}, field{"msg", text})
	}
	return marshal(v2Envelope{code, text, rawJSON(s.opt.FailureData)})
}

// legacyCode returns the code that a legacy failure has instead of one of the catalogue.
func (s *Service) legacyCode(code string) string {
	return cmp.Or(s.opt.LegacyCodes[code], s.opt.LegacyCodes["*"], code)
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only an invalid Options.FailureData can cause this.
		return []byte(`{"code":` + strconv.Quote(codeError) + `}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func rawJSON(s string) json.RawMessage { return json.RawMessage(s) }
