package proxy

import (
	"log/slog"
	"sync"
	"time"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/partner"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A Finished describes an exchange that has ended, for the access log and [Options.Finished]. It has no secrets but
// in Request and Reply, which are those of the messages.
type Finished struct {
	Subject
	Times
	Destination

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

	Messages
}

// A Subject is what a call is about, and who called.
type Subject struct {
	ID        string         // X-Request-Id: the caller may have chosen it
	Partner   partner.ID     // the first digits; "" if the key is not known
	Bill      string         // at most maxBill bytes; "" if there is none. The caller has chosen it.
	Operation string         // "none" if the path is unknown
	Client    translate.Form // of the caller
}

// Times are when an exchange ended, and how long its parts took.
type Times struct {
	At           time.Time     // when it ended
	Took         time.Duration // from the header of the request to the end of the answer
	BodyTook     time.Duration // from the header to the end of the request; 0 if the request was not read
	UpstreamTook time.Duration // from the connection to the upstream to the end of its reply; 0 if it was not called
}

// A Destination is where a call went, or would have gone.
type Destination struct {
	Upstream string         // "none" if the call was refused before it had one
	Form     translate.Form // of the upstream; "" if there is none
	Route    string         // why the rollout chose the upstream; "" if it did not
}

// Messages are those of the caller and of the upstream. A message is nil if there was none, or if it is larger than
// MaxKept.
type Messages struct {
	Translation    *translate.Translation // of the call; nil if it had none
	Request, Reply []byte
	RequestSize    int // in bytes
	ReplySize      int
	ReplyStatus    int // HTTP; 0 without a reply
}

// MaxKept is the size of the largest message that a [Finished] has.
const MaxKept = 8 << 10

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
