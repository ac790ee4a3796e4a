package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
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
	target  *routeTarget    // where the call goes; nil where no upstream can take it
	call    *translate.Call // nil until the request is read
	out     outcome
	in      *bytes.Buffer   // the request's body; what the call keeps points into it
	partner string          // the full hash of the partner's key, where the rollout had to know it before there was a call
	arrived time.Time       // when all of the request was there
	waited  bool            // it was there before its connection was accepted
	while   context.Context // of a write: it is not sent any more when this has ended
	why     rollout.Reason  // why the rollout sends it there; "" where none decided
	unsure  bool            // only a success may be answered with (see rollout.Route)
	shown   *rollout.Shown  // what a read said of the bill, where that is to be recorded in the ledger; nil elsewhere
	busy    bool            // the transport may still be reading what was sent, which may be in
}

// An outcome is what became of an exchange, for metrics and log.
type outcome struct {
	status   int
	code     string // in the form of the catalogue; "" where no code was given
	upstream time.Duration
	asked    bool   // whether the upstream was asked
	sent     bool   // whether a byte of the call may have left and no answer to it is known
	gone     bool   // whether the caller had gone when the answer was due, or while it was written
	reason   string // for the log: never a value of a body
	field    string // for the log: the path that a refusal names, if it is one of the table
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
	x.in = buffers.Get().(*bytes.Buffer)
	var err error
	var late net.Error
	if x.r.ContentLength <= limit {
		body := x.gateway.bound(x.w, x.r.Body)
		defer body.end()
		_, err = x.in.ReadFrom(io.LimitReader(body, limit+1))
	}
	switch {
	case x.r.ContentLength > limit || int64(x.in.Len()) > limit:
		// What is left of it is not read: this connection has no next request.
		x.w.Header().Set("Connection", "close")
		x.fail(tooLarge, "the body is larger than "+strconv.FormatInt(limit, 10)+" bytes")
		return false
	case errors.As(err, &late) && late.Timeout():
		x.w.Header().Set("Connection", "close")
		x.fail(lateBody, "the body timed out, nothing was sent")
		return false
	case err != nil:
		x.w.Header().Set("Connection", "close")
		x.fail(badBody, "the body broke off, nothing was sent")
		return false
	}
	x.arrived = time.Now()
	if waited, ok := x.r.Context().Value(waitedKey{}).(time.Duration); ok {
		x.arrived, x.waited = x.arrived.Add(-waited), true
	}
	return true
}

// carry translates the request, asks the upstream and brings its reply back.
func (x *exchange) carry() {
	defer x.bound()()
	var call rollout.Call // both zero where there is no rollout
	var way rollout.Route
	if x.route.targets != nil {
		var ok bool
		call, way, ok = x.routeByRollout()
		if x.partner = call.Partner; !ok {
			x.target = nil // nothing was sent: neither metrics nor log may name an upstream
			return
		}
		x.target, x.unsure = x.route.targets[way.Upstream], way.OnlyIfFound
		defer func() { x.complete(call, way) }()
		if x.target == nil { // a reload has just given the rollout other sides
			x.fail(unowned, "the backends are being exchanged; nothing was sent")
			return
		}
		x.why = way.Reason
	}
	target := x.target
	x.call = target.translation.Start()
	out := buffers.Get().(*bytes.Buffer)
	out.Grow(2 * x.in.Len())
	body, err := x.call.Request(out.AvailableBuffer(), x.in.Bytes())
	if err != nil {
		giveBack(out)
		x.refuseRequest(target.translation, err)
		return
	}
	target.metrics.report("request", &x.call.Report)
	body, ok := x.swapCallbackURL(body)
	if !ok {
		giveBack(out)
		return
	}

	if x.late() {
		giveBack(out)
		return
	}

	// A caller that goes away ends a read. A write that has left goes on: its outcome is logged.
	ctx := x.r.Context()
	if x.route.operation.Effect == translate.Write {
		ctx = context.WithoutCancel(ctx)
	}
	var asked []byte // kept for a comparison: its place is the answer's
	if way.Compare != "" {
		asked = bytes.Clone(body)
	}
	reply := buffers.Get().(*bytes.Buffer)
	sending := newPayload(body)
	sending.while, sending.partner = x.while, x.call.Value(billing.Partner)
	began := time.Now()
	x.out.asked, x.out.sent = true, true // what a panic from here on must assume
	x.busy = true
	to := target.url
	if x.route.passes {
		to = x.passTarget()
	}
	response, err := target.upstream.post(ctx, to, x.id, sending, reply, int64(x.state.config.Limits.Reply))
	if !sending.connected.IsZero() {
		began = sending.connected
	}
	x.out.upstream = time.Since(began)
	x.busy = !sending.reusable()
	if err != nil {
		x.broke(err)
		return
	}
	// The request has left: the answer can have its place. What the answer echoes is in the caller's bytes.
	if x.busy {
		out = new(bytes.Buffer)
	}
	out.Grow(2 * reply.Len())
	answer, err := x.call.Reply(out.AvailableBuffer(), response.StatusCode, reply.Bytes())
	if x.route.passes {
		answer, err = reply.Bytes(), nil // whatever it is
	}
	if err != nil {
		x.broke(target.upstream.noAnswer(response.StatusCode, err))
		return
	}
	target.metrics.report("reply", &x.call.Report)
	if x.unsure && !x.call.Succeeded() {
		// The bill may be at the other upstream: this one's word is no answer.
		x.out.sent = false
		x.fail(unowned, "it is not known just now at which backend the bill is")
		return
	}
	table := x.state.config.Table
	code := table.Code(x.call.Code(), target.upstream.config.Form, table.Forms()[0])
	if way.Deniable && !x.call.Succeeded() && x.means(translate.NotFound) {
		if refused := x.deny(call); refused != nil {
			x.out.sent = false
			x.refuseUnowned(refused, "")
			return
		}
	}
	x.out.code = code
	x.keepShown(way)
	if !x.call.Succeeded() && x.state.config.Failures.MaskHosts && !x.route.passes {
		answer = maskHosts(answer, table.TextName(x.client))
	}
	if after := response.Header.Get("Retry-After"); after != "" {
		x.w.Header().Set("Retry-After", after)
	}
	// Only here, where nothing is left to fail that could be answered: until now a failure of ours must not look
	// like a refusal of what the upstream may have done.
	x.out.sent = false
	if x.route.passes {
		x.w.Header()["Content-Type"] = response.Header["Content-Type"]
	}
	err = x.write(response.StatusCode, answer)
	if way.Compare != "" {
		x.compare(call, way.Compare, asked, response.StatusCode, reply.Bytes())
	}
	if err == nil {
		// HTTP/2 may go on reading an answer whose caller has reset the stream. On every other way that ends badly,
		// too, the buffers are left to the garbage collector: no saving is worth another partner's bytes.
		giveBack(out)
		giveBack(reply)
	}
}

// bound sets until when a write may be sent: its caller must be there, and where a rollout decides, which may have to wait
// for others first, or where it waited in the socket, it must have arrived lately. A caller's going is not always seen: a load balancer may hide it. Whoever
// has given up may do something else with the bill. What it returns releases the timer.
func (x *exchange) bound() (release context.CancelFunc) {
	if x.route.operation.Effect != translate.Write {
		return func() {}
	}
	x.while = x.r.Context()
	if x.route.targets == nil && !x.waited {
		return func() {}
	}
	x.while, release = context.WithDeadline(x.while, x.arrived.Add(x.sendWithin()))
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
	if x.while == nil || x.while.Err() == nil {
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
		if translation.Names(refusal.Field) {
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
