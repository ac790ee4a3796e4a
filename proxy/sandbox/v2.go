package sandbox

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// form is a form of the interface.
type form int

const (
	formV2 form = iota
	formLegacy
)

// formOf returns the form of any path ("Versioning").
func formOf(path string) form {
	if strings.HasPrefix(path, "/if/") {
		return formLegacy
	}
	return formV2
}

func (f form) String() string {
	if f == formLegacy {
		return "legacy"
	}
	return "v2"
}

func (f form) fieldNames() *fieldNames {
	if f == formLegacy {
		return &legacyNames
	}
	return &v2Names
}

// v2Names are the names of the v2 column of "Bill creation input, v2" and of "Bill operations, v2".
var v2Names = fieldNames{
	apiKey: "apiKey", billID: "billId", sendType: "sendType", issuer: "billIssuer", product: "productName",
	price: "price", supplyPrice: "supplyPrice", tax: "tax", memberName: "memberName", phone: "phone",
	message: "message", expireDt: "expireDt", hash: "hash", callbackURL: "callbackUrl",
	pageRedirectURL: "pageRedirectUrl", cancelNote: "cancelReason",
	nested: func(operation) bool { return true },
}

// v2Envelope is the reply of every v2 and sub-business operation ("Response envelope").
type v2Envelope struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

type v2Created struct {
	APIKey   string `json:"apiKey"`
	Member   string `json:"member"`
	Merchant string `json:"merchant"`
	BillID   string `json:"billId"`
	Hash     string `json:"hash"`
	ShortURL string `json:"shortUrl"`
}

// v2Named is `data` of resend and destroy replies.
type v2Named struct {
	APIKey string `json:"apiKey"`
	BillID string `json:"billId"`
}

type v2Cancelled struct {
	APIKey        string `json:"apiKey"`
	Member        string `json:"member"`
	Merchant      string `json:"merchant"`
	BillID        string `json:"billId"`
	Hash          string `json:"hash"`
	ApprNum       string `json:"apprNum"`
	ApprOriginNum string `json:"apprOriginNum"`
	ApprCancelDt  string `json:"apprCancelDt"`
}

// v2Record is the v2 column of "Approval and payment data". Fields that the document does not call numbers are strings.
type v2Record struct {
	APIKey                 string          `json:"apiKey"`
	BillID                 string          `json:"billId"`
	CatID                  string          `json:"catId"`
	ApprPayType            json.RawMessage `json:"apprPayType,omitempty"`
	ApprCardType           string          `json:"apprCardType"`
	ApprDt                 json.RawMessage `json:"apprDt,omitempty"`
	ApprOriginDt           json.RawMessage `json:"apprOriginDt,omitempty"`
	ApprPrice              string          `json:"apprPrice"`
	ApprIssuer             string          `json:"apprIssuer"`
	ApprIssuerCd           string          `json:"apprIssuerCd"`
	ApprIssuerNum          string          `json:"apprIssuerNum"`
	ApprAcquirerCd         string          `json:"apprAcquirerCd"`
	ApprAcquirerNm         string          `json:"apprAcquirerNm"`
	ApprNum                string          `json:"apprNum"`
	ApprOriginNum          string          `json:"apprOriginNum"`
	ApprResCd              string          `json:"apprResCd"`
	ApprMonthly            string          `json:"apprMonthly"`
	ApprState              string          `json:"apprState"`
	ApprCashNum            string          `json:"apprCashNum"`
	ApprCashTrader         string          `json:"apprCashTrader"`
	ApprCashIssuanceNumber string          `json:"apprCashIssuanceNumber"`
	ApprCardMerchantNum    string          `json:"apprCardMerchantNum"`
	DscTxNum               string          `json:"dscTxNum"`
	CardType               string          `json:"cardType"`
	ApprSign               string          `json:"apprSign"`
	UDItem                 *string         `json:"udItem"` // null, which the document allows
}

// encodeV2 encodes a success ("Bill operations, v2").
func (s *Service) encodeV2(c *call, res result) []byte {
	e := v2Envelope{Code: codeSuccess, Message: messageOf(codeSuccess), Data: res.data}
	b := &res.bill
	switch c.op {
	case opCreate:
		e.Data = v2Created{c.key, c.member, c.merchant, b.ID, c.hash, b.ShortURL}
	case opRead:
		e.Data = s.v2Record(b)
	case opResend, opDestroy:
		e.Data = v2Named{c.key, b.ID}
	case opCancel:
		e.Data = v2Cancelled{c.key, c.member, c.merchant, b.ID, c.hash, b.Cancel.Num, b.Approval.Num, stamp(b.Cancel.At)}
	}
	return marshal(e)
}

func (s *Service) v2Record(b *Bill) v2Record {
	r := s.record(b)
	return v2Record{
		APIKey: b.Partner, BillID: b.ID, ApprState: b.State,
		CatID: r.TerminalID, ApprCardType: r.CardType,
		ApprPayType: s.number(r.payType), ApprDt: s.number(r.at), ApprOriginDt: s.number(r.originAt),
		ApprPrice: r.price, ApprIssuer: r.Issuer, ApprIssuerCd: r.IssuerCode, ApprIssuerNum: r.IssuerNum,
		ApprAcquirerCd: r.AcquirerCode, ApprAcquirerNm: r.Acquirer,
		ApprNum: r.num, ApprOriginNum: r.originNum, ApprResCd: r.outcome, ApprMonthly: r.Months,
		ApprCashNum: r.CashNum, ApprCashTrader: v2CashClass(r.CashClass), ApprCashIssuanceNumber: r.CashRequest,
		ApprCardMerchantNum: r.MerchantNum, DscTxNum: r.TxNum, CardType: r.CardType,
	}
}

// number encodes a numeric field of a read. digits is empty if there is no value.
func (s *Service) number(digits string) json.RawMessage {
	if digits == "" {
		switch s.opt.NumbersWhenUnpaid {
		case NullWhenUnpaid:
			return json.RawMessage("null")
		case EmptyWhenUnpaid:
			return json.RawMessage(`""`)
		case OmitWhenUnpaid:
			return nil
		}
		digits = "0"
	}
	if s.opt.NumbersAsStrings {
		return json.RawMessage(`"` + digits + `"`)
	}
	return json.RawMessage(digits)
}

// v2CashClass returns the v2 word for a class of cash receipt. The document does not have the words.
func v2CashClass(class string) string {
	switch class {
	case cashPersonal:
		return "PERSONAL"
	case cashBusiness:
		return "BUSINESS"
	}
	return ""
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
