package proxy

import (
	"log/slog"
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
	Logged bool       // the line was written; not so if log.level left it out

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

// describe sets the fields of which metrics and access log have some. The strings are valid until the end of
// the exchange. Partner is left out.
func (x *exchange) describe(f *Finished) {
	f.At, f.ID, f.Operation, f.Client, f.Upstream = time.Now(), x.id, none, x.client, none
	f.Took, f.Route, f.Status, f.Code = f.At.Sub(x.start), string(x.to.route.Reason), x.out.status, x.codeLabel()
	f.Called, f.CallerGone, f.Reason, f.Field = x.sent.called, x.sent.called && x.out.gone, x.out.reason, x.out.field
	f.NotServed = f.Code == x.state.config.Table.OwnCode(translate.OwnUnavailable)
	if x.route != nil {
		f.Operation = x.route.operation.Name
	}
	if x.to.target != nil {
		f.Upstream, f.Form = x.to.target.upstream.Config().Name, x.to.target.upstream.Config().Form
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
	line   []slog.Attr
}

var keptPool = sync.Pool{New: func() any { return new(kept) }}

// keep makes room for what is known of the exchange. For Options.Finished it copies the messages: their buffers are
// used again before the exchange ends.
func (x *exchange) keep(replyStatus int, reply []byte) {
	var request []byte
	if x.in.body != nil {
		request = x.in.body.Bytes()
	}
	if x.gateway.finished == nil {
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

// attrs appends the fields of the line in the access log.
func (f *Finished) attrs(list []slog.Attr) []slog.Attr {
	text := func(name, value string) {
		if value != "" {
			list = append(list, slog.String(name, value))
		}
	}
	list = append(list, slog.String("id", f.ID), slog.String("operation", f.Operation),
		slog.String("client", string(f.Client)), slog.String("upstream", f.Upstream), slog.Int("status", f.Status),
		slog.String("code", f.Code), accesslog.Milliseconds("ms", f.Took))
	text("route", f.Route)
	text("partner", string(f.Partner))
	if f.Called {
		list = append(list, accesslog.Milliseconds("upstream_ms", f.UpstreamTook))
	}
	if f.Unknown {
		text("outcome", "unknown")
		text("bill", f.Bill)
	}
	text("reason", f.Reason)
	if f.CallerGone {
		list = append(list, slog.Bool("caller_gone", true))
	}
	text("field", f.Field)
	return list
}

// Line returns the line of the access log in JSON, as it is written if Logged is set.
func (f *Finished) Line() string {
	return string(accesslog.Append(nil, f.At, f.Level, f.attrs(nil))) + "\n"
}
