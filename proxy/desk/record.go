package desk

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/sandbox"
)

// A Record is one entry in the log of a run: a step of the desk, a call of the partner or an attempt to deliver a
// callback, an answer of the order hook, an error with which a case cannot go on, or the states of an order's bills at
// the end of the case, in the service's own book.
type Record struct {
	N      int // from 1
	At     time.Time
	Case   string
	Order  string // a or b
	Amount string // of the order

	Text  string // the step
	Call  *sandbox.Exchange
	Hook  *Answer
	Error string
	Book  map[string]string // bill: state
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

// opCallback is the operation of callbacks.
const opCallback = "callback.payment"

// field returns a field of a message of either form, also inside bill or data. The two names of a field differ in case
// and _ only. If a message has two spellings of a name, the one with the fewest capitals counts, as for the service.
func field(message []byte, name string) (text string) {
	var whole map[string]json.RawMessage
	_ = json.Unmarshal(message, &whole) // no JSON has no field
	for _, part := range []json.RawMessage{message, whole["bill"], whole["data"]} {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(part, &members)
		for _, k := range slices.Backward(slices.Sorted(maps.Keys(members))) {
			if plain(k) != name {
				continue
			}
			if json.Unmarshal(members[k], &text) != nil {
				text = string(members[k])
			}
			return text
		}
	}
	return ""
}

// parse returns a JSON object, or nil.
func parse(body []byte) (v map[string]any) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	_ = dec.Decode(&v)
	return v
}

// plain is the name of a field in both forms.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// after reports whether a call began after another one. Records are in the order in which calls ended.
func (r Record) after(other Record) bool {
	return r.Call.Began.After(other.Call.Began) || r.Call.Began.Equal(other.Call.Began) && r.N > other.N
}

// lost reports whether the partner did not get the reply, or one that it cannot rely on.
func (r Record) lost() bool { return r.Call.Fault.Operation != "" }

// shown returns the bill and the state that a read showed to the partner.
func (r Record) shown() (bill, state string) {
	if c := r.Call; c.Operation == "bill.read" && !c.Fault.Drop && !c.Fault.Truncate && c.Status == 200 {
		bill = field(c.Reply, "billid")
		state = field(c.Reply, "apprstate")
	}
	return bill, state
}
