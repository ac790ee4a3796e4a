// Package ledger is the life of a bill: what is known of one, and what each event makes of that. It has no I/O.
//
//	bill, err := ledger.Next(env, bill, ledger.Event{Call: call, What: ledger.CreateBegun{Token: token}})
//	ended := ledger.CreateEnded{Token: token, Outcome: ledger.Succeeded}
//	bill, err = ledger.Next(env, bill, ledger.Event{Call: call, What: ended})
//
// Package store keeps the bills and applies the events. All that a bill has is changed here alone.
package ledger

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"billbridge/proxy/partner"
)

// An Ownership is whether a bill is at its upstream.
type Ownership string

// The ownerships. Only a released bill, or one that nobody has recorded, may be given to another upstream.
const (
	Unrecorded Ownership = ""         // nothing is known of an owner
	Pending    Ownership = "pending"  // it may be there: a create may have been sent
	Owned      Ownership = "owned"    // it is there, for good
	Released   Ownership = "released" // it certainly is not: nothing was sent, or every create was refused
)

// A Bill is what is known of the bills of a partner with one id. Nearly always that is one bill; those of other
// merchants than Merchant only count as AlsoAt. The zero value: nothing is known.
type Bill struct {
	Partner partner.ID `json:"-"` // full
	ID      string     `json:"-"`
	Version int64      `json:"-"` // grows with each event; 0 if the bill is not stored

	Upstream  string    `json:"-"` // where it is or may be; "" for nowhere
	State     Ownership `json:"-"`
	AlsoAt    string    `json:"-"` // where another merchant has or may have a bill with the id; "" for nowhere
	Ends      time.Time `json:"-"` // when it ends; it is removed two years later. 1970 if it is released
	Estimated bool      `json:"-"` // no caller said when it ends
	Ended     time.Time `json:"-"` // when a look showed it destroyed or cancelled; zero if none did
	Denied    time.Time `json:"-"` // when a caller was last told that there is no such bill
	Due       time.Time `json:"-"` // when the gateway reads it next; zero: it does not

	History
	Looks
}

// A History is what calls have done to a bill.
type History struct {
	Merchant  string    `json:"merchant,omitzero"`  // of the call that showed or created it; "" if it is not known
	Creates   []Create  `json:"creates,omitempty"`  // not completed: under way, or interrupted by the end of a gateway
	Uncertain bool      `json:"uncertain,omitzero"` // a create ended Unknown or Taken: it will not be released
	Changed   time.Time `json:"changed,omitzero"`   // when it came into its state
	Tried     time.Time `json:"tried,omitzero"`     // when its last create was recorded; if there was none, as Changed
	Writes    []Write   `json:"writes,omitempty"`   // those that had no answer; of an operation and merchant the last
	Reads     int       `json:"reads,omitzero"`     // how often the gateway has read it since the last of Writes
	Doubled   *Call     `json:"doubled,omitempty"`  // the call that showed it at both upstreams, until it is assigned
	Created   *Call     `json:"created,omitempty"`  // its create, until a read has shown what that made
}

// Looks are what looks have shown of a bill.
type Looks struct {
	Amount string            `json:"amount,omitzero"` // of its create; "" if it is not certain of which
	Seen   Sight             `json:"seen,omitzero"`   // the furthest state that a look showed
	Said   Sight             `json:"said,omitzero"`   // the state that a write was acknowledged to make, until a look
	Exact  map[string]string `json:"exact,omitempty"` // what must not change: digests, by state and path
	Doubt  *Contradiction    `json:"doubt,omitempty"` // waits for a second look
}

// A Create is a create that was recorded and has not ended.
type Create struct {
	Token    string `json:"token"` // unique among those of the bill
	Member   string `json:"member,omitzero"`
	Merchant string `json:"merchant,omitzero"`
	Amount   string `json:"amount,omitzero"`
}

// A Sight is a state of a bill, with the call by which it was first seen.
type Sight struct {
	Means string `json:"means,omitzero"` // the meaning of the state; "" for none
	Call
}

// A Write is a call without an answer, so that its outcome is unknown until a look resolves it.
type Write struct {
	Call
	Read     Reading   `json:"read"`              // the last one that showed something
	Resolved time.Time `json:"resolved,omitzero"` // when; zero: the outcome is still unknown
}

// A Reading is what a read showed of a bill.
type Reading struct {
	Finding string    `json:"finding,omitzero"` // in the words of the program
	State   string    `json:"state,omitzero"`   // "" if the read did not show the bill
	Amount  string    `json:"amount,omitzero"`
	At      time.Time `json:"at,omitzero"`
	By      string    `json:"by,omitzero"` // who read
}

// OfOther reports whether the bill is of another merchant than that of a call. A backend may hide the bill from the
// call, and the bill of the call may be at another upstream.
func (b *Bill) OfOther(merchant string) bool { return !sameMerchant(b.Merchant, merchant) }

// sameMerchant reports whether two merchants can be the same: one that is not known can be any.
func sameMerchant(a, b string) bool { return a == "" || b == "" || a == b }

// Unresolved is the number of writes whose outcome is unknown.
func (b *Bill) Unresolved() (n int) {
	for _, w := range b.Writes {
		if w.Resolved.IsZero() {
			n++
		}
	}
	return n
}

// Unknown reports whether a write of the bill has an unknown outcome.
func (b *Bill) Unknown() bool { return !b.UnknownSince().IsZero() }

// UnknownSince is when the first write ended whose outcome is unknown; zero if there is none.
func (b *Bill) UnknownSince() (since time.Time) {
	for _, w := range b.Writes {
		if w.Resolved.IsZero() && (since.IsZero() || w.At.Before(since)) {
			since = w.At
		}
	}
	return since
}

// ResolvedAt is when the last outcome was resolved; zero if none was.
func (b *Bill) ResolvedAt() (at time.Time) {
	for _, w := range b.Writes {
		at = latest(at, w.Resolved)
	}
	return at
}

// LastWrite is the last write without an answer that named a merchant, of one merchant or of all for ""; zero if there
// is none.
func (b *Bill) LastWrite(of string) (last Write) {
	for _, w := range b.Writes {
		if w.Merchant != "" && (of == "" || w.Merchant == of) && !w.At.Before(last.At) {
			last = w
		}
	}
	return last
}

// DoubledAt is when it was seen that both upstreams have the bill; zero if it was not.
func (b *Bill) DoubledAt() time.Time {
	if b.Doubled == nil {
		return time.Time{}
	}
	return b.Doubled.At
}

// recorded reports whether the bill has an owner, or had one.
func (b *Bill) recorded() bool { return b.State != Unrecorded }

// clone returns a copy that shares nothing that events change.
func (b Bill) clone() Bill {
	b.Creates, b.Writes, b.Exact = slices.Clone(b.Creates), slices.Clone(b.Writes), maps.Clone(b.Exact)
	return b
}

// Same reports whether two bills are equal in all but their versions.
func (b Bill) Same(as Bill) bool {
	b.Version = as.Version
	return reflect.DeepEqual(b, as)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Merge merges a bill that is stored under two keys of one partner. ok is false if they name different backends: then a
// person must decide.
func Merge(a, b Bill) (both Bill, ok bool) {
	both, b = a.clone(), b.clone()
	here := func(b Bill) bool { return b.State == Pending || b.State == Owned }
	switch {
	case !here(b) && (a.recorded() || !b.recorded()): // it says at most that there was no such bill
	case !here(a):
		both.Upstream, both.State, both.AlsoAt, both.Merchant = b.Upstream, b.State, b.AlsoAt, b.Merchant
		both.Creates, both.Uncertain, both.Changed, both.Tried = b.Creates, b.Uncertain, b.Changed, b.Tried
		both.Ends, both.Estimated, both.Ended = latest(a.Ends, b.Ends), b.Estimated, b.Ended
	case a.Upstream != b.Upstream || a.AlsoAt != b.AlsoAt && a.AlsoAt != "" && b.AlsoAt != "":
		return a, false
	default:
		if both.AlsoAt += b.AlsoAt; a.AlsoAt == b.AlsoAt {
			both.AlsoAt = a.AlsoAt
		}
		if a.OfOther(b.Merchant) && both.AlsoAt == "" {
			both.AlsoAt = a.Upstream
		}
		if b.State == Owned {
			both.own(b.Changed)
		}
		both.Creates = append(both.Creates, b.Creates...)
		both.Uncertain, both.Tried = a.Uncertain || b.Uncertain, latest(a.Tried, b.Tried)
		both.extend(b.Ends, b.Estimated)
		if a.Ended.IsZero() || b.Ended.IsZero() { // one of them can be open
			both.Ended = time.Time{}
		}
	}
	both.Denied = latest(a.Denied, b.Denied)
	for _, w := range b.Writes {
		both.addWrite(w)
	}
	if !b.Due.IsZero() {
		both.plan(b.Due)
	}
	both.Doubled, both.Created = cmp.Or(both.Doubled, b.Doubled), cmp.Or(both.Created, b.Created)
	return both, true
}
