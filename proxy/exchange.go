package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/httpconn"
	"billbridge/proxy/rollout"
	"billbridge/proxy/tracing"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// An exchange handles one request of a caller, up to its answer.
type exchange struct {
	gateway *Gateway
	state   *state
	w       http.ResponseWriter
	r       *http.Request
	id      string
	start   time.Time
	span    *tracing.Span // nil if the call has no trace

	client  translate.Form
	route   *route // nil if the path is unknown
	in      received
	decided decision
	target  *routeTarget    // where the call goes; nil if no upstream can take it
	call    *translate.Call // nil until the request is translated
	bound   string          // the callback address of the gateway that the upstream gets; "" if there is none
	sent    forwarded
	out     outcome
	values  [2]string // of headers of the answer
}

// received is the request of the caller.
type received struct {
	body     *heldBody       // the calls refer to its bytes
	at       time.Time       // when the whole request had arrived
	waited   bool            // the request arrived before its connection was accepted
	sendCtx  context.Context // of a write: it is sent only until this context ends
	readCall *translate.Call // the request, read before its target is known; nil if no rollout decides
	partner  *partnerCalls   // the partner's calls, this one included; nil if it has not been counted
}

// A decision is the rollout's decision on a call. It is zero if no rollout decides.
type decision struct {
	call       rollout.Call
	route      rollout.Route
	readResult *rollout.ReadResult // what a reply shows of the bill, if the ledger must record it; else nil
}

// forwarded is what is known of the call to the upstream.
type forwarded struct {
	called  bool          // the upstream was called
	unknown bool          // a byte of the call may have left, and there is no reply
	says    billing.Says  // what the reply says
	took    time.Duration // from getting a connection to the end of the reply

	kept *kept // the messages, for Options.Finished; nil without it
}

// An outcome is how the caller was answered, for metrics and log.
type outcome struct {
	status int
	code   string // in the form of the catalogue; "" for no code
	gone   bool   // the caller had gone when the answer was due, or while it was written
	reason string // for the log; never a value of a body
	field  string // for the log: the path in a refusal, if the table has it
}

func newExchange(g *Gateway, w http.ResponseWriter, r *http.Request) *exchange {
	s := g.current.Load()
	x := &exchange{gateway: g, state: s, w: w, r: r, start: time.Now(), id: requestID(r.Header["X-Request-Id"])}
	if x.route = s.match(r); x.route != nil {
		x.client, x.target = x.route.client, x.route.target
		x.span = g.tracing.Call(r.Header, x.route.spanName)
	} else {
		x.client = s.formOf(r.URL) // without a span: calls of unknown paths could use up the calls that are sampled
	}
	return x
}

// serve answers the request.
func (x *exchange) serve() {
	// The listener set its write deadline by the config of its start. A reload may have extended the timeouts.
	if deadline := x.gateway.answerWithin; deadline > 0 && x.state.answerWithin > deadline {
		_ = http.NewResponseController(x.w).SetWriteDeadline(x.start.Add(x.state.answerWithin))
	}
	switch {
	case x.route == nil:
		x.fail(noSuchPath, "there is no operation at this path; the operations are below "+cmp.Or(x.state.config.BasePath, "/"))
		return
	case x.r.Method != http.MethodPost:
		x.w.Header().Set("Allow", http.MethodPost)
		x.fail(wrongMethod, "every operation is a POST")
		return
	case !isJSON(x.r.Header):
		x.fail(wrongType, "the body must be application/json, without a content coding")
		return
	case !x.read():
		return
	case x.target == nil:
		x.fail(noUpstream, x.route.operation.Name+" exists in one form only, and no upstream of this gateway speaks it")
		return
	}
	x.handleCall()
}

// read reads the body, up to the limit.
func (x *exchange) read() bool {
	limit := int64(x.state.config.Limits.Body)
	err := errTooLong
	switch {
	case x.r.ContentLength > limit:
	case hasArrived(x.r):
		x.in.body, err = x.gateway.memory.read(x.r.Body, limit)
	default:
		body := x.gateway.drainable(x.w, x.r.Body, time.Duration(x.state.config.Timeouts.Body))
		defer body.end()
		x.in.body, err = x.gateway.memory.read(body, limit)
	}
	if err != nil {
		switch {
		case errors.Is(err, errTooLong):
			x.failUnread(tooLarge, "the body is larger than "+strconv.FormatInt(limit, 10)+" bytes")
		case errors.Is(err, errNoMemory):
			x.failUnread(noMemory, "too many bodies are held just now, nothing was sent")
		case isTimeout(err):
			x.failUnread(lateBody, "the body timed out, nothing was sent")
		default:
			x.failUnread(badBody, "the body broke off, nothing was sent")
		}
		return false
	}
	x.in.at = time.Now()
	if waited, ok := x.r.Context().Value(queueTimeKey{}).(time.Duration); ok {
		x.in.at, x.in.waited = x.in.at.Add(-waited), true
	}
	return true
}

// handleCall chooses the upstream, sends the request in its form and answers with its reply.
func (x *exchange) handleCall() {
	defer x.limitSending()()
	if x.route.targets != nil {
		if !x.decide() {
			return
		}
		defer x.complete()
	}
	if x.target == nil { // a reload has changed the backends of the rollout since newExchange
		x.fail(unowned, "the call cannot be processed now; nothing was sent")
		return
	}
	defer x.keepRows()
	request, buffer, ok := x.translateRequest()
	if !ok {
		return
	}
	var compared []byte // a clone, since the answer uses the same buffer
	route, call := x.decided.route, x.decided.call
	awaited := route.ReadBack && !call.Writes && x.gateway.rollout.Shadow().AwaitsPaid(call.Partner, call.Bill)
	if route.Compare != "" || awaited {
		compared = bytes.Clone(request)
	}
	body := bufferPool.Get().(*bytes.Buffer)
	reply, ok := x.forward(request, body)
	if !ok {
		return
	}
	x.keep(reply.Status, body.Bytes())
	answer, ok := x.translateReply(reply.Status, body, buffer)
	if !ok {
		return
	}
	err := x.answer(&reply, answer)
	switch {
	case awaited:
		x.paidBill(compared, reply.Status, body.Bytes())
	case compared != nil:
		x.compare(compared, reply.Status, body.Bytes())
	}
	if err == nil {
		// After an error the buffers are not reused: HTTP/2 may still read an answer whose caller has reset the stream, and must not
		// send the bytes of another partner.
		putBuffer(buffer)
		putBuffer(body)
	}
}

// translateRequest translates the request to the upstream's form, with a callback address of the gateway. It also returns the buffer
// of the request. ok is false if the exchange has been answered.
func (x *exchange) translateRequest() (request []byte, buffer *bytes.Buffer, ok bool) {
	buffer = bufferPool.Get().(*bytes.Buffer)
	buffer.Grow(2 * x.in.body.Len())
	span := x.span.Internal("translate request")
	request, err := x.startCall(buffer.AvailableBuffer())
	span.EndWith(err, "refused")
	if err != nil {
		putBuffer(buffer)
		x.refuseRequest(x.target.translation, err)
		return nil, nil, false
	}
	x.target.metrics.report("request", &x.call.Report)
	if x.in.partner == nil && !x.enterPartner(x.call.Value(billing.Partner)) {
		putBuffer(buffer)
		return nil, nil, false
	}
	if request, ok = x.swapCallbackURL(request); !ok || x.tooLate() {
		putBuffer(buffer)
		return nil, nil, false
	}
	return request, buffer, true
}

// startCall starts the call with the translation of its target. If the rollout has already read the request, it is not read again.
func (x *exchange) startCall(dst []byte) ([]byte, error) {
	read, translation := x.in.readCall, x.target.translation
	switch {
	case read == nil:
		x.call = translation.Start()
		return x.call.Request(dst, x.in.body.Bytes())
	case translation == x.route.readTranslation:
		x.call, x.in.readCall = read, nil
	default:
		x.call = translation.StartWith(read)
	}
	return x.call.Translate(dst)
}

// forward sends the request to the upstream and reads its reply, with the body into body. ok is false if the exchange has been answered.
func (x *exchange) forward(request []byte, body *bytes.Buffer) (reply httpconn.Reply, ok bool) {
	// A read ends when the caller goes away. A write that was sent continues, and its outcome is logged.
	ctx := x.r.Context()
	if x.route.operation.Effect == translate.Write {
		ctx = context.WithoutCancel(ctx)
	}
	r := &upstreamRequest{
		head: x.target.head, path: x.target.path, id: x.id, span: x.span, body: request, partner: x.call.Value(billing.Partner), sendCtx: x.in.sendCtx, write: x.in.sendCtx != nil,
		noPartnerLimit: x.route.anonymous,
	}
	if x.route.passThrough {
		r.head, r.path = x.passHead(), strings.TrimPrefix(x.route.path, strings.TrimSuffix(x.state.config.BasePath, "/"))
	}
	post := x.target.post
	if x.route.passThrough {
		post = x.target.upstream.post
	}
	began := time.Now()
	x.sent = forwarded{called: true, unknown: true} // if anything below panics
	reply, err := post(ctx, r, body, int64(x.state.config.Limits.Reply))
	if !r.connected.IsZero() {
		began = r.connected
	}
	x.sent.took = time.Since(began)
	if err != nil {
		x.answerCallError(err)
		return httpconn.Reply{}, false
	}
	return reply, true
}

// translateReply translates the reply to the caller's form, in buffer. ok is false if the exchange has been answered, because the reply
// is unusable or must not be passed on.
func (x *exchange) translateReply(status int, body, buffer *bytes.Buffer) (answer []byte, ok bool) {
	buffer.Grow(2 * body.Len())
	span := x.span.Internal("translate reply")
	answer, err := x.call.Reply(buffer.AvailableBuffer(), status, body.Bytes())
	if x.route.passThrough {
		answer, err = body.Bytes(), nil // also if it is not JSON
	}
	span.EndWith(err, "not_json")
	if err != nil {
		x.answerCallError(x.target.upstream.noAnswer(status, err))
		return nil, false
	}
	if x.sent.says = billing.SaysOf(x.call, status); x.route.passThrough {
		x.sent.says = max(x.sent.says, billing.Nothing) // there is a reply, though it may have no code
	}
	x.target.metrics.report("reply", &x.call.Report)
	x.keepReadResult() // also of a reply that is not passed on
	if x.route.targets != nil && !x.mayPassOn() {
		return nil, false
	}
	table := x.state.config.Table
	x.out.code = table.Code(x.call.Code(), x.target.upstream.config.Form, table.Forms()[0])
	if !x.route.passThrough && table.Unpaired(x.target.upstream.config.Form, x.call.Code()) {
		x.target.upstream.unpaired.count(x.call.Code())
	}
	if !x.call.Succeeded() && x.state.config.Failures.MaskHosts && !x.route.passThrough {
		answer = maskHosts(answer, table.TextName(x.client))
	}
	return answer, true
}

// answer writes the answer to the caller. After an error the caller may not have got it.
func (x *exchange) answer(reply *httpconn.Reply, answer []byte) error {
	if after := retryAfter(reply.RetryAfter); after != "" {
		x.w.Header().Set("Retry-After", after)
	}
	// Not earlier: until here a failure of the gateway must be answered as an unknown outcome, not as a refusal.
	x.sent.unknown = false
	if x.route.passThrough && reply.ContentType != "" {
		x.w.Header().Set("Content-Type", reply.ContentType)
	}
	return x.write(reply.Status, answer)
}

// limitSending sets until when a write may be sent: while its caller is connected and, during a rollout or if it waited in the socket, for
// send_within (rollout/README.md, "Why it is like this", S1 and S2). release stops the timer.
func (x *exchange) limitSending() (release context.CancelFunc) {
	if x.route.operation.Effect != translate.Write {
		return func() {}
	}
	x.in.sendCtx = x.r.Context()
	if x.route.targets == nil && !x.in.waited {
		return func() {}
	}
	x.in.sendCtx, release = context.WithDeadline(x.in.sendCtx, x.in.at.Add(x.sendWithin()))
	return release
}

func (x *exchange) sendWithin() time.Duration {
	if c := x.state.config.Rollout; c != nil {
		return time.Duration(c.SendWithin)
	}
	return config.DefaultSendWithin
}

// tooLate answers a write that must not be sent any more, and reports whether it did.
func (x *exchange) tooLate() bool {
	if x.in.sendCtx == nil || x.in.sendCtx.Err() == nil {
		return false
	}
	x.failNotSent()
	return true
}

// failNotSent answers a write that was not sent because its caller has gone or it arrived too long ago.
func (x *exchange) failNotSent() {
	if x.r.Context().Err() != nil {
		x.fail(notSent, "the caller went away, nothing was sent")
		x.out.status, x.out.reason = statusGone, "the caller went away"
		return
	}
	x.fail(notSent, "it could not be sent within "+x.sendWithin().String()+", nothing was sent")
	x.out.reason = "rollout: too late"
	if x.route.targets == nil {
		x.out.reason = "too late"
	}
}

// refuseRequest answers a request that cannot be translated.
func (x *exchange) refuseRequest(translation *translate.Translation, err error) {
	var refusal *translate.Refusal
	errors.As(err, &refusal)
	text := refusal.Reason
	if refusal.Field != "" {
		text = refusal.Field + ": " + text
		x.out.field = other // the sender chose the name, which must not be logged
		if translation.HasRequestField(refusal.Field) {
			x.out.field = refusal.Field
		}
	}
	if refusal.CannotCarry && x.state.config.Failures.CannotCarry == config.CarryNotFound {
		x.out.code, x.out.reason = refusal.Code, "refused"
		_ = x.write(http.StatusNotFound, x.state.config.Table.AppendFailure(nil, x.client, refusal.Code, text))
		return
	}
	x.refuse(http.StatusBadRequest, refusal.Code, text, "refused")
}

// bufferPool holds buffers for bodies, so that a body of the usual size needs no allocation.
var bufferPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// putBuffer returns a buffer to the pool, unless it is too large to keep.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= 64<<10 {
		b.Reset()
		bufferPool.Put(b)
	}
}

// requestID returns the caller's id if it has only safe characters, or a new one.
func requestID(given []string) string {
	if len(given) == 1 && len(given[0]) > 0 && len(given[0]) <= 128 {
		safe := true
		for _, c := range []byte(given[0]) {
			safe = safe && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.' || c == ':')
		}
		if safe {
			return given[0]
		}
	}
	return rand.Text()
}

// isJSON reports whether the header says that the body is JSON without a content coding. A missing type counts as JSON.
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
