package desk

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/sandbox"
)

// A Record is one entry in the log of a run: a step of the desk, a call of the partner or an attempt to deliver a
// callback, an answer of the order hook, or an error with which a case cannot go on.
type Record struct {
	N      int // from 0
	At     time.Time
	Case   string
	Order  string // a or b
	Amount string // of the order

	Text  string // the step, or tooBusy
	Call  *sandbox.Exchange
	Hook  *Answer
	Want  []string // the states of which the hook has to say one, and how often the order was fulfilled; any if empty
	Times string
	Error string

	attempt *attempt
}

// A Command is what the order hook is told.
type Command struct {
	Order  string      `json:"order"`
	Amount json.Number `json:"amount,omitempty"`
	Phone  string      `json:"phone,omitempty"`
	Name   string      `json:"name,omitempty"`
}

// An Answer is what the order hook says about an order.
type Answer struct {
	State     string   `json:"state"` // new, waiting, paid, refunded, withdrawn or unknown
	Fulfilled int      `json:"fulfilled"`
	Bills     []string `json:"bill_ids"`
	// Amount is what the partner booked for the order; the desk compares it if it is there.
	Amount json.Number `json:"amount,omitempty"`
}

// end is the last step of a case.
const end = "end"

// opCallback is the operation of callbacks.
const opCallback = "callback.payment"

// field returns a field of a message of either form, also inside bill or data. The two names of a field differ in case
// and _ only. If a message has two spellings of a name, the one with the fewest capitals counts, as for the service.
func field(message []byte, name string) (text string) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(message, &members) // no JSON has no field
	for _, k := range slices.Sorted(maps.Keys(members)) {
		switch v := members[k]; plain(k) {
		case "bill", "data":
			text = cmp.Or(field(v, name), text)
		case name:
			if json.Unmarshal(v, &text) != nil {
				text = string(v)
			}
		}
	}
	return text
}

// plain is the name of a field in both forms.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// began is when the record's call began. Records are written when calls end.
func (r Record) began() time.Time {
	if r.Call != nil {
		return r.Call.Began
	}
	return r.At
}

// after reports whether a call began after another one.
func (r Record) after(other Record) bool {
	return cmp.Or(r.began().Compare(other.began()), r.N-other.N) > 0
}

// lost reports whether the partner did not get the reply, or one that it cannot rely on.
func (r Record) lost() bool { return r.Call.Fault.Operation != "" }

// refused reports whether a call was refused with a readable code that is no sign of a failure of the service: nothing
// was done.
func (r Record) refused() bool {
	c := r.Call
	changed := c.Fault.Drop || c.Fault.Truncate || c.Fault.Body != "" || c.Fault.Delay > 0
	return !changed && c.Code != "0000" && (c.Code != "ERROR" || c.Status == 429)
}

// destroyed reports whether a read showed that its bill is destroyed.
func (r Record) destroyed() bool {
	return r.Call.Operation == "bill.read" && !r.lost() && field(r.Call.Reply, "apprstate") == "D"
}
