package proxy

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"billbridge/proxy/admission"
	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/upstream"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// An exchange is one request of a caller, up to the end of its answer. forward has the steps, in their order. Each
// step returns a value or the failure of the call, and a value does not change after its step.
type exchange struct {
	gateway *Gateway
	state   *state
	w       http.ResponseWriter
	r       *http.Request
	id      string
	start   time.Time
	from    *admission.Source // nil without limits of its own
	client  translate.Form
	route   *route // nil if the path is unknown

	in     received
	asked  asked
	to     routed
	out    outgoing
	sent   forwarded
	answer outcome
}

// received is the request of the caller.
type received struct {
	body    *admission.Body // the calls refer to its bytes
	at      time.Time       // when the whole request had arrived
	sendCtx context.Context // of a write: it is sent only until this context ends
	stop    context.CancelFunc
}

// asked is what the request says.
type asked struct {
	call    *translate.Call // nil until the request is read
	buffer  *bytes.Buffer   // of the translated messages
	request []byte          // in the form of the upstream, if the route has one upstream only
	who     partner.ID      // "" if the key is not known
	counted admission.PartnerCall
}

// routed is where the call goes.
type routed struct {
	target *routeTarget // nil until it is known
	*decision
}

// mayReuse reports whether a read of a bill may get a connection that has carried another call, whose upstream can send
// a second reply at any time. A success of a read that names another bill is not passed on. A refusal, and a success
// without a bill, can be that of another call: it must not decide anything in the ledger.
func (t *routed) mayReuse() bool {
	return !t.route.Deniable && !t.route.Relevant(routing.ReadResult{Result: routing.Absent})
}

// outgoing is the request in the form of the upstream.
type outgoing struct {
	call     *translate.Call // nil until the target is known; it can be that of asked
	request  []byte
	address  string         // the callback address of the gateway in the request; "" if there is none
	held     admission.Held // the memory of the reply
	compared []byte         // the request, if the reply will be compared; else nil
}

// forwarded is what is known of the call to the upstream.
type forwarded struct {
	called bool                // the upstream was called
	failed *upstream.Failure   // nil if there is a reply that can be used, or none yet
	status int                 // of the reply, which is not always that of the answer; 0 without one
	says   billing.Says        // what the reply says; NoReply without one
	state  bool                // the reply has a state of the bill
	lacks  []string            // paths of values that every such reply should have and this one does not
	shown  *routing.ReadResult // what a reply shows of the bill, if the ledger must record it; else nil
	took   time.Duration       // from getting a connection to the end of the reply
	reply  *bytes.Buffer       // nil until it is needed
}

// left reports whether a byte of the call may have left.
func (s *forwarded) left() bool { return s.called && (s.failed == nil || s.failed.Sent) }

// unknown reports whether a byte of the call may have left, and no reply says what became of it.
func (s *forwarded) unknown() bool {
	if s.failed != nil {
		return s.failed.Sent
	}
	return s.called && s.says == billing.NoReply // the call is under way, or a panic has ended it
}

// effect returns what became of the call at the upstream, for the ledger.
func (s *forwarded) effect() ledger.Outcome {
	if s.unknown() {
		return ledger.Unknown
	}
	switch s.says {
	case billing.NoReply: // the call failed before a byte of it left
		return ledger.NotSent
	case billing.Done:
		return ledger.Succeeded
	case billing.Exists:
		return ledger.Taken
	case billing.Refused, billing.CallerRefused:
		return ledger.Refused
	}
	return ledger.Unknown // a failure, or a code after which the write may have been done
}

// An outcome is how the caller is answered, with what metrics and log say about it.
type outcome struct {
	status      int
	body        []byte
	code        string // in the form of the catalogue; "" for no code
	after       string // Retry-After; "" for none
	contentType string // "" for JSON
	unread      bool   // see kind
	passedOn    bool   // the answer is the reply of the upstream
	reason      string // for the log; never a value of a body
	field       string // for the log: the path in a refusal, if the table has it

	values  [2]string // of headers
	gone    bool      // the caller had gone when the answer was due, or while it was written
	written bool      // net/http has the whole answer
	whole   bool      // the caller has it, too, as far as net/http knows
}

// A decision is that of the rollout. It is much larger than the rest of an exchange.
type decision struct {
	call  routing.Call // what the rollout needs of the request
	route routing.Route
}
