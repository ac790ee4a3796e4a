package ledger

import "time"

// An Event is something that was seen of a bill: the call by which, and what.
type Event struct {
	Call
	What What
}

// What was seen.
type What interface {
	// apply changes a bill. After an error, it has changed only what the error says.
	apply(env Env, c Call, b *Bill) ([]Contradiction, error)
}

// A Call is the call that an event is about.
type Call struct {
	At        time.Time `json:"at"`
	Operation string    `json:"operation,omitzero"`
	Request   string    `json:"request,omitzero"` // its id, as the access log has it; "" if it is not known
	Upstream  string    `json:"upstream,omitzero"`
	Member    string    `json:"member,omitzero"` // "" if it is not known
	Merchant  string    `json:"merchant,omitzero"`
}

// An Outcome is how a create ended.
type Outcome string

// The outcomes. In doubt it is Unknown.
const (
	Succeeded Outcome = "succeeded" // the upstream answered with a success
	Refused   Outcome = "refused"   // the upstream refused it, but not because the id is used
	Taken     Outcome = "taken"     // the upstream has a bill with that id, from whichever call (BILL_001)
	NotSent   Outcome = "not sent"  // no byte was sent
	Unknown   Outcome = "unknown"
)

// CreateBegun records a create before it is sent; At is when it arrived. It may be sent to the Upstream of the bill
// alone, which need not be that of the event: so all creates of one id go to one backend, through whichever gateways
// they come. If another call that arrived after it was told that there is no such bill, the error is ErrDenied.
type CreateBegun struct {
	Token  string    // unique
	Amount string    // as it can be compared; "" if it is not known
	Until  time.Time // when the bill ends; if that is not after the create, it is estimated
}

// CreateEnded is how a recorded create ended. A create that never ends is taken for one that may have taken effect.
// After a success the bill is owned, even if it does not have the create any more; if by then it is at another
// upstream, the error is ErrOtherOwner, and it is at both. Else a create that the bill does not have is ErrNotOpen.
type CreateEnded struct {
	Token   string
	Outcome Outcome
}

// Created makes the gateway read the bill after a create that succeeded, whether the bill has an owner or not.
type Created struct {
	Amount string // as of CreateBegun, if the bill has no owner
	Next   time.Time
}

// Found is a look that showed a bill of which the owner was not known for certain. If the bill is or may be at another
// upstream, the error is ErrOtherOwner. A bill that was pending before the last restore does not count as recorded: it
// may have been released after the backup, and made at the other upstream. A bill of another merchant keeps its owner,
// but from then on counts as open until it ends, and also at this upstream.
type Found struct{}

// Proved is Found after the answer to a call: what it showed is so already, and decides nothing.
type Proved struct{}

// Denied is the event before a caller is told that there is no such bill. From then on creates that arrived until the
// time of the event are refused, so that the answer stays true. If a create is under way or has an unknown outcome,
// and arrived within
// UnderWay before, the error is ErrInProgress: the caller must not get that answer. An owned bill does not change, as
// its upstream decides on the answer, unless it is of another merchant: its creates can be of this one.
type Denied struct {
	UnderWay time.Duration // how long after its arrival a create may take effect
}

// EndMoved is an operation other than a create that has moved the end of the bill. A bill of another merchant stays as
// it is; one of several merchants gets no earlier end.
type EndMoved struct {
	Until time.Time // as of CreateBegun
}

// WriteUnknown is a write that ended at At without an answer. Read is what a read showed after it.
type WriteUnknown struct {
	Read Reading
	Next time.Time // when the gateway reads the bill
}

// Looked is a read of the bill, which was sent at At. It shows the bill of its merchant: writes of other merchants stay
// as they are. Writes that ended Settles before it cannot take effect later, so that it resolves their outcome. A final
// state resolves all, and the owned bill does not count as open any more. That there is no such bill resolves only
// creates, and only if the bill has no owner and the create named the merchant of the read.
//
// A write that was acknowledged to make a state is no look: it is kept until one shows what became of it.
type Looked struct {
	Read    Reading // with State if it showed the bill; At is set here
	Final   bool    // the bill stays in the state
	Absent  bool    // there is no such bill
	Settles time.Duration
	Said    bool // the state is that of an acknowledged write
	Shows
}

// Shows is what a look shows of a bill that can be compared with what is known of it.
type Shows struct {
	Means  string            // the meaning of its state; "" if that is not known
	Paid   bool              // it means that the bill is paid, and not cancelled
	Moves  Moves             // of the table
	Amount string            // as it can be compared; "" if it shows none
	Exact  map[string]string // values that must not change, by path: those that the message has
	Whole  bool              // it has all that the bill has: it is a read. Only then the next two are set
	Lacks  []string          // paths of such values that it does not have
	Others []Value           // further values of a bill that is paid, in the order of the table
}

// A Value is a value of a bill; Text is "" if there is none.
type Value struct{ Path, Text string }

// Told is a callback that shows the bill. Unlike a look it resolves nothing: its sender is not known for certain.
type Told struct{ Shows }

// ReadEnded is the end of a read that the gateway has made by itself.
type ReadEnded struct {
	Created string    // the request of the create that was read back; "" for none
	Claimed time.Time // the Due of the claim; if it is another by now, something else was planned
	// Next returns when the next read is due; zero: no more.
	Next func(unknownSince, now time.Time) time.Time
}

// Claimed keeps others from reading the bill for a time, if it is to be read.
type Claimed struct{ For time.Duration }

// Dismissed resolves the outcomes of writes because somebody knows them, of one merchant or of all for "".
type Dismissed struct {
	By, Finding string
}

// Interrupted records the creates that were recorded before At and never completed, because their gateway ended, as
// writes without an answer, of each merchant one. Those of the merchant of an owned bill need none: it is there.
type Interrupted struct {
	Finding string // that they were not read
	Next    time.Time
}

// AtBoth is a call that showed a bill at another upstream than its owner. The first such call is kept.
type AtBoth struct{}

// Assigned makes Upstream the owner, whatever is recorded, for all merchants. Creates that are under way do not change
// that.
type Assigned struct{}

// Decides reports whether something is done only because of the event: a create is sent, or a caller gets an answer.
// Such an event counts only for the bill as it is stored, and for its key. All others say what has happened already,
// also if the key has become a further one of a partner meanwhile.
func (e Event) Decides() bool {
	switch e.What.(type) {
	case CreateBegun, Found, Denied, Assigned:
		return true
	}
	return false
}
