package rollout

import (
	"context"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
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
}
