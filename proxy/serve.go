package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/admission"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/relay"
	"billbridge/proxy/upstream"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// undecided is the decision if no rollout decides. It must not be modified.
var undecided = new(decision)

// ServeHTTP answers a call of a partner or a callback of an upstream.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.relay != nil && relay.Owns(r.URL.EscapedPath()) {
		g.AnswerCallback(w, r)
		return
	}
	if g.answersPage(w, r) {
		return
	}
	from, ok := g.admission.Enter(r)
	if ok {
		defer g.admission.Leave(from) // after the memory of the exchange has been given back
	}
	x := newExchange(g, w, r)
	x.from = from
	defer x.finish()
	if !ok {
		x.write(x.failure(busy.with().closing()))
		return
	}
	x.serve()
}

func newExchange(g *Gateway, w http.ResponseWriter, r *http.Request) *exchange {
	s := g.current.Load()
	x := &exchange{gateway: g, state: s, w: w, r: r, start: time.Now(), id: requestID(r.Header["X-Request-Id"])}
	x.to.decision = undecided
	if x.route = s.match(r); x.route == nil {
		x.client = s.formOf(r.URL)
		return x
	}
	if x.client = x.route.client; x.route.targets == nil {
		x.to.target = x.route.target
	}
	return x
}

// serve answers the request.
func (x *exchange) serve() {
	// The listener set its write deadline by the config of its start. A reload may have extended the timeouts.
	if deadline := x.gateway.answerWithin; deadline > 0 && x.state.answerWithin > deadline {
		_ = http.NewResponseController(x.w).SetWriteDeadline(x.start.Add(x.state.answerWithin))
	}
	answer, failed := x.forward()
	if failed != nil {
		answer = x.failure(failed)
	}
	x.in.stop()
	x.write(answer)
	if answer.passedOn && x.out.compared != nil {
		x.compare()
	}
}

// forward carries the request to an upstream, and returns the answer to the caller.
func (x *exchange) forward() (answer outcome, failed *failure) {
	if x.in, failed = x.receive(); failed != nil {
		return answer, failed
	}
	if x.asked, failed = x.read(); failed != nil {
		return answer, failed
	}
	if x.route.targets != nil {
		if x.to, failed = x.decide(); failed != nil {
			return answer, failed
		}
	}
	if probed := x.to.route.Answer; x.to.route.Answered {
		return outcome{status: probed.Status, body: x.state.maskHosts(probed.Body, x.client), code: probed.Code}, nil
	}
	if x.out, failed = x.translate(); failed != nil {
		return answer, failed
	}
	x.sent.called = true // if send panics
	var reply httpconn.Reply
	var body []byte
	if x.sent, reply, body = x.send(); x.sent.failed != nil {
		return answer, x.unanswered(x.sent.failed)
	}
	if failed = x.withheld(); failed != nil {
		return answer, failed
	}
	return x.passOn(&reply, body), nil
}

// receive checks the head of the request, and reads its body, up to the limit.
func (x *exchange) receive() (in received, failed *failure) {
	in.stop = func() {}
	switch {
	case x.route == nil:
		return in, noSuchPath.with(cmp.Or(x.state.config.BasePath, "/"))
	case x.r.Method != http.MethodPost:
		x.w.Header().Set("Allow", http.MethodPost)
		return in, wrongMethod.with()
	case !isJSON(x.r.Header):
		return in, wrongType.with()
	case hasTwoLengths(x.r):
		return in, twoLengths.with().closing()
	}
	limit := int64(x.state.config.Limits.Body)
	var err error
	in.body, err = x.gateway.admission.Read(x.w, x.r, x.from, limit, x.state.config.Timeouts.Body)
	write := x.route.operation.Effect == translate.Write
	switch {
	case errors.Is(err, admission.ErrTooLong):
		return in, tooLarge.with(limit).closing()
	case errors.Is(err, admission.ErrNoMemory):
		return in, noMemory.with().closing()
	case errors.Is(err, httpconn.ErrTimeout):
		return in, lateBody.with().closing()
	case err != nil:
		return in, badBody.with().closing()
	case x.route.target == nil:
		return in, noUpstream.with()
	case write && accesslog.Unread(x.gateway.log):
		return in, logUnread.with() // an unknown outcome would be in no log
	}
	in.at = time.Now()
	waited, inSocket := x.r.Context().Value(queueTimeKey{}).(time.Duration)
	in.at = in.at.Add(-waited)
	if !write {
		return in, nil
	}
	// A write is sent while its caller is connected and, during a rollout or if it waited in the socket, for SendWithin
	// (CONTRIBUTING.md, S1 and S2).
	in.sendCtx = x.r.Context()
	if x.route.targets != nil || inSocket {
		in.sendCtx, in.stop = context.WithDeadline(in.sendCtx, in.at.Add(x.state.sendWithin))
	}
	return in, nil
}

// read reads the request, and counts it for its partner. With one upstream it is translated at once.
func (x *exchange) read() (a asked, failed *failure) {
	body := x.in.body.Bytes()
	a.buffer, a.call = admission.Buffer(), x.route.readTranslation.Start()
	a.buffer.Grow(2 * len(body))
	var err error
	if x.route.targets != nil {
		err = a.call.Read(body)
	} else {
		a.request, err = a.call.Request(a.buffer.AvailableBuffer(), body)
	}
	a.who = x.gateway.identity(x.state.config, a.call.Value(billing.Partner))
	if err != nil {
		return a, x.route.untranslatable(err)
	}
	x.noteExpiry(a)
	// The items of a request's lists can take much more than its body.
	if n := a.call.ListMemory(); n > 0 && !x.in.body.Take(n) {
		return a, noMemory.with()
	}
	if x.route.targets == nil {
		x.to.target.metrics.report("request", &a.call.Report)
	}
	if x.route.anonymous {
		return a, nil
	}
	counted, over := x.gateway.admission.EnterPartner(a.who, x.from, x.state.config.Limits.Partner, time.Now())
	switch a.counted = counted; {
	case over == nil:
		return a, nil
	case over.InFlight > 0:
		return a, tooMany.with(over.InFlight).later(over.After)
	}
	return a, tooFast.with(over.Rate).later(over.After)
}

// translate returns the request in the upstream's form, with a callback address of the gateway. What was read is not
// read again.
func (x *exchange) translate() (out outgoing, failed *failure) {
	out.call, out.request, out.held = x.asked.call, x.asked.request, x.gateway.admission.Hold(x.from)
	if x.route.targets != nil {
		if t := x.to.target.translation; t != x.route.readTranslation {
			out.call = t.StartWith(x.asked.call)
		}
		var err error
		if out.request, err = out.call.Translate(x.asked.buffer.AvailableBuffer()); err != nil {
			return out, x.route.untranslatable(err)
		}
		x.to.target.metrics.report("request", &out.call.Report)
	}
	if out, failed = x.swapCallbackURL(out); failed != nil {
		return out, failed
	}
	if x.to.route.Compare != "" {
		out.compared = bytes.Clone(out.request) // the answer uses the same buffer
	}
	return out, x.tooLate()
}

// send sends the request and reads the reply. A read is sent a second time, on a new connection, if its reply is a
// refusal, or that of another call, and came on a connection that has carried another call.
func (x *exchange) send() (sent forwarded, reply httpconn.Reply, answer []byte) {
	target, call := x.to.target, x.out.call
	sent = forwarded{called: true, reply: admission.Buffer()}
	r := &upstream.Request{
		Head: target.head, ID: x.id, Trace: upstream.TraceOf(x.r.Header), Body: x.out.request,
		Key: x.gateway.admission.Proof(x.asked.who), NoPartnerLimit: x.route.anonymous,
		SendCtx: x.in.sendCtx, Write: x.in.sendCtx != nil,
		Fresh: x.route.operation != x.state.readOperation || !x.to.mayReuse(),
		Reply: sent.reply, Limit: int64(x.state.config.Limits.Reply), Memory: &x.out.held,
	}
	if x.route.passThrough {
		// The path of the request is that of the caller, below the upstream's base address.
		r.Head = target.upstream.Head(strings.TrimPrefix(sentPath(x.r.URL), x.state.config.BasePath))
	}
	// A read ends when the caller goes away. A write that was sent continues, and its outcome is logged.
	ctx := x.r.Context()
	if r.Write {
		ctx = context.WithoutCancel(ctx)
	}
	for {
		reply, sent.failed = target.do(ctx, r)
		sent.took, sent.status = time.Since(r.Connected), reply.Status
		if sent.failed != nil {
			return sent, reply, nil
		}
		answer, sent.failed = x.translateReply(&reply, sent.reply)
		if !r.Reused || sent.failed == nil && call.Succeeded() || sent.failed != nil && !sent.failed.Another {
			break
		}
		r.Fresh = true
		sent.reply.Reset()
		var err error
		if r.Body, err = call.Translate(x.asked.buffer.AvailableBuffer()); err != nil { // it has succeeded before
			sent.failed = target.unusable(reply.Status, err)
			break
		}
	}
	if sent.failed == nil {
		target.metrics.report("reply", &call.Report)
		if sent.says = billing.SaysOf(call, reply.Status); x.route.passThrough {
			sent.says = max(sent.says, billing.Nothing) // there is a reply, though it may have no code
		}
		if x.route.targets != nil {
			sent.state = call.ReplyValue(billing.State) != ""
			sent.shown, sent.lacks = x.shownBy(sent.says, sent.state) // also by a reply that is not passed on
		}
	}
	return sent, reply, answer
}

// translateReply returns the reply in the form of the caller. The reply may be unusable.
func (x *exchange) translateReply(reply *httpconn.Reply, body *bytes.Buffer) ([]byte, *upstream.Failure) {
	call, into := x.out.call, x.asked.buffer
	into.Grow(2 * body.Len())
	before := call.ListMemory()
	answer, err := call.Reply(into.AvailableBuffer(), reply.Status, body.Bytes())
	if n := call.ListMemory() - before; n > 0 {
		x.out.held.Add(n)
	}
	switch {
	case x.route.passThrough:
		return body.Bytes(), nil // also if it is not JSON
	case err != nil:
		return nil, x.to.target.unusable(reply.Status, err)
	}
	return answer, nil
}

// passOn returns the answer to the caller.
func (x *exchange) passOn(reply *httpconn.Reply, answer []byte) outcome {
	switch x.sent.says {
	case billing.Done, billing.NotFound, billing.Exists, billing.Refused: // what the reply says is about the bill
		if !x.route.anonymous {
			x.gateway.admission.Prove(x.asked.who, x.from)
		}
	}
	call := x.out.call
	out := outcome{status: reply.Status, body: answer, passedOn: true, code: call.Code()}
	if x.route.passThrough {
		out.contentType = reply.ContentType
	} else {
		if !call.Succeeded() {
			out.body = x.state.callersPaths(answer, x.client, x.to.target.translation)
			out.body = x.state.maskHosts(out.body, x.client)
		}
		out.status = call.Status()
	}
	if out.status == http.StatusTooManyRequests || out.status == http.StatusServiceUnavailable {
		out.after = retryAfter(reply.RetryAfter)
	}
	return out
}

// finish ends the exchange: it answers after a panic, records what became of the call, and updates metrics and log.
func (x *exchange) finish() {
	panicked := recover()
	defer x.gateway.admission.LeavePartner(x.asked.counted)
	broken := panicked != nil && x.answer.status != 0 && !x.answer.written
	if panicked != nil {
		x.gateway.logPanic(x.id, panicked)
		if x.answer.status == 0 {
			x.sent.says = billing.NoReply // the caller has not got what the reply says
			x.write(x.failure(x.sent.internal(x.route)))
		}
		x.answer.reason = internal.reason
		if broken { // the connection is aborted below: the caller sees that the answer is incomplete
			x.answer.status, x.answer.code = internal.status, ""
		}
	}
	recorded := x.gateway.survives(x.id, x.record)
	if !recorded {
		x.answer.reason = internal.reason
	}
	x.gateway.survives(x.id, x.observe)
	if x.out.held.Taken() {
		x.out.held.Keep(0)
	}
	reuse := panicked == nil && recorded // else the buffers are in an unknown state
	if reuse && x.asked.call != nil {
		x.asked.call.Release()
	}
	if reuse && x.out.call != nil && x.out.call != x.asked.call {
		x.out.call.Release()
	}
	x.in.body.Release(reuse)
	if reuse && x.answer.whole && x.sent.failed == nil {
		// Else the buffers are not reused: HTTP/2 may still read an answer whose caller has reset the stream, and must
		// not send the bytes of another partner.
		admission.PutBuffer(x.asked.buffer)
		admission.PutBuffer(x.sent.reply)
	}
	if broken {
		panic(http.ErrAbortHandler)
	}
}
