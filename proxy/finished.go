package proxy

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/partner"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A Finished describes an exchange that has ended, for the access log and [Options.Finished]. It has no secrets but
// in Request and Reply, which are those of the messages.
type Finished struct {
	At           time.Time     // when it ended
	Took         time.Duration // from the header of the request to the end of the answer
	BodyTook     time.Duration // from the header to the end of the request; 0 if the request was not read
	UpstreamTook time.Duration // from the connection to the upstream to the end of its reply; 0 if it was not called

	ID        string         // X-Request-Id: the caller may have chosen it
	TraceID   string         // "" if the call has no trace; the caller may have chosen it
	Partner   partner.ID     // the first digits; "" if the key is not known
	Bill      string         // at most maxBill bytes; "" if there is none. The caller has chosen it.
	Operation string         // "none" if the path is unknown
	Client    translate.Form // of the caller
	Upstream  string         // "none" if the call was refused before it had one
	Form      translate.Form // of the upstream; "" if there is none
	Route     string         // why the rollout chose the upstream; "" if it did not

	Status     int
	Code       string // of the catalogue, or "none" or "other"
	Called     bool   // the upstream was called
	Succeeded  bool   // the upstream replied with HTTP 2xx and the code of a success, and the caller got it
	NotServed  bool   // Code is that of a service that is not available
	Unknown    bool   // a write whose outcome is not known
	CallerGone bool   // when the answer was due, or while it was written
	Reason     string // of a failure
	Field      string // of a refusal, if the table has it

	Level  slog.Level // of the line in the log
	Logged bool       // the line was written; not so if log.sample left it out
	Sample float64    // see log.sample; 0 for a line that is always written

	// Translation is the one of the call, nil if it had none. Request and Reply are the messages of the caller and
	// of the upstream. A message is nil if there was none, or if it is larger than MaxKept.
	Translation    *translate.Translation
	Request, Reply []byte
	RequestSize    int // in bytes
	ReplySize      int
	ReplyStatus    int // HTTP; 0 without a reply
}

// MaxKept is the size of the largest message that a [Finished] has.
const MaxKept = 8 << 10

// describe sets the fields of which metrics, span and access log have some. The strings are valid until the end of
// the exchange. line reports whether log.sample leaves in the line of the log. Partner is left out.
func (x *exchange) describe(f *Finished) (line bool) {
	f.At, f.ID, f.Operation, f.Client, f.Upstream = time.Now(), x.id, none, x.client, none
	f.Took, f.TraceID = f.At.Sub(x.start), x.span.TraceID()
	f.Route, f.Status, f.Code = string(x.to.route.Reason), x.out.status, x.codeLabel()
	f.Called, f.CallerGone, f.Reason, f.Field = x.sent.called, x.sent.called && x.out.gone, x.out.reason, x.out.field
	f.NotServed = f.Code == x.state.config.Table.OwnCode(translate.OwnUnavailable)
	if x.route != nil {
		f.Operation = x.route.operation.Name
	}
	if x.to.target != nil {
		f.Upstream, f.Form = x.to.target.upstream.config.Name, x.to.target.upstream.config.Form
	}
	if f.Called {
		f.UpstreamTook = x.sent.took
		f.Unknown = x.sent.unknown() && x.route.operation.Effect == translate.Write
		f.Succeeded = f.Status/100 == 2 && f.Reason == "" && !f.CallerGone && x.call.Succeeded()
	}
	if f.Unknown {
		f.Bill = x.bill()
	}
	f.Level = slog.LevelInfo
	if f.Called && f.Reason != "" {
		f.Level = slog.LevelWarn
	}
	if sample := float64(x.state.config.Log.Sample.OK); sample < 1 && f.Succeeded {
		f.Sample = sample
		return rand.Float64() < sample
	}
	return true
}

// shortPartner returns the short hash of the caller's key, or "" if the key is not known.
func (x *exchange) shortPartner() string {
	return x.partner().Short()
}

// partner returns the partner that calls, "" if the key is not known. No other place of a call turns a key into a
// partner: several keys can be those of one.
func (x *exchange) partner() partner.ID {
	for _, call := range [...]*translate.Call{x.call, x.in.readCall} { // the one that is not read yet has no key
		if x.in.id == "" && call != nil {
			x.in.id = x.gateway.identity(x.state.config, call.Value(billing.Partner))
		}
	}
	return x.in.id
}

// identity returns the partner that has a key: by the store, so that all gateways agree on it, or without one by the
// config.
func (g *Gateway) identity(c *config.Config, key string) partner.ID {
	switch id := partner.Of(key); {
	case key == "":
		return ""
	case g.store != nil:
		return g.store.Identity(id)
	default:
		return partner.ID(c.Identity(string(id)))
	}
}

// A kept is what is kept of an exchange for Options.Finished.
type kept struct {
	Finished
	buffer []byte // of the messages
}

var keptPool = sync.Pool{New: func() any { return new(kept) }}

// isReported reports whether Options.Finished gets the exchange.
func (x *exchange) isReported() bool {
	return x.gateway.finished != nil
}

// keep makes room for what is known of the exchange. For Options.Finished it copies the messages: their buffers are
// used again before the exchange ends.
func (x *exchange) keep(replyStatus int, reply []byte) {
	var request []byte
	if x.in.body != nil {
		request = x.in.body.Bytes()
	}
	if !x.isReported() {
		request, reply = nil, nil
	}
	k := keptPool.Get().(*kept)
	k.Finished = Finished{ReplyStatus: replyStatus, RequestSize: len(request), ReplySize: len(reply)}
	request, reply = upToMax(request), upToMax(reply)
	k.buffer = append(append(k.buffer[:0], request...), reply...)
	if len(request) > 0 {
		k.Request = k.buffer[:len(request)]
	}
	if len(reply) > 0 {
		k.Reply = k.buffer[len(request):]
	}
	x.sent.kept = k
}

func upToMax(message []byte) []byte {
	if len(message) > MaxKept {
		return nil
	}
	return message
}

// log adds the fields to a line of the access log.
func (f *Finished) log(line *accesslog.Line) {
	text := func(name, value string) {
		if value != "" {
			line.String(name, value)
		}
	}
	line.String("id", f.ID)
	text("trace_id", f.TraceID)
	line.String("operation", f.Operation)
	line.String("client", string(f.Client))
	line.String("upstream", f.Upstream)
	line.Int("status", f.Status)
	line.String("code", f.Code)
	line.Milliseconds("ms", f.Took)
	text("route", f.Route)
	text("partner", string(f.Partner))
	if f.Called {
		line.Milliseconds("upstream_ms", f.UpstreamTook)
	}
	if f.Unknown {
		line.String("outcome", "unknown")
		text("bill", f.Bill)
	}
	text("reason", f.Reason)
	if f.CallerGone {
		line.Bool("caller_gone", true)
	}
	text("field", f.Field)
	if f.Sample != 0 {
		line.Float("sample", f.Sample)
	}
}

// Line returns the line of the access log in JSON, as it is written if Logged is set.
func (f *Finished) Line() string {
	var out bytes.Buffer
	h := accesslog.New(&out, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
	line := accesslog.Start(slog.New(h), f.At, f.Level)
	if line == nil { // a level below INFO
		return ""
	}
	f.log(line)
	line.End()
	h.Close()
	return out.String()
}
