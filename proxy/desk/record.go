package desk

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"billbridge/proxy/desk/certificate"
	"billbridge/proxy/sandbox"
)

// The kinds of records.
const (
	kindPlan    = "plan"    // the first one
	kindBegin   = "begin"   // of an attempt at a case
	kindStep    = "step"    // what the desk does
	kindCall    = "call"    // a call of the partner, or an attempt to deliver a callback
	kindHook    = "hook"    // an answer of the order hook
	kindError   = "error"   // the case cannot go on
	kindBook    = "book"    // the states of the case's bills at its end, in the service's own book
	kindVerdict = "verdict" // of the attempt
	kindHead    = "head"    // a signature over all records before it
	kindEnd     = "end"     // of the run
	kindReview  = "review"  // after the end: what a person says about a case
)

// A Record is one line of the evidence.
type Record struct {
	N       int       `json:"n"`
	Prev    string    `json:"prev"` // SHA-256 of the line before
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Case    string    `json:"case,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Order   string    `json:"order,omitempty"` // a or b
	Step    int       `json:"step,omitempty"`  // from 1
	Text    string    `json:"text,omitempty"`

	Plan    *Plan             `json:"plan,omitempty"`
	Command *Command          `json:"command,omitempty"`
	Call    *Call             `json:"call,omitempty"`
	Hook    *Answer           `json:"hook,omitempty"`
	Book    map[string]string `json:"book,omitempty"` // bill: state
	Verdict *Verdict          `json:"verdict,omitempty"`
	Head    *Head             `json:"head,omitempty"`

	Review *certificate.Signed `json:"review,omitempty"`
}

// A Command is what the order hook is told.
type Command struct {
	Order  string      `json:"order"`
	Amount json.Number `json:"amount,omitempty"`
	Phone  string      `json:"phone,omitempty"`
}

// An Answer is what the order hook says about an order.
type Answer struct {
	State     string   `json:"state"` // new, waiting, paid, refunded, withdrawn or unknown
	Fulfilled int      `json:"fulfilled"`
	Bills     []string `json:"bill_ids"`
	// Amount is what the partner booked for the order; the desk compares it if it is there.
	Amount json.Number `json:"amount,omitempty"`
}

// A Call is an exchange of the sandbox without secrets.
type Call struct {
	sandbox.Facts
	Request json.RawMessage `json:"request,omitempty"`
	Reply   json.RawMessage `json:"reply,omitempty"`
	Fault   map[string]any  `json:"fault,omitempty"`
	Hashed  string          `json:"hash_text,omitempty"`
	Desk    bool            `json:"desk,omitempty"`   // as the bank; only earlier versions made such calls
	Behind  bool            `json:"behind,omitempty"` // between a gateway and the service
}

// opCallback is the operation of callbacks.
const opCallback = "callback.payment"

// field returns a field of a message of either form, also inside bill or data. The two names of a field differ in case
// and _ only.
func field(message json.RawMessage, name string) (text string, value json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(message, &members) != nil {
		return "", nil
	}
	for k, v := range members {
		if plain(k) == name {
			_ = json.Unmarshal(v, &text)
			if text == "" && !bytes.HasPrefix(v, []byte(`"`)) {
				text = string(v)
			}
			return text, v
		}
	}
	for _, k := range []string{"bill", "data"} {
		if inner := members[k]; len(inner) > 0 {
			if text, value = field(inner, name); value != nil {
				return text, value
			}
		}
	}
	return "", nil
}

// plain is the name of a field in both forms.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// after reports whether a call began after another one. Records are in the order in which calls ended.
func (r Record) after(other Record) bool {
	return r.Call.Began.After(other.Call.Began) || r.Call.Began.Equal(other.Call.Began) && r.N > other.N
}

// lost reports whether the partner did not get the reply, or one that it cannot rely on.
func (c *Call) lost() bool { return len(c.Fault) > 0 }

// shown returns the bill and the state that a read showed to the partner.
func (c *Call) shown() (bill, state string) {
	if c.Operation != "bill.read" || c.Fault["drop"] != nil || c.Fault["truncate"] != nil || c.Status != 200 {
		return "", ""
	}
	bill, _ = field(c.Reply, "billid")
	state, _ = field(c.Reply, "apprstate")
	return bill, state
}

func (c *Call) write() bool {
	return c.Operation == "bill.create" || c.Operation == "bill.destroy" || c.Operation == "bill.cancel"
}
