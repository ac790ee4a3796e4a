package proxy

import (
	"cmp"
	"context"
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

// describe returns what is known of an exchange that has ended. What only Options.Finished needs is left out without
// it.
func (x *exchange) describe() Finished {
	now, out, table := time.Now(), &x.answer, x.state.config.Table
	f := Finished{
		At: now, Took: now.Sub(x.start), ID: x.id, Operation: none, Client: x.client, Upstream: none,
		Route: string(x.to.route.Reason), Status: out.status, Code: x.state.codeLabel(out.code), Called: x.sent.called,
		CallerGone: x.sent.called && out.gone, Reason: out.reason, Field: out.field, Level: slog.LevelInfo,
	}
	f.NotServed = f.Code == table.Own[translate.OwnUnavailable]
	if x.route != nil {
		f.Operation, f.Translation = x.route.operation.Name, x.route.readTranslation
	}
	if x.to.target != nil {
		up := x.to.target.upstream.Config
		f.Upstream, f.Form, f.Translation = up.Name, up.Form, x.to.target.translation
	}
	if f.Called {
		f.UpstreamTook = x.sent.took
		f.Succeeded = f.Status/100 == 2 && f.Reason == "" && !f.CallerGone && x.out.call.Succeeded()
		f.Unknown = x.sent.unknown() && x.route.operation.Effect == translate.Write
		if f.Reason != "" {
			f.Level = slog.LevelWarn
		}
	}
	finished := x.gateway.finished != nil
	if f.Logged = x.gateway.log.Enabled(context.Background(), f.Level); f.Logged || finished {
		f.Partner, f.Bill = partner.ID(x.asked.who.Short()), loggedBill(cmp.Or(x.out.call, x.asked.call))
	}
	if !finished {
		return f
	}
	if !x.in.at.IsZero() {
		f.BodyTook = max(x.in.at.Sub(x.start), 0)
	}
	if x.in.body != nil && x.in.body.Buffer != nil {
		f.Request, f.RequestSize = upToMax(x.in.body.Bytes())
	}
	if f.ReplyStatus = x.sent.status; f.ReplyStatus != 0 {
		f.Reply, f.ReplySize = upToMax(x.sent.reply.Bytes())
	}
	return f
}

// upToMax returns a message, unless it is empty or too large, and its size.
func upToMax(message []byte) ([]byte, int) {
	size := len(message)
	if size == 0 || size > MaxKept {
		message = nil
	}
	return message, size
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

// A kept is what observe needs, to be used again.
type kept struct {
	Finished
	line []slog.Attr
}

var keptPool = sync.Pool{New: func() any { return new(kept) }}

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
	if f.Unknown { // an operator must find the bill, whatever the caller wrote there
		text("outcome", "unknown")
		text("bill", f.Bill)
	} else if f.Partner != "" { // without a key it could be one in the wrong place
		text("bill", billing.MaskBill(f.Bill))
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
