package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/rollout"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// An exchange carries one request from the caller to its answer.
type exchange struct {
	gateway *Gateway
	state   *state
	w       http.ResponseWriter
	r       *http.Request
	id      string
	start   time.Time

	client  translate.Form
	route   *route          // nil until the path is known
	in      received        // the request
	decided decision        // by the rollout
	target  *routeTarget    // where the call goes; nil where no upstream can take it
	call    *translate.Call // nil until the request is read
	sent    forwarded
	out     outcome
}

// received is the request of the caller.
type received struct {
	body   *heldBody       // what the calls keep points into it
	at     time.Time       // when all of the request was there
	waited bool            // it was there before its connection was accepted
	while  context.Context // of a write: it is not sent any more when this has ended
	read   *translate.Call // the request as it was read before its upstream was known; nil where no rollout decides
}

// A decision is what the rollout says about a call. It is zero where no rollout decides.
type decision struct {
	call  rollout.Call
	route rollout.Route
	shown *rollout.Shown // what a read said of the bill, where that is to be recorded in the ledger; nil elsewhere
}

// forwarded is what became of the call to the upstream.
type forwarded struct {
	asked   bool          // whether the upstream was asked
	unknown bool          // whether a byte of the call may have left and no answer to it is known
	busy    bool          // whether the transport may still be reading what was sent, which may be the caller's bytes
	took    time.Duration // from the connection to the end of the reply
}

// An outcome is how the caller was answered, for metrics and log.
type outcome struct {
	status int
	code   string // in the form of the catalogue; "" where no code was given
	gone   bool   // whether the caller had gone when the answer was due, or while it was written
	reason string // for the log: never a value of a body
	field  string // for the log: the path that a refusal names, if it is one of the table
}

func newExchange(g *Gateway, w http.ResponseWriter, r *http.Request) *exchange {
	s := g.current.Load()
	x := &exchange{gateway: g, state: s, w: w, r: r, start: time.Now(), id: requestID(r.Header["X-Request-Id"])}
	if x.route = s.match(r); x.route != nil {
		x.client, x.target = x.route.client, x.route.target
	} else {
		x.client = s.formOf(r.URL)
	}
	return x
}

// serve takes the exchange through its stages. Each either goes on or has answered.
func (x *exchange) serve() {
	// The listener's deadline for an answer was reckoned from the timeouts it started with.
	if known := x.gateway.answerWithin; known > 0 && x.state.answerWithin > known {
		_ = http.NewResponseController(x.w).SetWriteDeadline(x.start.Add(x.state.answerWithin))
	}
	switch {
	case x.route == nil:
		x.fail(noSuchPath, "there is no operation at this path; they hang below "+cmp.Or(x.state.config.BasePath, "/"))
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
	x.carry()
}

// read takes the body in, bounded by the bytes that really come.
func (x *exchange) read() bool {
	limit := int64(x.state.config.Limits.Body)
	err := errTooLong
	if x.r.ContentLength <= limit {
		body := x.gateway.drainable(x.w, x.r.Body, time.Duration(x.state.config.Timeouts.Body))
		defer body.end()
		x.in.body, err = x.gateway.memory.read(body, limit)
	}
	if err != nil {
		// What is left of the body is not read: this connection has no next request.
		x.w.Header().Set("Connection", "close")
		var late net.Error
		switch {
		case errors.Is(err, errTooLong):
			x.fail(tooLarge, "the body is larger than "+strconv.FormatInt(limit, 10)+" bytes")
		case errors.Is(err, errNoMemory):
			x.w.Header().Set("Retry-After", "1")
			x.fail(noMemory, "too many bodies are held just now, nothing was sent")
		case errors.As(err, &late) && late.Timeout():
			x.fail(lateBody, "the body timed out, nothing was sent")
		default:
			x.fail(badBody, "the body broke off, nothing was sent")
		}
		return false
	}
	x.in.at = time.Now()
	if waited, ok := x.r.Context().Value(queueTimeKey{}).(time.Duration); ok {
		x.in.at, x.in.waited = x.in.at.Add(-waited), true
	}
	return true
}

// carry finds the upstream, sends it the request in its form and answers with its reply.
func (x *exchange) carry() {
	defer x.bound()()
	if x.route.targets != nil {
		if !x.decide() {
			return
		}
		defer x.complete()
	}
	if x.target == nil { // a reload has just given the rollout other backends
		x.fail(unowned, "the backends are being exchanged; nothing was sent")
		return
	}
	request, room, ok := x.translateRequest()
	if !ok {
		return
	}
	var compared []byte // the room of the request is the answer's, later
	if x.decided.route.Compare != "" {
		compared = bytes.Clone(request)
	}
	reply := buffers.Get().(*bytes.Buffer)
	response, ok := x.forward(request, reply)
	if !ok {
		return
	}
	if x.sent.busy {
		room = new(bytes.Buffer)
	}
	answer, ok := x.translateReply(response, reply, room)
	if !ok {
		return
	}
	err := x.answer(response, answer)
	if compared != nil {
		x.compare(compared, response.StatusCode, reply.Bytes())
	}
	if err == nil {
		// HTTP/2 may go on reading an answer whose caller has reset the stream. On every other way that ends badly,
		// too, the buffers are left to the garbage collector: no saving is worth another partner's bytes.
		giveBack(room)
		giveBack(reply)
	}
}

// translateRequest brings the request to the upstream's form, in a buffer that is returned too, with an address of ours for
// callbacks. ok is false where the exchange has been answered.
func (x *exchange) translateRequest() (request []byte, room *bytes.Buffer, ok bool) {
	room = buffers.Get().(*bytes.Buffer)
	room.Grow(2 * x.in.body.Len())
	request, err := x.startCall(room.AvailableBuffer())
	if err != nil {
		giveBack(room)
		x.refuseRequest(x.target.translation, err)
		return nil, nil, false
	}
	x.target.metrics.report("request", &x.call.Report)
	if request, ok = x.swapCallbackURL(request); !ok || x.late() {
		giveBack(room)
		return nil, nil, false
	}
	return request, room, true
}

// startCall starts the call in the translation of its target. A request that the rollout has read is not read again.
func (x *exchange) startCall(dst []byte) ([]byte, error) {
	read, translation := x.in.read, x.target.translation
	switch {
	case read == nil:
		x.call = translation.Start()
		return x.call.Request(dst, x.in.body.Bytes())
	case translation == x.route.look:
		x.call, x.in.read = read, nil
	default:
		x.call = translation.StartWith(read)
	}
	return x.call.Translate(dst)
}

// forward sends the request to the upstream and reads its reply. ok is false where the exchange has been answered.
func (x *exchange) forward(request []byte, reply *bytes.Buffer) (response *http.Response, ok bool) {
	// A caller that goes away ends a read. A write that has left goes on: its outcome is logged.
	ctx := x.r.Context()
	if x.route.operation.Effect == translate.Write {
		ctx = context.WithoutCancel(ctx)
	}
	sending := newPayload(request)
	sending.sendCtx, sending.partner = x.in.while, x.call.Value(billing.Partner)
	began := time.Now()
	x.sent = forwarded{asked: true, unknown: true, busy: true} // what a panic from here on must assume
	to := x.target.url
	if x.route.passes {
		to = x.passTarget()
	}
	response, err := x.target.upstream.post(ctx, to, x.id, sending, reply, int64(x.state.config.Limits.Reply))
	if !sending.connected.IsZero() {
		began = sending.connected
	}
	x.sent.took, x.sent.busy = time.Since(began), !sending.reusable()
	if err != nil {
		x.answerCallError(err)
		return nil, false
	}
	return response, true
}

// translateReply brings the reply to the caller's form, in room, unless it is no answer to the call or must not be passed on.
// ok is false where the exchange has been answered. What the answer echoes is in the caller's bytes.
func (x *exchange) translateReply(response *http.Response, reply, room *bytes.Buffer) (answer []byte, ok bool) {
	room.Grow(2 * reply.Len())
	answer, err := x.call.Reply(room.AvailableBuffer(), response.StatusCode, reply.Bytes())
	if x.route.passes {
		answer, err = reply.Bytes(), nil // whatever it is
	}
	if err != nil {
		x.answerCallError(x.target.upstream.noAnswer(response.StatusCode, err))
		return nil, false
	}
	x.target.metrics.report("reply", &x.call.Report)
	if x.route.targets != nil && !x.mayPassOn() {
		return nil, false
	}
	table := x.state.config.Table
	x.out.code = table.Code(x.call.Code(), x.target.upstream.config.Form, table.Forms()[0])
	x.keepShown()
	if !x.call.Succeeded() && x.state.config.Failures.MaskHosts && !x.route.passes {
		answer = maskHosts(answer, table.TextName(x.client))
	}
	return answer, true
}

// answer writes the upstream's answer. The error tells that the caller may not have got it.
func (x *exchange) answer(response *http.Response, answer []byte) error {
	if after := response.Header.Get("Retry-After"); after != "" {
		x.w.Header().Set("Retry-After", after)
	}
	// Only here, where nothing is left to fail that could be answered: until now a failure of ours must not look
	// like a refusal of what the upstream may have done.
	x.sent.unknown = false
	if x.route.passes {
		x.w.Header()["Content-Type"] = response.Header["Content-Type"]
	}
	return x.write(response.StatusCode, answer)
}

// bound sets until when a write may be sent: while its caller is connected and, during a rollout or if it waited in the socket, for
// send_within (rollout/README.md, "Why it is like this", S1 and S2). release stops the timer.
func (x *exchange) bound() (release context.CancelFunc) {
	if x.route.operation.Effect != translate.Write {
		return func() {}
	}
	x.in.while = x.r.Context()
	if x.route.targets == nil && !x.in.waited {
		return func() {}
	}
	x.in.while, release = context.WithDeadline(x.in.while, x.in.at.Add(x.sendWithin()))
	return release
}

func (x *exchange) sendWithin() time.Duration {
	if c := x.state.config.Rollout; c != nil {
		return time.Duration(c.SendWithin)
	}
	return config.DefaultSendWithin
}

// late answers a write that must not be sent any more.
func (x *exchange) late() bool {
	if x.in.while == nil || x.in.while.Err() == nil {
		return false
	}
	x.giveUp()
	return true
}

// giveUp answers a write of which nothing was sent, since its caller has gone or it came too long ago.
func (x *exchange) giveUp() {
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

// refuseRequest answers a request that cannot be carried.
func (x *exchange) refuseRequest(translation *translate.Translation, err error) {
	var refusal *translate.Refusal
	errors.As(err, &refusal)
	text := refusal.Reason
	if refusal.Field != "" {
		text = refusal.Field + ": " + text
		x.out.field = other // a name that only the sender knows may be anything
		if translation.HasRequestField(refusal.Field) {
			x.out.field = refusal.Field
		}
	}
	x.refuse(http.StatusBadRequest, refusal.Code, text, "refused")
}

// buffers hold bodies. A body of the usual size is carried without an allocation.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// giveBack returns a buffer, unless it has grown so that keeping it would cost more than making a new one.
func giveBack(b *bytes.Buffer) {
	if b.Cap() <= 64<<10 {
		b.Reset()
		buffers.Put(b)
	}
}

// requestID is the caller's where it is sane, else a new one.
func requestID(given []string) string {
	if len(given) == 1 && len(given[0]) > 0 && len(given[0]) <= 128 {
		sane := true
		for _, c := range []byte(given[0]) {
			sane = sane && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.' || c == ':')
		}
		if sane {
			return given[0]
		}
	}
	return rand.Text()
}

// isJSON tells whether the body is what the interface sends: JSON, by its type or by the lack of one.
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
