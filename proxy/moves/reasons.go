package moves

import (
	"fmt"
	"slices"
	"strings"

	"billbridge/proxy/evidence"
)

// A BlockingReason is a reason against a change. Its kind is for programs, its text for people.
type BlockingReason struct {
	Kind ReasonKind    `json:"kind"`
	Text evidence.Note `json:"text"`
}

// A ReasonKind is the kind of a blocking reason.
type ReasonKind string

// The kinds of reasons. README.md describes them.
const (
	Unsettled      ReasonKind = "settling"        // the settling period of the partner is not over
	Unproven       ReasonKind = "verdict"         // a verdict that the stage needs is not PASS
	Unpaid         ReasonKind = "paid"            // too few of the bills that were compared are paid
	Uncarried      ReasonKind = "calls"           // the backend cannot carry calls that the partner makes
	Undrained      ReasonKind = "open_bills"      // bills at the old backend may be open
	WrongClock     ReasonKind = "clock"           // the clock differs from that of the store
	MoneyElsewhere ReasonKind = "money_elsewhere" // an exact field of another partner differs at the same backend
	FromStore      ReasonKind = "restored"        // the store was restored from a backup
	AtNew          ReasonKind = "bills_at_new"    // the ledger of a new store has bills at the new backend
	// a backend does not have the bill that gets an owner, or cannot be read
	NotAtBoth ReasonKind = "not_at_both"
	// a newer callback of the bill was delivered, or waits, when one is replayed
	Newer     ReasonKind = "newer"
	Unchecked ReasonKind = "unchecked" // a precondition could not be checked
)

// ReasonKinds are all of them.
var ReasonKinds = []ReasonKind{
	Unsettled, Unproven, Unpaid, MoneyElsewhere, Uncarried, Undrained, WrongClock, FromStore, AtNew, NotAtBoth,
	Newer, Unchecked,
}

// KindsOf returns the kinds of reasons, each once.
func KindsOf(reasons []BlockingReason) (kinds []ReasonKind) {
	for _, reason := range reasons {
		if !slices.Contains(kinds, reason.Kind) {
			kinds = append(kinds, reason.Kind)
		}
	}
	return kinds
}

// JoinKinds separates kinds by commas.
func JoinKinds(kinds []ReasonKind) string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, ",")
}

// A Blocked config cannot take effect, for reasons against its default stage.
type Blocked struct {
	From, To string // the default stages
	Reasons  []BlockingReason
}

// Error names the kinds of the reasons. Package operate has their words.
func (b *Blocked) Error() string {
	return fmt.Sprintf("rollout.default is %s, was %s: not changed, for the reasons %s", b.To, b.From,
		JoinKinds(KindsOf(b.Reasons)))
}
