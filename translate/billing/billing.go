// Package billing is the table of the billing interface, and the names by which the gateway asks it. Package translate knows
// none of them.
package billing

import (
	_ "embed"
	"errors"
	"strings"

	"billbridge/translate"
)

//go:embed billing.yaml
var table []byte

// Table is the table of the billing interface: every operation and field of the interface document.
func Table() translate.File { return translate.File{Name: "billing.yaml", Data: table} }

// The roles that the gateway asks for. The table says what each of them is.
const (
	Partner  = "partner"
	Member   = "member"
	Merchant = "merchant"
	Bill     = "bill"
	Callback = "callback"
	Expiry   = "expiry"
	State    = "state"
	Amount   = "amount"
)

// What a state of a bill can mean (translate/README.md, States).
const (
	Unpaid    = "unpaid"
	Paid      = "paid"
	Cancelled = "cancelled"
	Destroyed = "destroyed"
)

// Final tells whether a bill stays in a state, by what the state means.
func Final(means string) bool { return means == Cancelled || means == Destroyed }

// AboutBill tells whether a request of an operation is about one bill.
func AboutBill(o *translate.Operation) bool { return o.HasRole(translate.Request, Bill) }

// Creates tells whether a success of an operation has created a bill.
func Creates(o *translate.Operation) bool { return o.Created == Bill }

// HasPartnerAndBill tells whether a request of an operation names its partner and its bill, in each form that has the operation.
func HasPartnerAndBill(o *translate.Operation) bool {
	for _, form := range o.Table().Forms() {
		if o.Path(form) != "" && !(o.HasRole(translate.Request, Partner, form) && o.HasRole(translate.Request, Bill, form)) {
			return false
		}
	}
	return true
}

// ReadOperation is the operation by which the gateway reads a bill: the only read that both forms have whose request names its partner
// and its bill, and whose reply shows the state of the bill. Other reads of a bill, which an overlay may add, say less.
func ReadOperation(t *translate.Table) (*translate.Operation, error) {
	var readers []string
	var reader *translate.Operation
	forms := t.Forms()
	for _, o := range t.Operations() {
		both := o.Path(forms[0]) != "" && o.Path(forms[1]) != ""
		if o.Effect == translate.Read && both && HasPartnerAndBill(o) && o.HasRole(translate.Reply, State, forms[0], forms[1]) {
			readers, reader = append(readers, o.Name), o
		}
	}
	switch len(readers) {
	case 0:
		return nil, errors.New("no operation of the table reads a bill: a read that both forms have, with role: partner and role: bill in its request and role: state in its reply")
	case 1:
		return reader, nil
	}
	return nil, errors.New(strings.Join(readers, " and ") + " read a bill and show its state, but exactly one must: leave role: state out of the reply of the others")
}

// An Identity is what a request says about whom and what it is for. What is empty is left out of a request.
type Identity struct{ Partner, Member, Merchant, Bill string }

// IdentityOf is the identity in the request of a call. It holds copies, which outlive the call.
func IdentityOf(c *translate.Call) Identity {
	of := func(role string) string { return strings.Clone(c.Value(role)) }
	return Identity{of(Partner), of(Member), of(Merchant), of(Bill)}
}

// Values is the identity by role, as [translate.Operation.Compose] takes it.
func (i Identity) Values() map[string]string {
	return map[string]string{Partner: i.Partner, Member: i.Member, Merchant: i.Merchant, Bill: i.Bill}
}
