// Package billing holds the table of the billing interface and the names of its roles and states. Package translate
// does not know them.
package billing

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"billbridge/translate"
)

//go:embed billing.yaml
var table []byte

// Table returns the table of the billing interface, with every operation and field of the interface document.
func Table() translate.File { return translate.File{Name: "billing.yaml", Data: table} }

// The roles that the gateway uses; the table describes them. Partner, Member and Merchant identify who bills
// (INTERFACE.md, Identity).
const (
	Partner  = "partner"
	Member   = "member"
	Merchant = "merchant"
	Bill     = "bill"
	Callback = "callback"
	Expiry   = "expiry"
	State    = "state"
	Amount   = "amount"
	Link     = "link"
)

// The meanings of the states of a bill (INTERFACE.md, States).
const (
	Unpaid    = "unpaid"
	Paid      = "paid"
	Cancelled = "cancelled"
	Destroyed = "destroyed"
)

var states = []string{Unpaid, Paid, Cancelled, Destroyed}

// Final reports whether a bill stays in a state with this meaning.
func Final(meaning string) bool { return meaning == Cancelled || meaning == Destroyed }

// AboutBill reports whether the operation is about one bill.
func AboutBill(o *translate.Operation) bool { return o.HasRole(translate.Request, Bill) }

// Creates reports whether the operation creates a bill.
func Creates(o *translate.Operation) bool { return o.Created == Bill }

// CreateOperation returns the operation that creates bills, or nil.
func CreateOperation(t *translate.Table) *translate.Operation {
	for _, o := range t.Operations() {
		if Creates(o) {
			return o
		}
	}
	return nil
}

// HasPartnerAndBill reports whether requests of the operation name the partner and the bill, in each form of the
// operation.
func HasPartnerAndBill(o *translate.Operation) bool {
	for _, form := range o.Table().Forms() {
		named := o.HasRole(translate.Request, Partner, form) && o.HasRole(translate.Request, Bill, form)
		if o.Path(form) != "" && !named {
			return false
		}
	}
	return true
}

// ReadOperation returns the operation by which the gateway reads a bill: the only read in both forms whose request
// names partner and bill, and whose reply has the state of the bill. An overlay may add other reads of a bill without
// a state.
func ReadOperation(t *translate.Table) (*translate.Operation, error) {
	var names []string
	var read *translate.Operation
	forms := t.Forms()
	for _, o := range t.Operations() {
		inBothForms := o.Path(forms[0]) != "" && o.Path(forms[1]) != ""
		hasState := o.HasRole(translate.Reply, State, forms[0], forms[1])
		if o.Effect == translate.Read && inBothForms && hasState && HasPartnerAndBill(o) {
			names, read = append(names, o.Name), o
		}
	}
	switch len(names) {
	case 0:
		return nil, errors.New("the table has no operation that reads a bill; " +
			"it needs one with effect: read and a path in both forms, " +
			"with role: partner and role: bill in the request and role: state in the reply")
	case 1:
		for _, meaning := range t.MeaningsOf(State) {
			if !slices.Contains(states, meaning) {
				return nil, fmt.Errorf("the gateway does not know the meaning %q of role: %s; what it knows are %s",
					meaning, State, strings.Join(states, ", "))
			}
		}
		return read, nil
	}
	return nil, errors.New("the table has several operations that read a bill, " + strings.Join(names, " and ") +
		"; remove role: state from the reply of all but one")
}

// An Identity is whom and what a request is about. Empty fields are left out of a composed request.
type Identity struct{ Partner, Member, Merchant, Bill string }

// IdentityOf returns a copy of the identity in the request of a call.
func IdentityOf(c *translate.Call) Identity {
	value := func(role string) string { return strings.Clone(c.Value(role)) }
	return Identity{value(Partner), value(Member), value(Merchant), value(Bill)}
}

// Values returns the identity by role, for [translate.Operation.Compose].
func (i Identity) Values() map[string]string {
	return map[string]string{Partner: i.Partner, Member: i.Member, Merchant: i.Merchant, Bill: i.Bill}
}
