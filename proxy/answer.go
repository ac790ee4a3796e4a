package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"billbridge/config"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A failure is an answer by which the gateway itself refuses or fails a call: the HTTP status and the code of the catalogue.
type failure struct {
	status int
	code   string
	reason string // for the log
}

// The failures, as README.md lists them. A request that a row of the table refuses has the code of the row.
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
	busy        = failure{http.StatusServiceUnavailable, "MAINTAINED_METHOD", "too many requests in progress"}
	tooMany     = failure{http.StatusTooManyRequests, "MAINTAINED_METHOD", "partner limit"}
	tooManyRows = failure{http.StatusTooManyRequests, "MAINTAINED_METHOD", "too many rows"}
	notStored   = failure{http.StatusServiceUnavailable, "MAINTAINED_METHOD", "store"}

	unowned = failure{http.StatusServiceUnavailable, "MAINTAINED_METHOD", "rollout"} // the owning backend is not known for certain

	wrongAddress = failure{http.StatusBadRequest, "VALIDATION_001", "callback address"}

	readBroke = failure{http.StatusBadGateway, "ERROR", ""}
	readLate  = failure{http.StatusGatewayTimeout, "ERROR", ""}
	internal  = failure{http.StatusInternalServerError, "ERROR", "internal error"}
)

// statusGone is the status in the log and the metrics if the caller disconnected before the answer. It is never sent.
const statusGone = 499

// fail answers with a failure.
func (x *exchange) fail(f failure, text string) { x.refuse(f.status, f.code, text, f.reason) }

// failUnread answers a request whose body is not read to its end, so that its connection cannot be used again.
func (x *exchange) failUnread(f failure, text string) {
	x.w.Header().Set("Connection", "close")
	if f.status == http.StatusServiceUnavailable {
		x.w.Header().Set("Retry-After", "1")
	}
	x.fail(f, text)
}

// refuse answers, in the caller's form, that the call had no effect.
func (x *exchange) refuse(status int, code, text, reason string) {
	x.out.code, x.out.reason = code, reason
	// Clients take any HTTP 200 as the answer to a read: a failure that says nothing about the bill must not look like one.
	unanswered := x.route != nil && x.route.operation.Effect == translate.Read && (status >= http.StatusInternalServerError || status == http.StatusTooManyRequests)
	if x.state.config.Failures.Status == config.Always200 && !unanswered {
		status = http.StatusOK
	}
	_ = x.write(status, x.state.config.Table.AppendFailure(nil, x.client, code, text)) // an error means that the caller has disconnected
}

// answerCallError answers a call that the upstream has not answered.
func (x *exchange) answerCallError(err error) {
	failed := &callError{reason: "reset", text: "the call was interrupted", sent: true}
	errors.As(err, &failed)
	x.sent.unknown = failed.sent
	reason := failed.reason
	if failed.detail != "" {
		reason += ": " + failed.detail
	}
	write := x.route.operation.Effect == translate.Write
	switch {
	case write && !failed.sent && x.in.sendCtx.Err() != nil:
		x.failNotSent()
	case write && failed.sent:
		status := http.StatusBadGateway
		if failed.reason == "timeout" {
			status = http.StatusGatewayTimeout
		}
		x.answerUnknownOutcome(status, failed.text, reason, x.explainUnknownOutcome())
	case x.r.Context().Err() != nil:
		// The caller may have closed its sending direction only: without an answer it would get an empty 200.
		x.refuse(readBroke.status, readBroke.code, "the caller went away", "the caller went away")
		x.out.status = statusGone
	case !failed.sent:
		if failed.after > 0 {
			x.w.Header().Set("Retry-After", wholeSeconds(failed.after))
		}
		x.refuse(notSent.status, notSent.code, "nothing was sent: "+failed.text, reason)
	default:
		f := readBroke
		if failed.reason == "timeout" {
			f = readLate
		}
		x.refuse(f.status, f.code, "no valid answer: "+failed.text, reason)
	}
}

// answerUnknownOutcome answers a write that may have taken effect. The code is null, so that no client can read it as a refusal, and the
// status is never 200, whatever failures.status is.
func (x *exchange) answerUnknownOutcome(status int, text, reason, explanation string) {
	x.out.code, x.out.reason = "", reason
	if billing.Creates(x.route.operation) { // a read does not show the link
		explanation += " If you need the link of a URL bill: when a read shows the bill, destroy it, and use a new id when a read shows it destroyed."
	}
	_ = x.write(status, x.state.config.Table.AppendFailure(nil, x.client, "",
		"outcome unknown: "+text+". The call may have taken effect: read the bill (or the mapping) before you send it again."+explanation))
}

// longestRetryAfter is the longest time of an upstream's Retry-After that is passed on.
const longestRetryAfter = 24 * time.Hour

// retryAfter returns the Retry-After of a reply if it is a number of seconds up to a day or an HTTP date, else "".
func retryAfter(given string) string {
	if given == "" {
		return ""
	}
	if n, err := strconv.ParseUint(given, 10, 32); err == nil && time.Duration(n)*time.Second <= longestRetryAfter {
		return given
	}
	if _, err := http.ParseTime(given); err == nil {
		return given
	}
	return ""
}

// jsonUTF8 is a header value that all answers share. It must not be modified.
var jsonUTF8 = []string{"application/json; charset=utf-8"}

// write sends the answer of the exchange. After an error net/http may still be reading body.
func (x *exchange) write(status int, body []byte) error {
	x.out.status = status
	h := x.w.Header()
	if len(h["Content-Type"]) == 0 {
		h["Content-Type"] = jsonUTF8
	}
	x.values = [...]string{x.id, strconv.Itoa(len(body))} // one allocation, with that of x
	h["X-Request-Id"], h["Content-Length"] = x.values[:1:1], x.values[1:]
	if x.gateway.noKeepAlives.Load() {
		h["Connection"] = []string{"close"}
	}
	// Checked before the first byte is written: a caller may disconnect as soon as it has its answer.
	gone := x.r.Context().Err() != nil
	x.w.WriteHeader(status)
	_, err := x.w.Write(body)
	var flushErr error
	if x.bound != "" || x.route != nil && x.route.targets != nil {
		// The store records the outcome of a create after the answer, so that the partner does not wait for it. Until then
		// the ledger holds the create as pending, which is safe. (HTTP/2 completes an answer only when its handler returns.)
		flushErr = http.NewResponseController(x.w).Flush()
	}
	x.out.gone = gone || err != nil || flushErr != nil && !errors.Is(flushErr, http.ErrNotSupported)
	return err
}

// finish ends the exchange: it answers after a panic, and updates metrics and access log.
func (x *exchange) finish() {
	panicked := recover()
	if x.in.partner != nil {
		defer x.gateway.partnerLimits.leave(x.in.partner)
	}
	// If the answer has begun, the connection is aborted below. The caller sees from Content-Length that the answer is
	// incomplete.
	begun := x.out.status != 0
	if panicked != nil {
		x.answerPanic(panicked, begun)
	}
	x.gateway.observe(x)
	if panicked != nil {
		x.in.body.release(false)
		if begun {
			panic(http.ErrAbortHandler)
		}
		return // the buffers are in an unknown state and are not reused
	}
	if x.call != nil {
		x.call.Release()
	}
	if x.in.readCall != nil {
		x.in.readCall.Release()
	}
	x.in.body.release(true)
}

// answerPanic answers a request whose handler panicked. It logs the type of the panic value and the stack, but not the
// value, which may contain a part of a body.
func (x *exchange) answerPanic(panicked any, begun bool) {
	x.gateway.log.Error("panic", "id", x.id, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
	switch {
	case begun:
		x.out.reason = internal.reason
	case x.route != nil && x.route.operation.Effect == translate.Write && x.sent.unknown:
		x.answerUnknownOutcome(http.StatusBadGateway, "an internal error occurred", internal.reason, "") // explainUnknownOutcome could panic as well
	default:
		x.fail(internal, "an internal error occurred")
	}
}
