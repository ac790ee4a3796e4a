package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/partner"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// observe reports an exchange that has ended: to metrics and access log, and to Options.Finished.
func (x *exchange) observe() {
	g, k := x.gateway, keptPool.Get().(*kept)
	f := &k.Finished
	*f = x.describe()
	g.metrics.observe(f, x.to.target)
	if f.Logged {
		k.line = f.attrs(k.line[:0])
		accesslog.Write(g.log, f.At, f.Level, k.line)
		clear(k.line)
	}
	if g.finished != nil {
		g.finished(f)
	}
	*f = Finished{} // it refers to buffers
	keptPool.Put(k)
}

// describe returns what is known of an exchange that has ended. What only Options.Finished needs is left out without
// it.
func (x *exchange) describe() Finished {
	now, out, table := time.Now(), &x.answer, x.state.config.Table
	f := Finished{
		Subject:     Subject{ID: x.id, Operation: none, Client: x.client},
		Times:       Times{At: now, Took: now.Sub(x.start)},
		Destination: Destination{Upstream: none, Route: string(x.to.route.Reason)},
		Status:      out.status, Code: x.state.codeLabel(out.code), Called: x.sent.called,
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

// observe counts an exchange that has ended. target is where its call went, nil if no upstream was chosen.
func (m *metrics) observe(f *Finished, target *routeTarget) {
	duration := f.Took.Seconds()
	if target != nil {
		target.metrics.duration.Observe(duration)
		if f.Called {
			target.metrics.upstreamDuration.Observe(f.UpstreamTook.Seconds())
		}
		target.metrics.counter(counterKey{of: m.requests, code: f.Code, status: statusLabel(f.Status)}).Inc()
		return
	}
	m.requestDuration.WithLabelValues(f.Operation, string(f.Client), none).Observe(duration)
	m.requests.WithLabelValues(f.Operation, string(f.Client), none, f.Code, statusLabel(f.Status)).Inc()
}

// codeLabel returns the code if it is in the catalogue. An upstream chooses its codes, and the labels must be few.
func (s *state) codeLabel(code string) string {
	switch {
	case code == "":
		return none
	case s.config.Table.InCatalogue(code):
		return code
	}
	return other
}

// maxBill is the most bytes of a bill id in the log: ids of any length can occur.
const maxBill = 100

// longPart is how much of a key must not be shown.
const longPart = 8

// loggedBill returns the bill id of a call, or "" if it has none. A caller can write its key there, or a part of it,
// which must not be shown. A short id is often a part of one, without a copy.
func loggedBill(call *translate.Call) string {
	if call == nil {
		return ""
	}
	bill, key := call.Value(billing.Bill), call.Value(billing.Partner)
	if key != "" && (strings.Contains(bill, key) || len(bill) >= longPart && strings.Contains(key, bill)) {
		return ""
	}
	return strings.ToValidUTF8(bill[:min(len(bill), maxBill)], "")
}
