package proxy

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/routing"
	"billbridge/proxy/upstream"
	"billbridge/translate"
)

// A kind is why a call has no answer of an upstream: a row of the table below.
type kind struct {
	status int                  // HTTP
	own    translate.OwnFailure // for which the table has a code; "" for an unknown outcome, which has none
	reason string               // for the log
	text   string               // the row of texts.yaml
}

// The kinds, as README.md lists them. What a repetition can cure has 503: some clients take each 4xx as final.
var (
	// The request. One that a row of the table refuses has the code of the row.
	noSuchPath   = kind{404, translate.OwnFailed, "no such path", "path"}
	wrongMethod  = kind{405, translate.OwnFailed, "wrong method", "method"}
	wrongType    = kind{415, translate.OwnInvalid, "wrong content type", "content_type"}
	twoLengths   = kind{400, translate.OwnInvalid, "two lengths", "two_lengths"}
	tooLarge     = kind{413, translate.OwnInvalid, "body too large", "body_too_large"}
	badBody      = kind{400, translate.OwnInvalid, "body broke off", "body_incomplete"}
	lateBody     = unavailable("body timed out", "body_late")
	noUpstream   = kind{404, translate.OwnNoUpstream, "no upstream for the operation", "unavailable"}
	refused      = kind{400, translate.OwnInvalid, "refused", "field"}
	wrongAddress = kind{400, translate.OwnInvalid, "callback address", "field"}

	// A limit is reached.
	busy        = unavailable("too many requests in progress", "busy")
	noMemory    = unavailable("no memory", "busy")
	tooMany     = unavailable("partner limit", "in_flight")
	tooFast     = unavailable("partner limit", "rate")
	tooManyRows = unavailable("too many rows", "unproven")

	// Nothing was sent.
	notSent          = unavailable("", "not_sent")
	notStored        = unavailable("store", "not_sent")
	logUnread        = unavailable("nobody reads the log", "not_sent")
	tooLate          = unavailable("too late", "not_sent")
	tooLateInRollout = unavailable("rollout: too late", "not_sent")
	callerLeft       = unavailable(callerGone, "nothing_sent")

	// The owning backend is not known for certain. A client sends a call again for ever if its code looks like
	// maintenance: a permanent refusal has another one.
	reloaded     = unavailable("rollout", "not_sent")
	uncertain    = unavailable("rollout", "uncertain")
	unchangeable = kind{409, translate.OwnInvalid, "rollout", "unchangeable"}
	beingCreated = unavailable("rollout", "being_created")
	denied       = unavailable("rollout", "denied")
	ledgerDown   = unavailable("rollout", "later")

	// The upstream has not answered. Only a write has an unknown outcome.
	readBroke   = kind{502, translate.OwnFailed, "", "no_answer"}
	readLate    = kind{504, translate.OwnFailed, "", "no_answer"}
	readerLeft  = kind{502, translate.OwnFailed, callerGone, "no_answer"}
	internal    = kind{500, translate.OwnFailed, "internal error", "internal"}
	lostOutcome = kind{502, "", "", "unknown"}
	lateOutcome = kind{504, "", "", "unknown"}
)

// unavailable returns a kind that a repetition can cure.
func unavailable(reason, text string) kind {
	return kind{503, translate.OwnUnavailable, reason, text}
}

// unownedKinds are the kinds for the reasons of the rollout; the others are uncertain.
var unownedKinds = map[string]kind{"making": beingCreated, "denied": denied, "store": ledgerDown}

// A failure is why one call has no answer of an upstream: a kind, with what differs from call to call.
type failure struct {
	kind
	code  string  // of the catalogue; "" for that of own
	says  message // to the caller
	field string  // for the log
	after string  // Retry-After; "" for none

	// unread: the body is not read to its end, so that its connection cannot be used again.
	unread bool
}

// with returns the failure of a call, with the values of its text.
func (k kind) with(values ...any) *failure { return &failure{kind: k, says: tell(k.text, values...)} }

// because sets the reason for the log.
func (f *failure) because(reason string) *failure {
	f.reason = reason
	return f
}

// later says that the call can be sent again after a time: Retry-After is in whole seconds.
func (f *failure) later(after time.Duration) *failure {
	f.after = strconv.Itoa(max(1, int(math.Ceil(after.Seconds()))))
	return f
}

// closing says that the body is not read to its end. A repetition that may help need not wait for long.
func (f *failure) closing() *failure {
	if f.unread = true; f.own == translate.OwnUnavailable {
		f.after = "1"
	}
	return f
}

// callerGone is the reason for the log if the caller disconnected before the answer.
const callerGone = "the caller went away"

// untranslatable returns the failure of a request that cannot be translated.
func (r *route) untranslatable(err error) *failure {
	refusal := err.(*translate.Refusal) // no other error is possible: a panic is answered as an internal error
	f := refused.with()
	f.code, f.says = refusal.Code, message{refusal.Reason}
	if refusal.Field != "" {
		if strings.HasPrefix(refusal.Reason.Format, translate.NoPlace) { // the text can reach a customer
			f.says = append(f.says, tell("of_field", refusal.Field)...)
		} else {
			f.says = append(tell("field", refusal.Field), refusal.Reason)
		}
		f.field = other                                          // the sender chose the name, which must not be logged
		if r.target.translation.HasRequestField(refusal.Field) { // all translations of the route have the same fields
			f.field = refusal.Field
		}
	}
	return f
}

// unowned returns the failure of a call that the rollout has refused.
func (x *exchange) unowned(err error) *failure {
	r, ok := errors.AsType[*routing.Refused](err)
	if !ok {
		x.gateway.log.Error("a call failed", "id", x.id, "error", err.Error())
		return x.sent.internal(x.route)
	}
	if r.Cause != nil && x.r.Context().Err() == nil {
		x.gateway.storeError(x.id, "the ledger is unreachable", r.Cause)
	}
	k, ok := unownedKinds[r.Reason]
	if !ok {
		k = uncertain
	}
	f := k.with()
	switch {
	case r.Permanent:
		f = unchangeable.with()
		if x.route.operation.Created != "" { // so that no client takes the create for one without an effect
			f.code = x.state.config.Table.CodeThatMeans(translate.Exists)
		}
	case k == ledgerDown:
		f.after = "1"
	}
	if !x.sent.called {
		f.says = append(f.says, tell("nothing_sent")...)
	}
	return f.because(f.reason + ": " + r.Error())
}

// unanswered returns the failure of a call that the upstream has not answered.
func (x *exchange) unanswered(failed *upstream.Failure) *failure {
	reason, late := string(failed.Kind), failed.Kind == upstream.Timeout
	if failed.Detail != "" {
		reason += ": " + failed.Detail
	}
	write := x.route.operation.Effect == translate.Write
	switch {
	case write && !failed.Sent && (failed.Kind == upstream.GivenUp || x.in.sendCtx.Err() != nil):
		return cmp.Or(x.tooLate(), logUnread.with())
	case write && failed.Sent && late:
		return lateOutcome.with().because(reason)
	case write && failed.Sent:
		return lostOutcome.with().because(reason)
	case x.r.Context().Err() != nil:
		// The caller may have closed its sending direction only: without an answer it would get an empty 200.
		return readerLeft.with()
	case !failed.Sent && failed.After > 0:
		return notSent.with().because(reason).later(failed.After)
	case !failed.Sent:
		return notSent.with().because(reason)
	case late:
		return readLate.with().because(reason)
	}
	return readBroke.with().because(reason)
}

// internal returns the failure of a call of a route, nil if the path is unknown, that a mistake of the gateway has
// ended.
func (s *forwarded) internal(r *route) *failure {
	if r != nil && r.operation.Effect == translate.Write && s.unknown() {
		return lostOutcome.with().because(internal.reason)
	}
	return internal.with()
}

// failure returns the answer to a call that has failed, in the caller's form. That of an unknown outcome is not JSON: a
// program that parses it gets the error that a dead backend causes, and takes it neither for a refusal nor for an
// answer. Its status is never 200, whatever failures.status is.
func (x *exchange) failure(f *failure) outcome {
	c := x.state.config
	text := f.says.in(c.Failures.Language, c.Table)
	out := outcome{status: f.status, after: f.after, reason: f.reason, field: f.field, unread: f.unread}
	if f.own == "" {
		out.contentType, out.body = "text/plain; charset=utf-8", []byte(text)
		return out
	}
	write := x.route != nil && x.route.operation.Effect == translate.Write
	// Clients take any HTTP 200 as the answer to a read: a failure that says nothing about the bill must not look
	// like one.
	unanswered := x.route != nil && !write && f.status >= http.StatusInternalServerError
	out.code = cmp.Or(f.code, c.Table.Own[f.own])
	out.status = c.Table.Envelope(x.client).FailureStatus(out.code, f.status)
	if out.status == http.StatusServiceUnavailable && write && x.sent.left() {
		out.status, out.after = http.StatusBadGateway, "" // some HTTP clients repeat a POST by themselves after 503
	}
	if c.Failures.Status == config.Always200 && !unanswered {
		out.status = http.StatusOK
	}
	out.body = c.Table.Envelope(x.client).AppendFailure(nil, out.code, text)
	return out
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

// write sends the answer to the caller, which may not get it.
func (x *exchange) write(out outcome) {
	h := x.w.Header()
	h["Content-Type"] = jsonUTF8
	if out.contentType != "" {
		h.Set("Content-Type", out.contentType)
	}
	if out.after != "" {
		h.Set("Retry-After", out.after)
	}
	if out.unread {
		h.Set("Connection", "close")
	}
	out.values = [...]string{x.id, strconv.Itoa(len(out.body))}
	x.gateway.keepAlives.set(h, x.r)
	// Checked before the first byte is written: a caller may disconnect as soon as it has its answer.
	gone := x.r.Context().Err() != nil
	x.answer = out
	// One allocation, with that of x.
	h["X-Request-Id"], h["Content-Length"] = x.answer.values[:1:1], x.answer.values[1:]
	if x.out.held.Taken() && x.in.sendCtx == nil { // the answer to a write does not break off
		defer x.out.held.WriteWithin(x.w, x.state.config.Timeouts.Write)()
	}
	x.w.WriteHeader(out.status)
	_, err := x.w.Write(out.body)
	var flushErr error
	if x.out.address != "" || x.route != nil && x.route.targets != nil {
		// The store records the outcome of a create after the answer, so that the partner does not wait for it.
		// Until then the ledger holds the create as pending, which is safe. (HTTP/2 completes an answer only when
		// its handler returns.)
		flushErr = http.NewResponseController(x.w).Flush()
	}
	x.answer.gone = gone || err != nil || flushErr != nil && !errors.Is(flushErr, http.ErrNotSupported)
	if out.reason == callerGone {
		x.answer.status = statusGone
	}
	x.answer.written, x.answer.whole = true, err == nil
}

// tooLate returns why a write must not be sent any more, or nil. A caller that gave up may send the bill again, and
// while nobody reads the log an unknown outcome would be in none.
func (x *exchange) tooLate() *failure {
	switch sendCtx := x.in.sendCtx; {
	case sendCtx == nil:
	case x.r.Context().Err() != nil:
		return callerLeft.with()
	case sendCtx.Err() != nil && x.route.targets != nil:
		return tooLateInRollout.with()
	case sendCtx.Err() != nil:
		return tooLate.with()
	case accesslog.Unread(x.gateway.log):
		return logUnread.with()
	}
	return nil
}
