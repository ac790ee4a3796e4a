package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"billbridge/config"
	"billbridge/proxy/routing"
	"billbridge/proxy/upstream"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A failure is an answer by which the gateway itself refuses or fails a call.
type failure struct {
	status int
	own    translate.OwnFailure // for which the table has a code
	reason string               // for the log
	code   string               // of the catalogue; "" for that of own
}

// The failures, as README.md lists them. A request that a row of the table refuses has the code of the row. What a
// repetition can cure has 503: some clients take each 4xx as final.
var (
	noSuchPath  = failure{http.StatusNotFound, translate.OwnFailed, "no such path", ""}
	wrongMethod = failure{http.StatusMethodNotAllowed, translate.OwnFailed, "wrong method", ""}
	wrongType   = failure{http.StatusUnsupportedMediaType, translate.OwnInvalid, "wrong content type", ""}
	tooLarge    = failure{http.StatusRequestEntityTooLarge, translate.OwnInvalid, "body too large", ""}
	badBody     = failure{http.StatusBadRequest, translate.OwnInvalid, "body broke off", ""}
	lateBody    = unavailable("body timed out")
	noUpstream  = failure{http.StatusNotFound, translate.OwnNoUpstream, "no upstream for the operation", ""}
	notSent     = unavailable("")
	noMemory    = unavailable("no memory")
	busy        = unavailable("too many requests in progress")
	tooMany     = unavailable("partner limit")
	tooManyRows = unavailable("too many rows")
	notStored   = unavailable("store")
	logUnread   = unavailable("nobody reads the log")

	// The owning backend is not known for certain.
	notOwned = unavailable("rollout")

	wrongAddress = failure{http.StatusBadRequest, translate.OwnInvalid, "callback address", ""}

	readBroke = failure{http.StatusBadGateway, translate.OwnFailed, "", ""}
	readLate  = failure{http.StatusGatewayTimeout, translate.OwnFailed, "", ""}
	internal  = failure{http.StatusInternalServerError, translate.OwnFailed, "internal error", ""}
)

func unavailable(reason string) failure {
	return failure{http.StatusServiceUnavailable, translate.OwnUnavailable, reason, ""}
}

// because returns the failure with another reason for the log.
func (f failure) because(reason string) failure {
	f.reason = reason
	return f
}

// with returns the failure of a call, with a text for its caller: see tell.
func (f failure) with(key string, values ...any) *refusal {
	return &refusal{failure: f, text: tell(key, values...)}
}

// A refusal is the failure of one call: it had no effect.
type refusal struct {
	failure
	text  message
	field string // for the log
	after string // Retry-After; "" for none
}

func (r *refusal) Error() string { return r.reason }

// later returns the refusal of a call that can be sent again after a time: Retry-After is in whole seconds.
func (r *refusal) later(after time.Duration) *refusal {
	r.after = strconv.Itoa(max(1, int(math.Ceil(after.Seconds()))))
	return r
}

// callerGone is the reason for the log if the caller disconnected before the answer.
const callerGone = "the caller went away"

// statusGone is the status in the log and the metrics if the caller disconnected before the answer. It is never sent.
const statusGone = 499

// unread returns a refusal of a request whose body is not read to its end, so that its connection cannot be used
// again.
func (x *exchange) unread(r *refusal) error {
	x.w.Header().Set("Connection", "close")
	if r.status == http.StatusServiceUnavailable {
		r.after = "1"
	}
	return r
}

// failure returns the answer to a call that ended with an error of a step.
func (x *exchange) failure(err error) outcome {
	var (
		ours      *refusal
		untaken   *translate.Refusal
		unowned   *routing.Refused
		forwarded *upstream.Failure
	)
	switch {
	case errors.As(err, &ours):
		return x.refused(ours)
	case errors.As(err, &untaken):
		return x.untranslatable(untaken)
	case errors.As(err, &unowned):
		return x.refused(x.unowned(unowned))
	case errors.As(err, &forwarded):
		x.sent.failed = forwarded
		return x.unanswered(forwarded)
	}
	x.gateway.log.Error("a call failed", "id", x.id, "error", err.Error())
	return x.internalError()
}

// internalError returns the answer to a call that a mistake of the gateway has ended. It makes no call to explain an
// unknown outcome.
func (x *exchange) internalError() outcome {
	if x.route != nil && x.route.operation.Effect == translate.Write && x.sent.unknown() {
		return x.unknownOutcome(http.StatusBadGateway, internal.reason, nil, nil)
	}
	return x.refused(internal.with("internal"))
}

// refused returns the answer, in the caller's form, to a call that had no effect.
func (x *exchange) refused(r *refusal) outcome {
	// Clients take any HTTP 200 as the answer to a read: a failure that says nothing about the bill must not look
	// like one.
	unanswered := x.route != nil && x.route.operation.Effect == translate.Read &&
		r.status >= http.StatusInternalServerError
	out := outcome{after: r.after, reason: r.reason, field: r.field}
	out.code = cmp.Or(r.code, x.state.config.Table.OwnCode(r.own))
	out.status = x.state.config.Table.FailureStatus(x.client, out.code, r.status)
	if out.status == http.StatusServiceUnavailable && x.sent.left() && x.route.operation.Effect == translate.Write {
		out.status, out.after = http.StatusBadGateway, "" // some HTTP clients repeat a POST by themselves after 503
	}
	if x.state.config.Failures.Status == config.Always200 && !unanswered {
		out.status = http.StatusOK
	}
	out.body = x.failureBody(out.code, r.text)
	return out
}

// untranslatable returns the answer to a request that cannot be translated.
func (x *exchange) untranslatable(r *translate.Refusal) outcome {
	text, field := message{r.Reason}, ""
	if r.Field != "" {
		text = append(tell("field", r.Field), r.Reason)
		field = other                                            // the sender chose the name, which must not be logged
		if x.route.target.translation.HasRequestField(r.Field) { // all translations of the route have the same fields
			field = r.Field
		}
	}
	return x.refused(&refusal{failure{http.StatusBadRequest, translate.OwnInvalid, "refused", r.Code}, text, field, ""})
}

// unanswered returns the answer to a call that the upstream has not answered.
func (x *exchange) unanswered(failed *upstream.Failure) outcome {
	reason := string(failed.Kind)
	if failed.Detail != "" {
		reason += ": " + failed.Detail
	}
	late := failed.Kind == upstream.Timeout
	write := x.route.operation.Effect == translate.Write
	switch {
	case write && !failed.Sent && (failed.Kind == upstream.GivenUp || x.in.sendCtx.Err() != nil):
		return x.failure(x.notSent())
	case write && failed.Sent:
		status := http.StatusBadGateway
		if late {
			status = http.StatusGatewayTimeout
		}
		var before, after message
		before, after, x.sent.shown = x.explainUnknownOutcome()
		return x.unknownOutcome(status, reason, before, after)
	case x.r.Context().Err() != nil:
		// The caller may have closed its sending direction only: without an answer it would get an empty 200.
		return x.refused(readBroke.because(callerGone).with("no_answer"))
	case !failed.Sent:
		r := notSent.because(reason).with("not_sent")
		if failed.After > 0 {
			r.later(failed.After)
		}
		return x.refused(r)
	case late:
		return x.refused(readLate.because(reason).with("no_answer"))
	}
	return x.refused(readBroke.because(reason).with("no_answer"))
}

// plainText is the content type of an unknown outcome.
const plainText = "text/plain; charset=utf-8"

// unknownOutcome returns the answer to a write that may have taken effect. It is not JSON: a program that parses it
// gets the error that a dead backend causes, and takes it neither for a refusal nor for an answer. The status is never
// 200, whatever failures.status is. before and after are what a read of the bill showed.
func (x *exchange) unknownOutcome(status int, reason string, before, after message) outcome {
	text := slices.Concat(before, tell("unknown"), after)
	if billing.Creates(x.route.operation) {
		text = slices.Concat(before, tell("unknown_create"), after)
		if billing.HasLink(x.route.operation) { // a read does not show it
			text = append(text, tell("link")...)
		}
	}
	body := []byte(text.in(x.state.config.Failures.Language, x.state.config.Table))
	return outcome{status: status, reason: reason, contentType: plainText, body: body}
}

// longestRetryAfter is the longest time of an upstream's Retry-After that is passed on.
const longestRetryAfter = 24 * time.Hour

// retryAfter returns the Retry-After of a reply if it is a number of seconds up to a day or an HTTP date, else "".
func retryAfter(given string) string {
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

// write sends the answer to the caller. After an error the caller may not have got it, and net/http may still be
// reading its body.
func (x *exchange) write(out outcome) error {
	h := x.w.Header()
	h["Content-Type"] = jsonUTF8
	if out.contentType != "" {
		h.Set("Content-Type", out.contentType)
	}
	if out.after != "" {
		h.Set("Retry-After", out.after)
	}
	x.values = [...]string{x.id, strconv.Itoa(len(out.body))} // one allocation, with that of x
	h["X-Request-Id"], h["Content-Length"] = x.values[:1:1], x.values[1:]
	x.gateway.setConnection(h, x.r)
	// Checked before the first byte is written: a caller may disconnect as soon as it has its answer.
	gone := x.r.Context().Err() != nil
	if x.out = out; out.passedOn {
		x.sent.says = out.says
	}
	if x.sent.held.Taken() && x.in.sendCtx == nil { // the answer to a write does not break off
		defer x.sent.held.WriteWithin(x.w, x.state.config.Timeouts.Write)()
	}
	x.w.WriteHeader(out.status)
	_, err := x.w.Write(out.body)
	var flushErr error
	if x.sent.address != "" || x.route != nil && x.route.targets != nil {
		// The store records the outcome of a create after the answer, so that the partner does not wait for it.
		// Until then the ledger holds the create as pending, which is safe. (HTTP/2 completes an answer only when
		// its handler returns.)
		flushErr = http.NewResponseController(x.w).Flush()
	}
	x.out.gone = gone || err != nil || flushErr != nil && !errors.Is(flushErr, http.ErrNotSupported)
	if out.reason == callerGone {
		x.out.status = statusGone
	}
	x.out.body = nil // the buffer of the answer is used again
	x.answered = true
	return err
}

// finish ends the exchange: it answers after a panic, and updates metrics and access log.
func (x *exchange) finish() {
	panicked := recover()
	if x.counted {
		defer x.gateway.admission.Leave(x.from) // after its memory has been given back
	}
	defer x.gateway.admission.LeavePartner(x.in.partner)
	broken := false // the answer
	if panicked != nil {
		x.gateway.logPanic(x.id, panicked)
		broken = x.out.status != 0 && !x.answered
		x.out.reason = internal.reason
		switch {
		case broken: // the connection is aborted below: the caller sees that the answer is incomplete
			x.out.status, x.out.code = internal.status, ""
		case !x.answered:
			_ = x.write(x.internalError()) // an error means that the caller has disconnected
		}
	}
	x.gateway.observe(x)
	if x.sent.held.Taken() {
		x.sent.held.Keep(0)
	}
	if panicked != nil {
		x.in.body.Release(false)
		if broken {
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
	x.in.body.Release(true)
}

// logPanic logs the type of a panic's value and the stack, but not the value, which may contain a part of a body.
func (g *Gateway) logPanic(id string, panicked any) {
	g.log.Error("panic", "id", id, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
}
