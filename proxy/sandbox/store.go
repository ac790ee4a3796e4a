package sandbox

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
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

// Bill is a bill, as the control API shows it. Texts are as sent. The tag v2 has their names in the interface.
type Bill struct {
	Partner  string `json:"partner" v2:"apiKey"` // the partner's key
	Member   string `json:"member" v2:"member memberId"`
	Merchant string `json:"merchant" v2:"merchant merchantId"`
	ID       string `json:"bill_id" v2:"billId"`
	Form     string `json:"form"` // the form of the create: v2 or legacy
	State    string `json:"state" v2:"apprState"`
	Input
	ShortURL string    `json:"short_url" v2:"shortUrl"`
	Created  time.Time `json:"created"`
	Messages int       `json:"messages"`           // the number of messages sent to the customer
	Approval *Approval `json:"approval,omitempty"` // nil unless the bill was paid
	Cancel   *Cancel   `json:"cancel,omitempty"`   // nil unless the bill was cancelled
	// Failed are the payments that a card network or issuer declined, oldest first.
	Failed []FailedPayment `json:"failed_payments,omitempty"`
}

// Input is what the create of a bill says about it.
type Input struct {
	SendType        string `json:"send_type" v2:"sendType"`
	Issuer          string `json:"bill_issuer" v2:"billIssuer"`
	Product         string `json:"product_name" v2:"productName"`
	Price           string `json:"price" v2:"price"`
	SupplyPrice     string `json:"supply_price" v2:"supplyPrice"`
	Tax             string `json:"tax" v2:"tax"`
	MemberName      string `json:"member_name" v2:"memberName"`
	Phone           string `json:"phone" v2:"phone"`
	Message         string `json:"message" v2:"message"`
	ExpireDt        string `json:"expire_dt" v2:"expireDt"`
	CallbackURL     string `json:"callback_url" v2:"callbackUrl"`
	PageRedirectURL string `json:"page_redirect_url" v2:"pageRedirectUrl"`
}

// Approval is the approval of a payment. It is immutable.
type Approval struct {
	Method       string    `json:"method"` // the legacy word of the payment method
	Num          string    `json:"approval_number" v2:"apprOriginNum"`
	At           time.Time `json:"at"`
	TerminalID   string    `json:"terminal" v2:"catId"`
	CardType     string    `json:"card_type" v2:"apprCardType cardType"`
	Issuer       string    `json:"issuer" v2:"apprIssuer"`
	IssuerCode   string    `json:"issuer_code" v2:"apprIssuerCd"`
	IssuerNum    string    `json:"issuer_number" v2:"apprIssuerNum"`
	AcquirerCode string    `json:"acquirer_code" v2:"apprAcquirerCd"`
	Acquirer     string    `json:"acquirer" v2:"apprAcquirerNm"`
	MerchantNum  string    `json:"card_merchant_number" v2:"apprCardMerchantNum"`
	TxNum        string    `json:"tx_id" v2:"dscTxNum"`     // the transaction identifier
	Months       string    `json:"months" v2:"apprMonthly"` // two digits
	Receipt
}

// Receipt is a cash receipt; empty if there is none.
type Receipt struct {
	CashNum     string `json:"cash_receipt_number" v2:"apprCashNum"`
	CashClass   string `json:"cash_receipt_class"`
	CashRequest string `json:"cash_receipt_request_number" v2:"apprCashIssuanceNumber"`
}

// Cancel is the cancel of a payment. It is immutable.
type Cancel struct {
	Num    string    `json:"approval_number"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// FailedPayment is a declined payment.
type FailedPayment struct {
	At   time.Time `json:"at"`
	Code string    `json:"code"` // from the catalogue
}

// billKey identifies a bill. A bill id is unique within its partner.
type billKey struct{ partner, id string }

// lastFailure returns the code of the last payment that was declined.
func (b *Bill) lastFailure() string { return b.Failed[len(b.Failed)-1].Code }

func (b Bill) key() billKey { return billKey{b.Partner, b.ID} }

// An account has what changes about a partner. The rest is in Partner.
type account struct {
	Partner string   `json:"partner"`
	Points  int      `json:"points"`
	Mapped  []string `json:"mapped"` // the temporary locations that a merchant is mapped to
}

func (a account) key() string { return a.Partner }

// A mapping is a registered merchant, completed or not.
type mapping struct {
	Partner string `json:"partner"`
	Merchant
	Status      string    `json:"status"`
	Registered  time.Time `json:"registered"`
	Updated     time.Time `json:"updated"`
	CallbackURL string    `json:"callback_url"`
	RedirectURL string    `json:"redirect_url"`
}

// mappingKey identifies a mapping.
type mappingKey struct{ partner, member, merchant string }

func (m mapping) key() mappingKey { return mappingKey{m.Partner, m.MemberID, m.MerchantID} }

// state is the state of the service itself.
type state struct {
	Sequence int           `json:"sequence"` // the last approval number
	Ahead    time.Duration `json:"ahead"`    // how far the clock is ahead of the real one
}

func (state) key() struct{} { return struct{}{} }

// rows are the stored data. As JSON they are the rows that a transaction has changed: one line of the data file.
type rows struct {
	Accounts  table[string, account]       `json:"partners,omitzero"`
	Contracts table[string, Partner]       `json:"contracts,omitzero"`
	Bills     table[billKey, Bill]         `json:"bills,omitzero"`
	Mappings  table[mappingKey, mapping]   `json:"mappings,omitzero"`
	Callbacks table[callbackKey, Callback] `json:"callbacks,omitzero"`
	State     table[struct{}, state]       `json:"state,omitzero"`
}

// end ends a transaction: it makes the changes or drops them.
func (r *rows) end(commit bool) {
	for _, t := range []interface{ end(commit bool) }{
		&r.Accounts, &r.Contracts, &r.Bills, &r.Mappings, &r.Callbacks, &r.State,
	} {
		t.end(commit)
	}
}

// tables are all data of the service, in a transaction.
type tables struct {
	rows
	opt   *Options
	now   time.Time                          // the time of the service at the start of the transaction
	pages map[string]func(url.Values) screen // by their paths
	open  map[callbackKey]struct{}           // waiting callbacks

	// These are not in the data file, and a transaction does not roll them back.
	calls  map[string]int // by operation
	faults []Fault        // those that wait, in order
	log    []Exchange     // the last ones
	logged int            // how many there were
}

// A store runs transactions, one at a time.
type store struct {
	opt  Options
	disk *disk // nil if the data is in memory only
	mu   sync.Mutex
	t    tables
}

// update runs f as a transaction, after it has removed the faults whose time is over. If f or writing the data file
// fails, nothing changes.
func (st *store) update(f func(t *tables) error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	t := &st.t
	t.now = st.opt.Clock().Add(t.serviceState().Ahead).In(seoul)
	t.faults = slices.DeleteFunc(t.faults, func(f Fault) bool { return !f.Until.IsZero() && !t.now.Before(f.Until) })
	defer t.end(false)
	if err := f(t); err != nil {
		return err
	}
	if err := st.disk.write(&t.rows); err != nil {
		return fmt.Errorf("writing the data file: %w", err)
	}
	t.end(true)
	return nil
}

// view runs f in a transaction that changes no rows.
func (st *store) view(f func(*tables)) {
	_ = st.update(func(t *tables) error { // only writing can fail
		f(t)
		return nil
	})
}

// serviceState returns the state of the service itself.
func (t *tables) serviceState() state {
	if s := t.State.get(struct{}{}); s != nil {
		return *s
	}
	return state{}
}

// nextApproval returns the next approval number.
func (t *tables) nextApproval() int {
	s := t.serviceState()
	s.Sequence++
	t.State.put(s)
	return s.Sequence
}

// A table has the rows of one kind. Rows are immutable: a change puts a copy in their place.
type table[K comparable, V interface{ key() K }] struct {
	index  func(v *V) // called for every new or changed row; may be nil
	rows   map[K]*V
	order  []K // the keys in the order of insertion
	staged []*V
}

// get returns a row as the transaction sees it, or nil.
func (tb *table[K, V]) get(k K) *V {
	for _, v := range slices.Backward(tb.staged) {
		if (*v).key() == k {
			return v
		}
	}
	return tb.rows[k]
}

// put stages a row for the end of the transaction.
func (tb *table[K, V]) put(v V) { tb.staged = append(tb.staged, &v) }

// all returns copies of the committed rows in the order of insertion.
func (tb *table[K, V]) all() []V {
	list := make([]V, len(tb.order))
	for i, k := range tb.order {
		list[i] = *tb.rows[k]
	}
	return list
}

// end ends a transaction.
func (tb *table[K, V]) end(commit bool) {
	if tb.rows == nil {
		tb.rows = map[K]*V{}
	}
	for _, v := range tb.staged {
		if !commit {
			break
		}
		k := (*v).key()
		if tb.rows[k] == nil {
			tb.order = append(tb.order, k)
		}
		tb.rows[k] = v
		if tb.index != nil {
			tb.index(v)
		}
	}
	tb.staged = nil
}

// The JSON of a table are its staged rows.

func (tb *table[K, V]) IsZero() bool { return len(tb.staged) == 0 }

func (tb *table[K, V]) MarshalJSON() ([]byte, error) { return json.Marshal(tb.staged) }

func (tb *table[K, V]) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &tb.staged) }
