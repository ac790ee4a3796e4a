package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"

	"billbridge/config"
	"billbridge/translate"
)

// A failure is a kind of refusal of our own: its HTTP status and its code of the catalogue.
type failure struct {
	status int
	code   string
	reason string // for the log
}

// Every failure that is ours, as README.md lists them. What a row of the table refuses has its own code.
var (
	noSuchPath  = failure{http.StatusNotFound, "ERROR", "no such path"}
	wrongMethod = failure{http.StatusMethodNotAllowed, "ERROR", "wrong method"}
	wrongType   = failure{http.StatusUnsupportedMediaType, "VALIDATION_001", "wrong content type"}
	tooLarge    = failure{http.StatusRequestEntityTooLarge, "VALIDATION_001", "body too large"}
	badBody     = failure{http.StatusBadRequest, "VALIDATION_001", "body broke off"}
	lateBody    = failure{http.StatusBadRequest, "VALIDATION_001", "body timed out"}
	noUpstream  = failure{http.StatusNotFound, "PARTNER_001", "no upstream for the operation"}
	notSent     = failure{http.StatusServiceUnavailable, "MAINTAINED_METHOD", ""}
	noMemory    = failure{http.StatusServiceUnavailable, "MAINTAINED_METHOD", "no memory"}
	notStored   = failure{http.StatusServiceUnavailable, "MAINTAINED_METHOD", "store"}

	unowned = failure{http.StatusServiceUnavailable, "MAINTAINED_METHOD", "rollout"}

	wrongAddress = failure{http.StatusBadRequest, "VALIDATION_001", "callback address"}

	readBroke = failure{http.StatusBadGateway, "ERROR", ""}
	readLate  = failure{http.StatusGatewayTimeout, "ERROR", ""}
	internal  = failure{http.StatusInternalServerError, "ERROR", "internal error"}
)

// statusGone is what the log calls an exchange whose caller went away. Nobody is there to get it.
const statusGone = 499

// fail answers with a failure of ours.
func (x *exchange) fail(f failure, text string) { x.refuse(f.status, f.code, text, f.reason) }

// refuse answers in the caller's form that nothing happened.
func (x *exchange) refuse(status int, code, text, reason string) {
	x.out.code, x.out.reason = code, reason
	if x.state.config.Failures.Status == config.Always200 {
		status = http.StatusOK
	}
	_ = x.write(status, x.state.config.Table.AppendFailure(nil, x.client, code, text)) // a caller that has gone cannot be told
}

// broke answers a call that has no answer of the upstream's.
func (x *exchange) broke(err error) {
	b := &broken{reason: "reset", text: "the call broke off", sent: true}
	errors.As(err, &b)
	x.sent.unknown = b.sent
	reason := b.reason
	if b.detail != "" {
		reason += ": " + b.detail
	}
	write := x.route.operation.Effect == translate.Write
	switch {
	case write && !b.sent && x.in.while.Err() != nil:
		x.giveUp()
	case write && b.sent:
		status := http.StatusBadGateway
		if b.reason == "timeout" {
			status = http.StatusGatewayTimeout
		}
		x.unknown(status, b.text, reason, x.explain())
	case x.r.Context().Err() != nil:
		// It may only have closed its side: an answer is due all the same, and an empty one would be a 200.
		x.refuse(readBroke.status, readBroke.code, "the caller went away", "the caller went away")
		x.out.status = statusGone
	case !b.sent:
		x.refuse(notSent.status, notSent.code, "the upstream did not take the call, nothing was sent: "+b.text, reason)
	default:
		f := readBroke
		if b.reason == "timeout" {
			f = readLate
		}
		x.refuse(f.status, f.code, "the upstream did not answer: "+b.text, reason)
	}
}

// unknown answers a write that may have been done. Its code is null, which no client can read as a refusal, and
// its status is never 200, whatever the config says of failures.
func (x *exchange) unknown(status int, text, reason, explanation string) {
	x.out.code, x.out.reason = "", reason
	_ = x.write(status, x.state.config.Table.AppendFailure(nil, x.client, "",
		"outcome unknown: "+text+". It may have been done: read the bill (or the mapping) before you send it again."+explanation))
}

// Header values that every answer shares.
var jsonUTF8 = []string{"application/json; charset=utf-8"}

// write sends the one answer of the exchange. After an error somebody may still be reading body.
func (x *exchange) write(status int, body []byte) error {
	x.out.status = status
	h := x.w.Header()
	if len(h["Content-Type"]) == 0 {
		h["Content-Type"] = jsonUTF8
	}
	h["X-Request-Id"] = []string{x.id}
	if x.gateway.leaving.Load() {
		h["Connection"] = []string{"close"}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	// Noted before the first byte leaves: a caller that has its answer may hang up at once, and did not go before it.
	gone := x.r.Context().Err() != nil
	x.w.WriteHeader(status)
	_, err := x.w.Write(body)
	var flushed error
	if x.route != nil && x.route.targets != nil {
		// The partner need not wait for the ledger to note how a create ended: until then it counts as one that may have been
		// made, which it was before. (HTTP/2 ends an answer with its handler, and waits all the same.)
		flushed = http.NewResponseController(x.w).Flush()
	}
	x.out.gone = gone || err != nil || flushed != nil && !errors.Is(flushed, http.ErrNotSupported)
	return err
}

// finish ends the exchange: a panic becomes an answer, and one call watches the whole of it.
func (x *exchange) finish() {
	panicked := recover()
	// An answer that had begun cannot be taken back. Its Content-Length keeps the caller from taking a part of it
	// for the whole, when the connection is given up below.
	begun := x.out.status != 0
	if panicked != nil {
		x.survive(panicked, begun)
	}
	x.gateway.logAccess(x)
	if panicked != nil {
		x.in.body.release(false)
		if begun {
			panic(http.ErrAbortHandler)
		}
		return // what it held is in an unknown state and is not used again
	}
	if x.call != nil {
		x.call.Release()
	}
	if x.in.read != nil {
		x.in.read.Release()
	}
	x.in.body.release(!x.sent.busy)
}

// survive answers a request in which something panicked. What is in the panic's value may come from a body, so
// the log gets its type and the stack alone.
func (x *exchange) survive(panicked any, begun bool) {
	x.gateway.log.Error("panic", "id", x.id, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
	switch {
	case begun:
		x.out.reason = internal.reason
	case x.route != nil && x.route.operation.Effect == translate.Write && x.sent.unknown:
		x.unknown(http.StatusBadGateway, "something failed here", internal.reason, "") // what failed may be what would be asked
	default:
		x.fail(internal, "something failed here")
	}
}
