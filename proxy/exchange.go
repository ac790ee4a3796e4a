package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/admission"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/upstream"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// An exchange handles one request of a caller, up to its answer: received, routed, sent, answered. Each step returns
// an error if the call ends there, and failure makes the answer of it.
type exchange struct {
	gateway *Gateway
	state   *state
	w       http.ResponseWriter
	r       *http.Request
	id      string
	start   time.Time
	from    *admission.Source // nil without limits of its own
	counted bool              // by the admission
	trace   upstream.Trace

	client translate.Form
	route  *route // nil if the path is unknown
	in     received
	to     routed
	call   *translate.Call // nil until the request is translated
	sent   forwarded
	out    outcome
	values [2]string // of headers of the answer

	answered bool // net/http has the whole answer
}

// received is the request of the caller.
type received struct {
	body     *admission.Body       // the calls refer to its bytes
	at       time.Time             // when the whole request had arrived
	waited   bool                  // the request arrived before its connection was accepted
	sendCtx  context.Context       // of a write: it is sent only until this context ends
	readCall *translate.Call       // the request, read before its target is known; nil if no rollout decides
	call     routing.Call          // what the rollout needs of the request; zero if no rollout decides
	partner  admission.PartnerCall // zero if it has not been counted
	id       partner.ID            // see exchange.partner
}

// routed is where the call goes.
type routed struct {
	target *routeTarget  // nil until it is known
	route  routing.Route // the rollout's decision; zero if no rollout decides
}

// forwarded is what is known of the call to the upstream.
type forwarded struct {
	called  bool                // the upstream was called
	failed  *upstream.Failure   // nil if there is a reply that can be used, or none yet
	status  int                 // of the reply, which is not always that of the answer; 0 without one
	says    billing.Says        // what the reply says; NoReply until the answer begins, for a panic before it
	state   bool                // the reply has a state of the bill
	lacks   []string            // paths of values that every such reply should have and this one does not
	shown   *routing.ReadResult // what a reply shows of the bill, if the ledger must record it; else nil
	took    time.Duration       // from getting a connection to the end of the reply
	address string              // the callback address of the gateway in the request; "" if there is none

	held              admission.Held // the memory of the reply
	translated, reply *bytes.Buffer  // the translated messages, and the reply; nil until they are needed
	compared          []byte         // the request, if the reply will be compared; else nil
	kept              *kept          // the messages, for Options.Finished; nil without it
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

// An outcome is how the caller is answered, with what metrics and log say about it.
type outcome struct {
	status      int
	body        []byte
	code        string // in the form of the catalogue; "" for no code
	after       string // Retry-After; "" for none
	contentType string // "" for JSON
	passedOn    bool   // the answer is the reply of the upstream, which says:
	says        billing.Says
	gone        bool   // the caller had gone when the answer was due, or while it was written
	reason      string // for the log; never a value of a body
	field       string // for the log: the path in a refusal, if the table has it
}

func newExchange(g *Gateway, w http.ResponseWriter, r *http.Request) *exchange {
	s := g.current.Load()
	x := &exchange{gateway: g, state: s, w: w, r: r, start: time.Now(), id: requestID(r.Header["X-Request-Id"])}
	if x.route = s.match(r); x.route != nil {
		x.client = x.route.client
		if x.route.targets == nil {
			x.to.target = x.route.target
		}
		x.trace = upstream.TraceOf(r.Header)
	} else {
		x.client = s.formOf(r.URL)
	}
	return x
}

// serve answers the request. What became of the call is recorded also after a panic.
func (x *exchange) serve() {
	// The listener set its write deadline by the config of its start. A reload may have extended the timeouts.
	if deadline := x.gateway.answerWithin; deadline > 0 && x.state.answerWithin > deadline {
		_ = http.NewResponseController(x.w).SetWriteDeadline(x.start.Add(x.state.answerWithin))
	}
	defer x.record()
	err := x.write(x.handle())
	if x.out.passedOn && x.sent.compared != nil {
		x.compare()
	}
	if err == nil && x.sent.failed == nil {
		// After an error the buffers are not reused: HTTP/2 may still read an answer whose caller has reset the
		// stream, and must not send the bytes of another partner.
		admission.PutBuffer(x.sent.translated)
		admission.PutBuffer(x.sent.reply)
	}
}

// handle reads and forwards the request, and returns the answer. A failure becomes an answer in the caller's form.
func (x *exchange) handle() outcome {
	if err := x.read(); err != nil {
		return x.failure(err)
	}
	defer x.limitSending()() // after failure, which asks whether the time is over
	out, err := x.forward()
	if err != nil {
		return x.failure(err)
	}
	return out
}

// read checks the head of the request, and reads its body, up to the limit.
func (x *exchange) read() error {
	switch {
	case x.route == nil:
		return noSuchPath.with("path", cmp.Or(x.state.config.BasePath, "/"))
	case x.r.Method != http.MethodPost:
		x.w.Header().Set("Allow", http.MethodPost)
		return wrongMethod.with("method")
	case !isJSON(x.r.Header):
		return wrongType.with("content_type")
	case hasTwoLengths(x.r):
		return x.unread(badBody.because("two lengths").with("two_lengths"))
	}
	limit := int64(x.state.config.Limits.Body)
	var err error
	x.in.body, err = x.gateway.admission.Read(x.w, x.r, x.from, limit, x.state.config.Timeouts.Body)
	switch {
	case errors.Is(err, admission.ErrTooLong):
		return x.unread(tooLarge.with("body_too_large", limit))
	case errors.Is(err, admission.ErrNoMemory):
		return x.unread(noMemory.with("busy"))
	case errors.Is(err, httpconn.ErrTimeout):
		return x.unread(lateBody.with("body_late"))
	case err != nil:
		return x.unread(badBody.with("body_incomplete"))
	case x.route.target == nil:
		return noUpstream.with("unavailable")
	case x.route.operation.Effect == translate.Write && accesslog.Unread(x.gateway.log):
		return logUnread.with("not_sent") // an unknown outcome would be in no log
	}
	x.in.at = time.Now()
	if waited, ok := x.r.Context().Value(queueTimeKey{}).(time.Duration); ok {
		x.in.at, x.in.waited = x.in.at.Add(-waited), true
	}
	return nil
}

// forward chooses the upstream, sends the request in its form and returns its reply in the form of the caller.
func (x *exchange) forward() (outcome, error) {
	if probed, err := x.decide(); err != nil || probed.status != 0 {
		return probed, err
	}
	request, err := x.translateRequest()
	if err != nil {
		return outcome{}, err
	}
	if x.to.route.Compare != "" {
		x.sent.compared = bytes.Clone(request) // the answer uses the same buffer
	}
	reply, answer, err := x.ask(request)
	if err != nil {
		return outcome{}, err
	}
	return x.passOn(&reply, answer)
}

// ask sends the request and returns the reply, with its translation. A read is sent a second time, on a new connection,
// if its reply is a refusal, or that of another call, and came on a connection that has carried another call.
func (x *exchange) ask(request []byte) (reply httpconn.Reply, answer []byte, err error) {
	r := x.newRequest(request)
	for {
		if reply, err = x.post(r); err != nil {
			return reply, nil, err
		}
		answer, err = x.translateReply(&reply)
		if failed, _ := errors.AsType[*upstream.Failure](err); !r.Reused || err == nil && x.call.Succeeded() ||
			failed != nil && !failed.Another {
			break
		}
		r.Fresh = true
		r.Reply.Reset()
		if r.Body, err = x.call.Translate(x.sent.translated.AvailableBuffer()); err != nil {
			return reply, nil, err
		}
	}
	x.sent.status = reply.Status
	x.keep(reply.Status, r.Reply.Bytes())
	return reply, answer, err
}

// translateRequest translates the request to the upstream's form, with a callback address of the gateway.
func (x *exchange) translateRequest() (request []byte, err error) {
	x.sent.translated = admission.Buffer()
	x.sent.translated.Grow(2 * x.in.body.Len())
	if request, err = x.startCall(x.sent.translated.AvailableBuffer()); err != nil {
		return nil, err
	}
	x.to.target.metrics.report("request", &x.call.Report)
	if !x.in.partner.Counted() {
		if err := x.enterPartner(x.partner()); err != nil {
			return nil, err
		}
	}
	if request, err = x.swapCallbackURL(request); err != nil {
		return nil, err
	}
	return request, x.tooLate()
}

// startCall starts the call with the translation of its target. If the rollout has already read the request, it is
// not read again.
func (x *exchange) startCall(dst []byte) (request []byte, err error) {
	read, translation := x.in.readCall, x.to.target.translation
	switch {
	case read == nil:
		x.call = translation.Start()
		if dst, err = x.call.Request(dst, x.in.body.Bytes()); err == nil {
			err = x.takeLists(x.call)
		}
		return dst, err
	case translation == x.route.readTranslation:
		x.call, x.in.readCall = read, nil
	default:
		x.call = translation.StartWith(read)
	}
	return x.call.Translate(dst)
}

// takeLists takes the memory of the items of a request's lists, which can be much more than that of its body.
func (x *exchange) takeLists(call *translate.Call) error {
	if n := call.ListMemory(); n > 0 && !x.in.body.Take(n) {
		return noMemory.with("busy")
	}
	return nil
}

// enterPartner counts the call for the limits of its partner, if requests of its operation name it.
func (x *exchange) enterPartner(who partner.ID) error {
	if x.route.anonymous {
		return nil
	}
	call, over := x.gateway.admission.EnterPartner(who, x.from, x.state.config.Limits.Partner)
	switch {
	case over == nil:
		x.in.partner = call
		return nil
	case over.InFlight > 0:
		return tooMany.with("in_flight", over.InFlight).later(over.After)
	}
	return tooMany.with("rate", over.Rate).later(over.After)
}

// keyOf returns what an upstream needs to know of the key of a partner.
func (g *Gateway) keyOf(who partner.ID) upstream.Key {
	proof := g.admission.Proof(who)
	return upstream.Key{Partner: proof.Partner, Proven: proof.Proven, Invented: proof.Invented}
}

// hasTwoLengths reports whether a request has Content-Length twice. Over HTTP/2 net/http uses the first one; over
// HTTP/1.1 package framing refuses such a request.
func hasTwoLengths(r *http.Request) bool { return len(r.Header["Content-Length"]) > 1 }

// newRequest returns the call to the upstream.
func (x *exchange) newRequest(request []byte) *upstream.Request {
	target := x.to.target
	r := &upstream.Request{
		Head: target.head, ID: x.id, Trace: x.trace, Body: request,
		Key: x.gateway.keyOf(x.partner()), NoPartnerLimit: x.route.anonymous,
		SendCtx: x.in.sendCtx, Write: x.in.sendCtx != nil,
		Fresh: !x.mayReuse(),
		Reply: admission.Buffer(), Limit: int64(x.state.config.Limits.Reply),
	}
	if x.route.passThrough {
		// The path of the request is that of the caller, below the upstream's base address.
		base := x.state.config.BasePath
		r.Head = target.upstream.Head(strings.TrimPrefix(sentPath(x.r.URL), base))
	}
	x.sent.held = x.gateway.admission.Hold(x.from)
	x.sent.reply, r.Reserve = r.Reply, x.sent.held.Reach
	return r
}

// post sends the request to the upstream and reads its reply.
func (x *exchange) post(r *upstream.Request) (reply httpconn.Reply, err error) {
	// A read ends when the caller goes away. A write that was sent continues, and its outcome is logged.
	ctx := x.r.Context()
	if x.route.operation.Effect == translate.Write {
		ctx = context.WithoutCancel(ctx)
	}
	began := time.Now()
	x.sent.called = true
	reply, failed := x.to.target.upstream.Do(ctx, r)
	if !r.Connected.IsZero() {
		began = r.Connected
	}
	x.sent.took = time.Since(began)
	if failed != nil {
		return reply, failed
	}
	return reply, nil
}

// mayReuse reports whether the call may get a connection that has carried another call, whose upstream can send a
// second reply at any time. A success of a read that names another bill is not passed on. A refusal, and a success
// without a bill, can be that of another call: it must not decide anything in the ledger.
func (x *exchange) mayReuse() bool {
	route := x.to.route
	return x.route.operation == x.state.readOperation && !route.Deniable &&
		!route.Relevant(routing.ReadResult{Result: routing.Absent})
}

// prove records that the upstream knows the key, which this source has sent: it has answered about the bill. A refusal
// of the caller or of the format, or a failure, can be the answer to any invented key.
func (x *exchange) prove() {
	if !x.route.anonymous {
		x.gateway.admission.Prove(x.partner(), x.from)
	}
}

// translateReply returns the reply in the form of the caller. The reply may be unusable.
func (x *exchange) translateReply(reply *httpconn.Reply) ([]byte, error) {
	body := x.sent.reply
	x.sent.translated.Grow(2 * body.Len())
	asked := x.call.ListMemory()
	answer, err := x.call.Reply(x.sent.translated.AvailableBuffer(), reply.Status, body.Bytes())
	if n := x.call.ListMemory() - asked; n > 0 {
		x.sent.held.Add(n)
	}
	if x.route.passThrough {
		answer, err = body.Bytes(), nil // also if it is not JSON
	}
	if err != nil {
		return nil, x.to.target.unusable(reply.Status, err)
	}
	return answer, nil
}

// unusable returns the failure of a reply that the translation could not read.
func (t *routeTarget) unusable(status int, err error) *upstream.Failure {
	unusable, ok := errors.AsType[*translate.UnusableReply](err)
	if !ok {
		return t.upstream.Unusable(status, "", false)
	}
	return t.upstream.Unusable(status, unusable.Reason, unusable.Field != "")
}

// passOn returns the answer to the caller. A reply of which the rollout says so is not passed on.
func (x *exchange) passOn(reply *httpconn.Reply, answer []byte) (out outcome, err error) {
	target, pass := x.to.target, x.route.passThrough
	says := billing.SaysOf(x.call, reply.Status)
	if pass {
		says = max(says, billing.Nothing) // there is a reply, though it may have no code
	}
	target.metrics.report("reply", &x.call.Report)
	if x.route.targets != nil {
		x.sent.state = x.call.ReplyValue(billing.State) != ""
		x.sent.shown = x.shownBy(says) // also by a reply that is not passed on
		if err := x.withhold(says); err != nil {
			x.sent.says = says
			return out, err
		}
	}
	switch says {
	case billing.Done, billing.NotFound, billing.Exists, billing.Refused: // what the reply says is about the bill
		x.prove()
	}
	table, form := x.state.config.Table, target.upstream.Config().Form
	if !x.call.Succeeded() && x.state.config.Failures.MaskHosts && !pass {
		answer = maskHosts(answer, table.TextName(x.client))
	}
	status := reply.Status
	if !pass {
		status = x.call.Status()
	}
	out = outcome{
		status: status, body: answer, code: table.Code(x.call.Code(), form, table.Forms()[0]),
		passedOn: true, says: says,
	}
	if out.status == http.StatusTooManyRequests || out.status == http.StatusServiceUnavailable {
		out.after = retryAfter(reply.RetryAfter)
	}
	if pass {
		out.contentType = reply.ContentType
	}
	return out, nil
}

// requestID returns the caller's id if it has only safe characters, or a new one.
func requestID(given []string) string {
	const safe = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:"
	if len(given) == 1 && len(given[0]) > 0 && len(given[0]) <= 128 && strings.Trim(given[0], safe) == "" {
		return given[0]
	}
	return rand.Text()
}

// isJSON reports whether the header says that the body is JSON without a content coding. A missing type counts as
// JSON.
func isJSON(h http.Header) bool {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return false
		}
	}
	types := h["Content-Type"]
	if len(types) == 0 {
		return true
	}
	if len(types) > 1 {
		return false
	}
	if types[0] == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(types[0])
	return err == nil && kind == "application/json"
}
