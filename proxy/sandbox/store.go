package sandbox

import (
	"encoding/json"
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
	// Failed are the payments that a card network or issuer refused, oldest first.
	Failed []FailedPayment `json:"failed_payments,omitempty"`
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
	TxNum        string    `json:"tx_id"`  // the transaction identifier
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

// FailedPayment is a payment that left the bill unpaid.
type FailedPayment struct {
	At   time.Time `json:"at"`
	Code string    `json:"code"` // of the catalogue
}

// billKey finds a bill: an identifier is unique within its partner.
type billKey struct{ partner, id string }

func (b *Bill) key() billKey { return billKey{b.Partner, b.ID} }

// account is what changes about a partner; the rest of it is its contract,
// which is the Partner.
type account struct {
	Partner string   `json:"partner"`
	Points  int      `json:"points"`
	Mapped  []string `json:"mapped"` // the temporary locations that a store is mapped to
}

func (a *account) key() string { return a.Partner }

// mapping is a sub-business of a partner, mapped or on its way.
type mapping struct {
	Partner string `json:"partner"`
	Merchant
	Status      string    `json:"status"`
	Registered  time.Time `json:"registered"`
	Updated     time.Time `json:"updated"`
	CallbackURL string    `json:"callback_url"`
	RedirectURL string    `json:"redirect_url"`
}

// mappingKey finds a sub-business by the names its partner gave it.
type mappingKey struct{ partner, member, merchant string }

func (m *mapping) key() mappingKey { return mappingKey{m.Partner, m.MemberID, m.MerchantID} }

// state is what the service remembers of itself.
type state struct {
	Sequence    int           `json:"sequence"` // of approval numbers
	Maintenance bool          `json:"maintenance"`
	Ahead       time.Duration `json:"ahead"` // of the real clock
}

func (*state) key() struct{} { return struct{}{} }

// tables are everything the service remembers, as one transaction sees it.
type tables struct {
	now       time.Time // of the service, in Korea, when the transaction began
	contracts []*Partner
	byKey     map[string]*Partner

	accounts  table[string, account]
	bills     table[billKey, Bill]
	mappings  table[mappingKey, mapping]
	callbacks table[callbackKey, Callback]
	state     table[struct{}, state]

	billsByID    map[string][]billKey     // every partner's bills of one identifier
	merchants  map[string][]mappingKey  // a partner's sub-businesses, in the order they were registered
	pages   map[string]billKey       // by the token in the short URL
	signups map[string]mappingKey    // by the token in the registration URL
	open    map[callbackKey]struct{} // callbacks with an attempt still to come
}

// store runs transactions, one at a time.
type store struct {
	clock func() time.Time
	disk  *disk // nil in memory
	mu    sync.Mutex
	t     tables
}

// openStore reads what the data file remembers, if one is named, and adds the
// partners and stores that it does not know.
func openStore(file string, partners []Partner, clock func() time.Time) (*store, error) {
	st := &store{clock: clock, t: tables{
		byKey:   map[string]*Partner{},
		billsByID:    map[string][]billKey{},
		merchants:  map[string][]mappingKey{},
		pages:   map[string]billKey{},
		signups: map[string]mappingKey{},
		open:    map[callbackKey]struct{}{},
	}}
	t := &st.t
	t.accounts = newTable("partner", (*account).key, nil)
	t.bills = newTable("bill", (*Bill).key, func(b *Bill, isNew bool) {
		if isNew {
			t.billsByID[b.ID] = append(t.billsByID[b.ID], b.key())
			t.pages[token("bill", b.Partner, b.ID)] = b.key()
		}
	})
	t.mappings = newTable("mapping", (*mapping).key, func(m *mapping, isNew bool) {
		if isNew {
			t.merchants[m.Partner] = append(t.merchants[m.Partner], m.key())
			t.signups[token("signup", m.Partner, m.MemberID, m.MerchantID)] = m.key()
		}
	})
	t.callbacks = newTable("callback", (*Callback).key, func(c *Callback, _ bool) {
		if c.State == callbackWaiting {
			t.open[c.key()] = struct{}{}
		} else {
			delete(t.open, c.key())
		}
	})
	t.state = newTable("state", (*state).key, nil)
	if file != "" {
		var err error
		if st.disk, err = openDisk(file, t.kinds()); err != nil {
			return nil, err
		}
	}
	for _, p := range partners {
		t.contracts = append(t.contracts, &p)
		t.byKey[p.Key] = &p
	}
	return st, st.update(func(t *tables) error {
		for _, p := range t.contracts {
			if t.accounts.get(p.Key) == nil {
				t.accounts.put(account{Partner: p.Key, Points: p.Points})
			}
			for _, s := range p.Merchants {
				m := mapping{Partner: p.Key, Merchant: s, Status: mappingCompleted, Registered: t.now, Updated: t.now}
				if t.mappings.get(m.key()) == nil {
					t.mappings.put(m)
				}
			}
		}
		return nil
	})
}

// update runs f alone. What f puts is on the disk and then in memory when update
// returns nil; of an f that fails, or cannot be written, nothing remains.
func (st *store) update(f func(t *tables) error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	t := &st.t
	t.now = st.clock().Add(t.serviceState().Ahead).In(seoul)
	defer func() {
		for _, k := range t.kinds() {
			k.discard()
		}
	}()
	if err := f(t); err != nil {
		return err
	}
	if st.disk != nil {
		if err := st.disk.write(t.kinds()); err != nil {
			return err
		}
	}
	for _, k := range t.kinds() {
		k.apply()
	}
	return nil
}

func (st *store) close() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.disk == nil {
		return nil
	}
	return st.disk.close()
}

func (t *tables) kinds() []kind {
	return []kind{&t.accounts, &t.bills, &t.mappings, &t.callbacks, &t.state}
}

// serviceState is what the service remembers of itself.
func (t *tables) serviceState() state {
	if s := t.state.get(struct{}{}); s != nil {
		return *s
	}
	return state{}
}

// nextApproval counts approvals.
func (t *tables) nextApproval() int {
	s := t.serviceState()
	s.Sequence++
	t.state.put(s)
	return s.Sequence
}

// allowsMerchant tells whether bill calls for that store are the partner's.
func (t *tables) allowsMerchant(p *Partner, member, merchant string) bool {
	if !p.Strict {
		return true
	}
	m := t.mappings.get(mappingKey{p.Key, member, merchant})
	return m != nil && m.Status == mappingCompleted && !m.Closed && !m.Suspended
}

// takePoint takes a point for a message, false when there is none left.
func (t *tables) takePoint(p *Partner) bool {
	if !p.Prepaid {
		return true
	}
	a := *t.accounts.get(p.Key)
	if a.Points <= 0 {
		return false
	}
	a.Points--
	t.accounts.put(a)
	return true
}

// A table holds the rows of one kind. A row is never changed once it is in: a
// change is a copy that is put in its place, so a row that was handed out stays
// what it was.
type table[K comparable, V any] struct {
	name   string // in the data file
	keyOf  func(*V) K
	index  func(v *V, isNew bool) // told of every row that comes in; nil if nobody asks
	rows   map[K]*V
	order  []K // in which the keys first came
	staged []*V
}

func newTable[K comparable, V any](name string, keyOf func(*V) K, index func(*V, bool)) table[K, V] {
	return table[K, V]{name: name, keyOf: keyOf, index: index, rows: map[K]*V{}}
}

// get returns a row, nil if there is none, as the transaction has it.
func (tb *table[K, V]) get(k K) *V {
	for _, v := range slices.Backward(tb.staged) {
		if tb.keyOf(v) == k {
			return v
		}
	}
	return tb.rows[k]
}

// put stages a row.
func (tb *table[K, V]) put(v V) { tb.staged = append(tb.staged, &v) }

// all returns the committed rows in the order they first came.
func (tb *table[K, V]) all() []*V {
	list := make([]*V, len(tb.order))
	for i, k := range tb.order {
		list[i] = tb.rows[k]
	}
	return list
}

// kind is a table, whatever its rows are.
type kind interface {
	label() string
	apply()
	discard()
	// each hands out the staged rows, written down.
	each(func(key string, value []byte) error) error
	// load takes a row that was written down.
	load(value []byte) error
}

func (tb *table[K, V]) label() string { return tb.name }

func (tb *table[K, V]) discard() { tb.staged = nil }

func (tb *table[K, V]) apply() {
	for _, v := range tb.staged {
		tb.insert(v)
	}
}

func (tb *table[K, V]) insert(v *V) {
	k := tb.keyOf(v)
	_, known := tb.rows[k]
	if !known {
		tb.order = append(tb.order, k)
	}
	tb.rows[k] = v
	if tb.index != nil {
		tb.index(v, !known)
	}
}

func (tb *table[K, V]) each(f func(key string, value []byte) error) error {
	for _, v := range tb.staged {
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := f(keyText(tb.keyOf(v)), value); err != nil {
			return err
		}
	}
	return nil
}

func (tb *table[K, V]) load(value []byte) error {
	v := new(V)
	if err := json.Unmarshal(value, v); err != nil {
		return err
	}
	tb.insert(v)
	return nil
}
