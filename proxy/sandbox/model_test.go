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

// A model is what the document and the field notes say that the service remembers. It is written from them and
// from nothing else, and small enough to be read beside them.
type model struct {
	minimum     string // amount of a create beside that of 100 ("Limits")
	now         time.Time
	maintenance bool
	bills       []*modelBill // in the order they were made
	points      map[string]int
	networks    []string       // what they say next
	ends        bool           // cancels and destroys are called back too
	notices     []*modelNotice // in the order they were made
}

// A modelBill is a bill as its partner knows it.
type modelBill struct {
	key, member, merchant, id, form string

	said     map[string]string // the creation input by its v2 names
	state    string
	messages int
	failed   []string // codes of the payments that were refused
	paid     *modelPayment
	gone     *modelCancel
	learned  map[string]string // what the first read after the payment showed, by legacy names
	proved   map[string]string // what it showed, by form, when all of that was compared last; nil after a change
}

// A modelNotice is a callback, and what it carries as soon as that was seen.
type modelNotice struct {
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

// A contract is what "Authentication", 5, "Errors" and "Limits" let a partner do.
type contract struct {
	refused                        string // code of every bill operation
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

// payTypes pairs the words of legacy with the numbers of v2, as Options.PayTypes says.
var payTypes = map[string]string{"SIMPLE_PAY": "0", "CARD_VAN": "1", "KEYIN": "2", "OFFLINE_CARD": "3", "OFFLINE_CASH": "4"}

// How a value of "Approval and payment data" is told in the two forms.
const (
	asIs   = ""       // the same text
	number = "number" // 14 digits, a number in v2; 0 where there is none
	method = "method" // a word, a number in v2
	class  = "class"  // 0 and 1, words in v2
)

// readFields is the table of "Approval and payment data".
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

// approvalV2Only are the fields of the same table that legacy has none for.
var approvalV2Only = []string{"apprCardMerchantNum", "dscTxNum", "cardType", "apprSign", "udItem"}

// replyFields are what a success answers with beside its envelope ("Endpoints"). Legacy has a shortURL by the
// field notes.
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

// said is a field of a call as text; what its form has no place for is not said.
func said(q ask, name string) string {
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

// typed tells whether every field is of its documented type: a string, and a price may be a number in both forms
// (field notes, More of what public users do). A send type has a code of its own for what it is not.
func typed(q ask) bool {
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

// judge is the code that a call must get. The order of the refusals is the one that the package names: key,
// contract, field types, store, field values, hash, amount, bill type, then the bill.
func (m *model) judge(q ask) string {
	c, known := contracts[q.key]
	b := m.find(q.key, said(q, "billId"))
	switch {
	case m.maintenance:
		return "MAINTAINED_METHOD"
	case q.key == "" || len(q.key) > 32:
		return "PARTNER_002"
	case !known:
		return "PARTNER_003"
	case c.refused != "":
		return c.refused
	case !typed(q) || q.member == "" || q.merchant == "" || utf8.RuneCountInString(q.member) > 60 || utf8.RuneCountInString(q.merchant) > 60:
		return "VALIDATION_001"
	case c.strict && (q.member != "demo-member" || q.merchant != "demo-store"):
		return "PARTNER_003"
	case said(q, "billId") == "":
		return "VALIDATION_001"
	case q.op == "create":
		return m.judgeCreate(q, c, b)
	case (q.op == "destroy" || q.op == "cancel") && judgeSigned(q, "") != "":
		return judgeSigned(q, "")
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
		case amount(said(q, "price")).Cmp(amount(b.said["price"])) != 0:
			return "VALIDATION_001" // the whole amount or nothing; which code is an open point
		case q.op == "cancel":
			return m.ask(true, b.paid.method)
		}
	}
	return "0000"
}

// judgeCreate is "Bill creation input", "Errors" and "Limits".
func (m *model) judgeCreate(q ask, c contract, known *modelBill) string {
	id, expires, address := said(q, "billId"), said(q, "expireDt"), said(q, "callbackUrl")
	talk := q.form == "legacy" || said(q, "sendType") == "TALK"
	_, noDate := time.Parse("2006-01-02", expires)
	switch {
	case utf8.RuneCountInString(id) > 20:
		return "BILL_007"
	case strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' }):
		return "VALIDATION_001"
	case !talk && said(q, "sendType") != "URL":
		return "BILL_008"
	case said(q, "phone") != "" && !mobileNumber.MatchString(said(q, "phone")):
		return "VALIDATION_004"
	case expires != "" && (noDate != nil || m.past(expires)), address != "" && !webAddress.MatchString(address):
		return "VALIDATION_001"
	}
	if code := judgeSigned(q, said(q, "phone")); code != "" {
		return code
	}
	switch price := amount(said(q, "price")); {
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

// judgeSigned is "Authentication", 3, with what the field notes add: only a create has a phone to sign.
func judgeSigned(q ask, phone string) string {
	switch price, hash := said(q, "price"), said(q, "hash"); {
	case !onlyDigits.MatchString(price) || hash == "":
		return "VALIDATION_001"
	case hash != sign(said(q, "billId"), phone, price):
		return "VALIDATION_002"
	}
	return ""
}

// ask is what the networks say of a payment or of a cancel, which is then said.
func (m *model) ask(cancel bool, method string) string {
	for i, code := range m.networks {
		if code == "PAYMENT_002" && !cancel || code == "BILL_004" && method != "KEYIN" {
			continue
		}
		m.networks = slices.Delete(m.networks, i, i+1)
		return code
	}
	return "0000"
}

// do is what a call that succeeds changes; fresh is the approval number of a cancel.
func (m *model) do(q ask, fresh string) {
	b := m.find(q.key, said(q, "billId"))
	switch q.op {
	case "create":
		b = &modelBill{key: q.key, member: q.member, merchant: q.merchant, id: said(q, "billId"), form: q.form, state: "W", said: map[string]string{}}
		for _, name := range slices.Concat(slices.Collect(maps.Keys(legacyName)), []string{"sendType", "supplyPrice", "tax", "pageRedirectUrl"}) {
			b.said[name] = said(q, name)
		}
		if q.form == "legacy" {
			b.said["sendType"] = "TALK"
		}
		m.bills = append(m.bills, b)
	case "destroy":
		b.state = "D"
	case "cancel":
		b.state, b.gone = "C", &modelCancel{num: fresh, reason: said(q, "cancelReason"), at: m.now}
	}
	if m.ends && (q.op == "destroy" || q.op == "cancel") {
		m.notify(b)
	}
	b.proved = nil
	if q.op == "create" && b.said["sendType"] == "TALK" || q.op == "resend" {
		b.messages++
		if contracts[q.key].prepaid {
			m.points[q.key]--
		}
	}
}

// pay is what a payment comes to: the HTTP status of the tester's side, which is all that it has.
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
	b.proved = nil
	if code := m.ask(false, p.Method); code != "0000" {
		b.failed = append(b.failed, code)
		return 409
	}
	b.state, b.paid = "F", &modelPayment{method: p.Method, months: fmt.Sprintf("%02d", p.Months), class: class, number: p.CashNumber, at: m.now}
	if p.CashReceipt == "self" {
		b.paid.number = "0100001234" // the designated number
	}
	m.notify(b)
	return 200
}

// notify: a bill with an address calls back the state that it has now.
func (m *model) notify(b *modelBill) {
	if b.said["callbackUrl"] != "" {
		m.notices = append(m.notices, &modelNotice{b: b, state: b.state})
	}
}

// expired: valid to midnight of that day, in Korea.
func (m *model) expired(b *modelBill) bool {
	return b.said["expireDt"] != "" && m.past(b.said["expireDt"])
}

func (m *model) past(day string) bool { return m.now.In(korea).Format("2006-01-02") > day }

// shown is what a legacy read must show of a bill: of an unpaid one nothing but its state, of a paid one what
// was paid. What the document does not determine is what the first read after the payment showed.
func (b *modelBill) shown() map[string]string {
	show := map[string]string{}
	for _, p := range readFields {
		show[p.legacy] = ""
	}
	if b.paid != nil {
		maps.Copy(show, b.learned)
		at := b.paid.at.In(korea).Format("20060102150405")
		maps.Copy(show, map[string]string{
			"appr_price": b.said["price"], "appr_pay_type": b.paid.method, "appr_dt": at, "appr_origin_dt": at, "appr_res_cd": "0000",
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

// inV2 is how v2 tells what legacy tells by text.
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
