package sandbox_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A model predicts the state and the replies of the service. It is written from the document and the field notes only.
type model struct {
	minimum      string // the minimum amount of the environment, beside the general minimum of 100 ("Limits")
	now          time.Time
	maintenance  bool
	bills        []*modelBill // in the order of creation
	points       map[string]int
	networks     []string         // the next answers
	endCallbacks bool             // cancels and destroys have callbacks
	callbacks    []*modelCallback // in the order of creation
}

// A modelBill is a bill of the model.
type modelBill struct {
	key, member, merchant, id, form string

	input        map[string]string // the input of the create, by v2 names
	state        string
	messages     int
	failed       []string // the codes of declined payments
	paid         *modelPayment
	gone         *modelCancel
	firstRead    map[string]string // the fields of the first read after the payment, by legacy names
	lastCompared map[string]string // the reads by form when they were last compared; nil after a change
}

// A modelCallback is a callback, with its body once it was seen.
type modelCallback struct {
	b           *modelBill
	state, body string
}

type modelPayment struct {
	method, months, class, number string
	at                            time.Time
}

type modelCancel struct {
	num, reason string
	at          time.Time
}

// A contract has the restrictions of a partner ("Authentication", 5, "Errors" and "Limits").
type contract struct {
	refused                        string // the code of every bill operation
	strict, prepaid, noTalk, noURL bool
}

var contracts = map[string]contract{
	demoKey:            {},
	"demo-strict-key":  {strict: true},
	"demo-nopoint-key": {prepaid: true},
	"demo-notalk-key":  {noTalk: true},
	"demo-nourl-key":   {noURL: true},
	"demo-removed-key": {refused: "PARTNER_005"},
	"demo-expired-key": {refused: "PARTNER_006"},
	"demo-nobill-key":  {refused: "PARTNER_007"},
}

// payTypes has the legacy words and v2 numbers of Options.PayTypes.
var payTypes = map[string]string{"SIMPLE_PAY": "0", "CARD_VAN": "1", "KEYIN": "2", "OFFLINE_CARD": "3", "OFFLINE_CASH": "4"}

// How the forms differ in a value of "Approval and payment data".
const (
	asIs   = ""       // the same text
	number = "number" // 14 digits, a number in v2; 0 where there is none
	method = "method" // a word in legacy, a number in v2
	class  = "class"  // 0 or 1 in legacy, a word in v2
)

// readFields are the fields of "Approval and payment data".
var readFields = []struct{ legacy, v2, as string }{
	{"apikey", "apiKey", asIs},
	{"bill_id", "billId", asIs},
	{"appr_cat_id", "catId", asIs},
	{"appr_pay_type", "apprPayType", method},
	{"appr_card_type", "apprCardType", asIs},
	{"appr_dt", "apprDt", number},
	{"appr_origin_dt", "apprOriginDt", number},
	{"appr_price", "apprPrice", asIs},
	{"appr_issuer", "apprIssuer", asIs},
	{"appr_issuer_cd", "apprIssuerCd", asIs},
	{"appr_issuer_num", "apprIssuerNum", asIs},
	{"appr_acquirer_cd", "apprAcquirerCd", asIs},
	{"appr_acquirer_nm", "apprAcquirerNm", asIs},
	{"appr_num", "apprNum", asIs},
	{"appr_origin_num", "apprOriginNum", asIs},
	{"appr_res_cd", "apprResCd", asIs},
	{"appr_monthly", "apprMonthly", asIs},
	{"appr_state", "apprState", asIs},
	{"appr_cash_num", "apprCashNum", asIs},
	{"appr_cash_trader", "apprCashTrader", class},
	{"appr_cash_issuance_number", "apprCashIssuanceNumber", asIs},
}

// approvalV2Only are the fields of "Approval and payment data" that only v2 has.
var approvalV2Only = []string{"apprCardMerchantNum", "dscTxNum", "cardType", "apprSign", "udItem"}

// replyFields are the fields of a success beside its envelope ("Endpoints"). shortURL in legacy is from the field notes.
var replyFields = map[string][]string{
	"v2 create":      {"apiKey", "member", "merchant", "billId", "hash", "shortUrl"},
	"v2 resend":      {"apiKey", "billId"},
	"v2 destroy":     {"apiKey", "billId"},
	"v2 cancel":      {"apiKey", "member", "merchant", "billId", "hash", "apprNum", "apprOriginNum", "apprCancelDt"},
	"legacy create":  {"apikey", "member", "merchant", "bill_id", "hash", "shortURL"},
	"legacy resend":  {},
	"legacy destroy": {"apikey", "member", "merchant", "bill_id", "hash"},
	"legacy cancel":  {"apikey", "member", "merchant", "bill_id", "hash", "appr_num", "appr_origin_num", "appr_cancel_dt"},
}

var (
	korea        = time.FixedZone("", 9*60*60)
	mobileNumber = regexp.MustCompile(`^01\d-?\d{3,4}-?\d{4}$`)
	webAddress   = regexp.MustCompile(`^https?://[^/:]+`)
	onlyDigits   = regexp.MustCompile(`^\d+$`)
)

// fieldText returns a field of a call as text, or "" if the form does not have it.
func fieldText(q testCall, name string) string {
	if q.form == "legacy" && legacyName[name] == "" {
		return ""
	}
	switch v := q.bill[name].(type) {
	case string:
		return v
	case json.RawMessage:
		return strings.Trim(strings.TrimSuffix(string(v), "null"), `"`)
	}
	return ""
}

// typesValid reports whether every field has its documented type: a string, but a price may be a number in both forms
// (field notes, More of what public users do). A wrong type of a send type has a code of its own.
func typesValid(q testCall) bool {
	for name, v := range q.bill {
		raw, isRaw := v.(json.RawMessage)
		if name == "sendType" || q.form == "legacy" && legacyName[name] == "" {
			continue
		}
		number := name == "price"
		if isRaw && string(raw) != "null" && raw[0] != '"' && !(number && (raw[0] == '-' || unicode.IsDigit(rune(raw[0])))) {
			return false
		}
	}
	return true
}

func (m *model) find(key, id string) *modelBill {
	for _, b := range m.bills {
		if b.key == key && b.id == id {
			return b
		}
	}
	return nil
}

// expectedCode returns the code that a call must get. The checks are in the order of the package documentation.
func (m *model) expectedCode(q testCall) string {
	c, known := contracts[q.key]
	b := m.find(q.key, fieldText(q, "billId"))
	switch {
	case m.maintenance:
		return "MAINTAINED_METHOD"
	case q.key == "" || len(q.key) > 32:
		return "PARTNER_002"
	case !known:
		return "PARTNER_003"
	case c.refused != "":
		return c.refused
	case !typesValid(q) || q.member == "" || q.merchant == "" || utf8.RuneCountInString(q.member) > 60 || utf8.RuneCountInString(q.merchant) > 60:
		return "VALIDATION_001"
	case c.strict && (q.member != "demo-member" || q.merchant != "demo-store"):
		return "PARTNER_003"
	case fieldText(q, "billId") == "":
		return "VALIDATION_001"
	case q.op == "create":
		return m.expectedCreateCode(q, c, b)
	case (q.op == "destroy" || q.op == "cancel") && expectedHashCode(q, "") != "":
		return expectedHashCode(q, "")
	case b == nil || b.member != q.member || b.merchant != q.merchant:
		return "BILL_003"
	}
	switch q.op {
	case "resend":
		switch {
		case b.state != "W":
			return "BILL_006"
		case c.prepaid && m.points[q.key] == 0:
			return "POINT_001"
		}
	case "destroy", "cancel":
		switch {
		case b.state != map[string]string{"destroy": "W", "cancel": "F"}[q.op]:
			return "BILL_002"
		case amount(fieldText(q, "price")).Cmp(amount(b.input["price"])) != 0:
			return "VALIDATION_001" // only the whole amount is accepted; the code is an open point
		case q.op == "cancel":
			return m.nextNetworkAnswer(true, b.paid.method)
		}
	}
	return "0000"
}

// expectedCreateCode follows "Bill creation input", "Errors" and "Limits".
func (m *model) expectedCreateCode(q testCall, c contract, known *modelBill) string {
	id, expires, address := fieldText(q, "billId"), fieldText(q, "expireDt"), fieldText(q, "callbackUrl")
	talk := q.form == "legacy" || fieldText(q, "sendType") == "TALK"
	_, noDate := time.Parse("2006-01-02", expires)
	switch {
	case utf8.RuneCountInString(id) > 20:
		return "BILL_007"
	case strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' }):
		return "VALIDATION_001"
	case !talk && fieldText(q, "sendType") != "URL":
		return "BILL_008"
	case fieldText(q, "phone") != "" && !mobileNumber.MatchString(fieldText(q, "phone")):
		return "VALIDATION_004"
	case expires != "" && (noDate != nil || m.past(expires)), address != "" && !webAddress.MatchString(address):
		return "VALIDATION_001"
	}
	if code := expectedHashCode(q, fieldText(q, "phone")); code != "" {
		return code
	}
	switch price := amount(fieldText(q, "price")); {
	case price.Cmp(amount("100")) < 0:
		return "PAYMENT_003"
	case price.Cmp(amount(m.minimum)) < 0:
		return "PAYMENT_005"
	case talk && c.noTalk:
		return "BILL_009"
	case !talk && c.noURL:
		return "BILL_010"
	case known != nil:
		return "BILL_001"
	case talk && c.prepaid && m.points[q.key] == 0:
		return "POINT_001"
	}
	return "0000"
}

// expectedHashCode follows "Authentication", 3, and the field notes: only a create has a phone.
func expectedHashCode(q testCall, phone string) string {
	switch price, hash := fieldText(q, "price"), fieldText(q, "hash"); {
	case !onlyDigits.MatchString(price) || hash == "":
		return "VALIDATION_001"
	case hash != sign(fieldText(q, "billId"), phone, price):
		return "VALIDATION_002"
	}
	return ""
}

// nextNetworkAnswer removes and returns the answer of the networks to a payment or a cancel.
func (m *model) nextNetworkAnswer(cancel bool, method string) string {
	for i, code := range m.networks {
		if code == "PAYMENT_002" && !cancel || code == "BILL_004" && method != "KEYIN" {
			continue
		}
		m.networks = slices.Delete(m.networks, i, i+1)
		return code
	}
	return "0000"
}

// do applies a successful call. fresh is the approval number of a cancel.
func (m *model) do(q testCall, fresh string) {
	b := m.find(q.key, fieldText(q, "billId"))
	switch q.op {
	case "create":
		b = &modelBill{key: q.key, member: q.member, merchant: q.merchant, id: fieldText(q, "billId"), form: q.form, state: "W", input: map[string]string{}}
		for _, name := range slices.Concat(slices.Collect(maps.Keys(legacyName)), []string{"sendType", "supplyPrice", "tax", "pageRedirectUrl"}) {
			b.input[name] = fieldText(q, name)
		}
		if q.form == "legacy" {
			b.input["sendType"] = "TALK"
		}
		m.bills = append(m.bills, b)
	case "destroy":
		b.state = "D"
	case "cancel":
		b.state, b.gone = "C", &modelCancel{num: fresh, reason: fieldText(q, "cancelReason"), at: m.now}
	}
	if m.endCallbacks && (q.op == "destroy" || q.op == "cancel") {
		m.notify(b)
	}
	b.lastCompared = nil
	if q.op == "create" && b.input["sendType"] == "TALK" || q.op == "resend" {
		b.messages++
		if contracts[q.key].prepaid {
			m.points[q.key]--
		}
	}
}

// pay applies a payment, and returns the HTTP status that the control API must return.
func (m *model) pay(b *modelBill, p payment) int {
	card := p.Method != "SIMPLE_PAY" && p.Method != "OFFLINE_CASH"
	class := map[string]string{"personal": "0", "business": "1", "self": "0"}[p.CashReceipt]
	switch {
	case b == nil:
		return 404
	case b.state != "W" || m.expired(b):
		return 409
	case payTypes[p.Method] == "" || p.Months > 99 || card && p.CashReceipt != "" || !card && p.Months != 0,
		p.CashReceipt != "" && class == "":
		return 400
	}
	b.lastCompared = nil
	if code := m.nextNetworkAnswer(false, p.Method); code != "0000" {
		b.failed = append(b.failed, code)
		return 409
	}
	b.state, b.paid = "F", &modelPayment{method: p.Method, months: fmt.Sprintf("%02d", p.Months), class: class, number: p.CashNumber, at: m.now}
	if p.CashReceipt == "self" {
		b.paid.number = "0100001234" // the number for self-issued receipts
	}
	m.notify(b)
	return 200
}

// notify adds the callback of a bill's state, if the bill has an address.
func (m *model) notify(b *modelBill) {
	if b.input["callbackUrl"] != "" {
		m.callbacks = append(m.callbacks, &modelCallback{b: b, state: b.state})
	}
}

// expired reports whether the day is over in Korea.
func (m *model) expired(b *modelBill) bool {
	return b.input["expireDt"] != "" && m.past(b.input["expireDt"])
}

func (m *model) past(day string) bool { return m.now.In(korea).Format("2006-01-02") > day }

// shown returns the legacy read of a bill: its state alone if it is unpaid, else the payment. Values that the document
// does not determine are those of the first read after the payment.
func (b *modelBill) shown() map[string]string {
	show := map[string]string{}
	for _, p := range readFields {
		show[p.legacy] = ""
	}
	if b.paid != nil {
		maps.Copy(show, b.firstRead)
		at := b.paid.at.In(korea).Format("20060102150405")
		maps.Copy(show, map[string]string{
			"appr_price": b.input["price"], "appr_pay_type": b.paid.method, "appr_dt": at, "appr_origin_dt": at, "appr_res_cd": "0000",
			"appr_monthly": b.paid.months, "appr_cash_trader": b.paid.class, "appr_cash_issuance_number": b.paid.number,
		})
	}
	if b.gone != nil {
		show["appr_num"], show["appr_dt"] = b.gone.num, b.gone.at.In(korea).Format("20060102150405")
	}
	show["apikey"], show["bill_id"], show["appr_state"] = b.key, b.id, b.state
	return show
}

func amount(digits string) *big.Int {
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		panic("not an amount: " + digits)
	}
	return n
}

// inV2 converts a legacy value to v2.
func inV2(as, text string) any {
	switch {
	case as == class:
		return map[string]string{"": "", "0": "PERSONAL", "1": "BUSINESS"}[text]
	case as == asIs:
		return text
	case text == "":
		return json.Number("0")
	case as == method:
		return json.Number(payTypes[text])
	}
	return json.Number(text)
}
