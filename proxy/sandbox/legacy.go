package sandbox

// legacyNames are the names of "Bill creation input, legacy" and "Bill operations, legacy". The legacy form has no
// sendType, supplyPrice, tax, pageRedirectUrl and cancelReason.
var legacyNames = fieldNames{
	apiKey: "apikey", billID: "bill_id", issuer: "bill_issuer", product: "product_nm",
	price: "price", memberName: "member_nm", phone: "phone", message: "message",
	expireDt: "expire_dt", hash: "hash", callbackURL: "callbackURL",
	nested: func(op operation) bool { return op == opCreate },
}

// legacyHead is the legacy envelope. Failures and resend replies have nothing else ("Legacy response envelope").
type legacyHead struct {
	Code string `json:"code"`
	Msg  string `json:"msg"`
}

// legacyNamed has the fields that send, destroy and cancel replies share.
type legacyNamed struct {
	legacyHead
	APIKey   string `json:"apikey"`
	Member   string `json:"member"`
	Merchant string `json:"merchant"`
	BillID   string `json:"bill_id"`
	Hash     string `json:"hash"`
}

type legacyCreated struct {
	legacyNamed
	ShortURL string `json:"shortURL,omitempty"`
}

type legacyCancelled struct {
	legacyNamed
	ApprNum       string `json:"appr_num"`
	ApprOriginNum string `json:"appr_origin_num"`
	ApprCancelDt  string `json:"appr_cancel_dt"`
}

// legacyRecord is the legacy column of "Approval and payment data". A read reply has nothing else: in the document's
// example it has no code and no msg.
type legacyRecord struct {
	APIKey                 string `json:"apikey"`
	BillID                 string `json:"bill_id"`
	ApprCatID              string `json:"appr_cat_id"`
	ApprPayType            string `json:"appr_pay_type"`
	ApprCardType           string `json:"appr_card_type"`
	ApprDt                 string `json:"appr_dt"`
	ApprOriginDt           string `json:"appr_origin_dt"`
	ApprPrice              string `json:"appr_price"`
	ApprIssuer             string `json:"appr_issuer"`
	ApprIssuerCd           string `json:"appr_issuer_cd"`
	ApprIssuerNum          string `json:"appr_issuer_num"`
	ApprAcquirerCd         string `json:"appr_acquirer_cd"`
	ApprAcquirerNm         string `json:"appr_acquirer_nm"`
	ApprNum                string `json:"appr_num"`
	ApprOriginNum          string `json:"appr_origin_num"`
	ApprResCd              string `json:"appr_res_cd"`
	ApprMonthly            string `json:"appr_monthly"`
	ApprState              string `json:"appr_state"`
	ApprCashNum            string `json:"appr_cash_num"`
	ApprCashTrader         string `json:"appr_cash_trader"`
	ApprCashIssuanceNumber string `json:"appr_cash_issuance_number"`
}

// encodeLegacy encodes a success ("Bill operations, legacy").
func (s *Service) encodeLegacy(c *call, res result) []byte {
	head := legacyHead{Code: codeSuccess, Msg: messageOf(codeSuccess)}
	b := &res.bill
	named := legacyNamed{head, c.key, c.member, c.merchant, b.ID, c.hash}
	switch c.op {
	case opCreate:
		if s.opt.SwapLegacySend {
			named.Member, named.Merchant = named.Merchant, named.Member
		}
		if s.opt.NoLegacyShortURL {
			return marshal(named)
		}
		return marshal(legacyCreated{named, b.ShortURL})
	case opRead:
		return marshal(s.legacyRecord(b))
	case opDestroy:
		return marshal(named)
	case opCancel:
		return marshal(legacyCancelled{named, b.Cancel.Num, b.Approval.Num, stamp(b.Cancel.At)})
	}
	return marshal(head)
}

func (s *Service) legacyRecord(b *Bill) legacyRecord {
	r := s.record(b)
	return legacyRecord{
		APIKey: b.Partner, BillID: b.ID, ApprState: b.State,
		ApprCatID: r.TerminalID, ApprPayType: r.Method, ApprCardType: r.CardType,
		ApprDt: r.at, ApprOriginDt: r.originAt, ApprPrice: r.price,
		ApprIssuer: r.Issuer, ApprIssuerCd: r.IssuerCode, ApprIssuerNum: r.IssuerNum,
		ApprAcquirerCd: r.AcquirerCode, ApprAcquirerNm: r.Acquirer,
		ApprNum: r.num, ApprOriginNum: r.originNum, ApprResCd: r.outcome, ApprMonthly: r.Months,
		ApprCashNum: r.CashNum, ApprCashTrader: r.CashClass, ApprCashIssuanceNumber: r.CashRequest,
	}
}

// legacyCode returns the code that a legacy failure has instead of one of the catalogue.
func (s *Service) legacyCode(code string) string {
	if paired, ok := s.opt.LegacyCodes[code]; ok {
		return paired
	}
	if other, ok := s.opt.LegacyCodes["*"]; ok {
		return other
	}
	return code
}
