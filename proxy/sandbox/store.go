package sandbox

import (
	"sync"
	"time"
)

// The bill states ("States and transitions").
const (
	stateUnpaid    = "W"
	statePaid      = "F"
	stateCancelled = "C"
	stateDestroyed = "D"
)

// Bill is a bill as the service keeps it, and as the control surface shows it.
// Texts are as they were sent.
type Bill struct {
	Partner         string    `json:"partner"` // the partner's key
	Member          string    `json:"member"`
	Merchant        string    `json:"merchant"`
	ID              string    `json:"bill_id"`
	Form            string    `json:"form"` // the form it was made in: v2 or legacy
	State           string    `json:"state"`
	SendType        string    `json:"send_type"`
	Issuer          string    `json:"bill_issuer"`
	Product         string    `json:"product_name"`
	Price           string    `json:"price"`
	SupplyPrice     string    `json:"supply_price"`
	Tax             string    `json:"tax"`
	MemberName      string    `json:"member_name"`
	Phone           string    `json:"phone"`
	Message         string    `json:"message"`
	ExpireDt        string    `json:"expire_dt"`
	CallbackURL     string    `json:"callback_url"`
	PageRedirectURL string    `json:"page_redirect_url"`
	ShortURL        string    `json:"short_url"`
	Created         time.Time `json:"created"`
	Messages        int       `json:"messages"`           // sent to the customer so far
	Approval        *Approval `json:"approval,omitempty"` // nil unless it was paid
	Cancel          *Cancel   `json:"cancel,omitempty"`   // nil unless it was cancelled
}

// Approval is what a payment left on a bill. It is never changed once made.
type Approval struct {
	Method       string    `json:"method"` // the legacy word of the payment method
	Num          string    `json:"approval_number"`
	At           time.Time `json:"at"`
	TerminalID   string    `json:"terminal"`
	CardType     string    `json:"card_type"`
	Issuer       string    `json:"issuer"`
	IssuerCode   string    `json:"issuer_code"`
	IssuerNum    string    `json:"issuer_number"`
	AcquirerCode string    `json:"acquirer_code"`
	Acquirer     string    `json:"acquirer"`
	MerchantNum  string    `json:"card_merchant_number"`
	TxNum        string    `json:"transaction_number"`
	Months       string    `json:"months"` // two digits
	CashNum      string    `json:"cash_receipt_number"`
	CashClass    string    `json:"cash_receipt_class"`
	CashRequest  string    `json:"cash_receipt_request_number"`
}

// Cancel is what a cancel left on a bill. It is never changed once made.
type Cancel struct {
	Num    string    `json:"approval_number"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// billKey finds a bill: an identifier is unique within its partner.
type billKey struct{ partner, id string }

// account is a partner with what has changed about it.
type account struct {
	Partner
	mappings  []*mapping
	temporary map[string]*temporary
}

// mapping is a sub-business of a partner, mapped or on its way.
type mapping struct {
	Store
	status                string
	registered, updated   time.Time
	callbackURL, redirect string
}

type temporary struct {
	TemporaryStore
	mapped bool
}

// store holds everything the service remembers. All access goes through do,
// so that each operation is one transaction whatever the store is made of.
type store struct {
	mu sync.Mutex
	tables
}

type tables struct {
	accounts map[string]*account
	order    []*account
	bills    map[billKey]*Bill
	byID     map[string][]*Bill // every partner's bills of one identifier
	all      []*Bill            // in the order they were made
	sequence int                // of approval numbers
}

func newStore(partners []Partner, now time.Time) *store {
	st := &store{tables: tables{
		accounts: map[string]*account{},
		bills:    map[billKey]*Bill{},
		byID:     map[string][]*Bill{},
	}}
	for _, p := range partners {
		a := &account{Partner: p, temporary: map[string]*temporary{}}
		for _, s := range p.Stores {
			a.mappings = append(a.mappings, &mapping{Store: s, status: mappingCompleted, registered: now, updated: now})
		}
		for _, t := range p.Temporary {
			a.temporary[t.Code] = &temporary{TemporaryStore: t}
		}
		st.accounts[p.Key] = a
		st.order = append(st.order, a)
	}
	return st
}

// do runs f alone on the tables. Nothing f is given may outlive it: what leaves
// is a copy.
func (st *store) do(f func(t *tables)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f(&st.tables)
}

func (t *tables) insert(b *Bill) {
	t.bills[billKey{b.Partner, b.ID}] = b
	t.byID[b.ID] = append(t.byID[b.ID], b)
	t.all = append(t.all, b)
}

func (t *tables) next() int {
	t.sequence++
	return t.sequence
}

// mapping returns the account's sub-business of that name, nil if there is none.
func (a *account) mapping(member, merchant string) *mapping {
	for _, m := range a.mappings {
		if m.Member == member && m.Merchant == merchant {
			return m
		}
	}
	return nil
}

// serves tells whether bill calls for that store are the partner's.
func (a *account) serves(member, merchant string) bool {
	if !a.Strict {
		return true
	}
	m := a.mapping(member, merchant)
	return m != nil && m.status == mappingCompleted && !m.Closed && !m.Suspended
}
