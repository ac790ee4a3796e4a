package routing

import (
	"context"

	"billbridge/proxy/evidence"
	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A ReadBill reads a bill at an upstream as a partner would; its Result is one of ResultTexts. Without a key it uses
// the key of the partner's first call. If the partner has not called, the bill is NotAsked, and asked is empty.
type ReadBill func(
	ctx context.Context, upstream string, as Credentials, bill string,
) (says BackendBill, asked Credentials)

// Credentials are the partner, member and merchant with which a bill is read.
type Credentials struct {
	Partner  partner.ID `json:"-"` // full
	Key      string     `json:"-"` // "" if the operator did not give it
	Member   string     `json:"member,omitempty"`
	Merchant string     `json:"merchant,omitempty"`
}

// A BackendBill is the result of a read of a bill at a backend.
type BackendBill struct {
	Upstream string `json:"upstream"`
	Result   string `json:"result"` // one of ResultTexts, or NotAsked
	State    string `json:"state,omitempty"`
	Ended    bool   `json:"-"` // whether the bill stays in the state
	Amount   string `json:"amount,omitempty"`
	Code     string `json:"code,omitempty"`

	Shows    ledger.Shows `json:"-"` // what can be compared with the ledger
	Callback []byte       `json:"-"` // that reports the state, in the upstream's form

	// compares the bill with a create of an amount; nil if the bill was not read
	Created func(amount string) evidence.Comparison `json:"-"`
}

// Shows is what the fields of a message show of a bill in a state with a meaning. A bill that can still be paid has no
// values that must not change. read says that the message has all fields of a bill.
func Shows(t *translate.Table, moves ledger.Moves, means string, facts []translate.Fact, read bool) ledger.Shows {
	shows := ledger.Shows{Means: means, Moves: moves, Paid: billing.Paid(t, means), Exact: map[string]string{}}
	done := means != "" && !billing.NeverPaid(t, means)
	shows.Whole = done && read
	for _, f := range facts {
		none := f.Empty || f.NoValue || f.MaybeNoValue
		switch {
		case f.Secret || f.Role == billing.State:
		case f.Role == billing.Amount && !none:
			shows.Amount = f.Text
		case !done:
		case f.Exact && !none:
			shows.Exact[f.Path] = f.Text
		case f.Exact && read:
			shows.Lacks = append(shows.Lacks, f.Path)
		case shows.Paid && read:
			value := ledger.Value{Path: f.Path}
			if !none {
				value.Text = f.Text
			}
			shows.Others = append(shows.Others, value)
		}
	}
	return shows
}

// ShownByCallback returns what the fields of a callback show of a bill, in a state with a meaning of the table.
func ShownByCallback(t *translate.Table, means string, facts []translate.Fact) ledger.Shows {
	return Shows(t, billing.Moves(t), means, facts, false)
}
