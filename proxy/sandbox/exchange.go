package sandbox

import (
	"slices"
	"strings"
	"time"
)

const (
	loggedExchanges = 500      // those that the control API shows
	loggedBody      = 64 << 10 // bytes of a request in them
)

// Facts are what an Exchange is, without secrets and bodies.
type Facts struct {
	Began       time.Time `json:"began"` // by the real clock, as Ended
	Ended       time.Time `json:"ended"`
	Clock       time.Time `json:"clock"`     // by the service's clock, at the begin
	Operation   string    `json:"operation"` // bill.create, …; callback.payment for a callback; none
	Form        string    `json:"form"`
	Bill        string    `json:"bill"` // the bill id that it names
	ContentType string    `json:"content_type"`
	UserAgent   string    `json:"user_agent"`
	// Status is the HTTP status that was sent, or that of the partner's answer; 0 if there was none.
	Status int `json:"status"`
	// Code is what the service decided; 0000 if the operation was carried out. Empty for a callback.
	Code string `json:"code"`
	// Done reports whether the operation was carried out, or the callback accepted.
	Done bool `json:"done"`
	// Before and After are the bill's states as the service keeps them; empty if there is no bill.
	Before string `json:"before"`
	After  string `json:"after"`
}

// An Exchange is one call of a partner, or one attempt to deliver a callback, as the service saw it.
type Exchange struct {
	Facts
	Partner string `json:"partner"` // the key that the call or the callback names
	Method  string `json:"method"`
	// Path is the path and query of a call, and the whole address of a callback.
	Path    string `json:"path"`
	Request Body   `json:"request"` // of the call or callback
	// Reply is the body of the reply, also if it was lost, or the partner's answer.
	Reply Body `json:"reply"`
	// Fault is what changed the exchange.
	Fault Fault `json:"fault,omitzero"`
	// Checked are the checks that were made, in order; none if a fault decided. If the call was refused, the last one
	// refused it, and Field is the path of the wrong field, if it has one.
	Checked []string `json:"checked,omitempty"`
	Field   string   `json:"field,omitempty"`
	// HashText and HashWant are the text that should have been hashed and its hash, if the code is VALIDATION_002.
	HashText string `json:"hash_text,omitempty"`
	HashWant string `json:"hash_want,omitempty"`

	// Number is the place of the exchange in the log, from 1.
	Number int `json:"number"`
	// Curl is a command that sends the request again. Only the log has it.
	Curl string `json:"curl"`
	base string // of the URL of a call
}

// A Body is shown as text.
type Body []byte

// MarshalText returns the body.
func (b Body) MarshalText() ([]byte, error) { return b, nil }

// observe ends an exchange: it is added to the log, and Options.Observe is called.
func (s *Service) observe(x *Exchange) {
	x.Ended = time.Now()
	s.view(func(t *tables) {
		x.After = t.stateOf(x.Partner, x.Bill)
		t.logged++
		x.Number = t.logged
		short := *x
		short.Request = x.Request[:min(len(x.Request), loggedBody)]
		short.Curl = short.curl()
		t.log = append(t.log[max(0, len(t.log)+1-loggedExchanges):], short)
	})
	if s.opt.Observe != nil {
		s.opt.Observe(*x)
	}
}

// stateOf returns the state of a bill, or "".
func (t *tables) stateOf(partner, id string) string {
	if b := t.Bills.get(billKey{partner, id}); b != nil {
		return b.State
	}
	return ""
}

// Exchanges returns the last exchanges, oldest first.
func (s *Service) Exchanges() (list []Exchange) {
	s.view(func(t *tables) { list = slices.Clone(t.log) })
	return list
}

// curl returns a command that sends the request again.
func (x *Exchange) curl() string {
	command := "curl -s"
	for _, word := range []string{
		"-X" + x.Method, "-HContent-Type: " + x.ContentType, "--data-raw", string(x.Request), x.base + x.Path,
	} {
		command += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return command
}
