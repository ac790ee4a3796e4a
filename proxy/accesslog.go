package proxy

import (
	"cmp"
	"context"
	"strings"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/partner"
	"billbridge/translate/billing"
)

// observe reports an exchange that has ended: to metrics and access log, and to Options.Finished. A panic of it
// must not take away the answer, which net/http may still hold.
func (g *Gateway) observe(x *exchange) {
	defer func() {
		if panicked := recover(); panicked != nil {
			g.logPanic(x.id, panicked)
		}
	}()
	if x.sent.kept == nil {
		x.keep(0, nil)
	}
	f := &x.sent.kept.Finished
	x.describe(f)
	if f.Logged = g.log.Enabled(context.Background(), f.Level); f.Logged || g.finished != nil { // a hash of the key
		f.Partner = partner.ID(x.shortPartner())
	}
	g.metrics.observe(f, x.to.target)
	if f.Logged {
		line := f.attrs(x.sent.kept.line[:0])
		accesslog.Write(g.log, f.At, f.Level, line)
		clear(line)
		x.sent.kept.line = line
	}
	if g.finished != nil {
		f.Bill = cmp.Or(f.Bill, x.bill())
		if !x.in.at.IsZero() {
			f.BodyTook = max(x.in.at.Sub(x.start), 0)
		}
		switch {
		case x.to.target != nil:
			f.Translation = x.to.target.translation
		case x.route != nil:
			f.Translation = x.route.readTranslation
		}
		g.finished(f)
	}
	keptPool.Put(x.sent.kept)
}

// maxBill is the most bytes of a bill id in the log: ids of any length can occur.
const maxBill = 100

// bill returns the bill id of the call, or "" if it has none. A caller can write its key there, which must not be
// shown.
func (x *exchange) bill() string {
	call := cmp.Or(x.call, x.in.readCall)
	if call == nil {
		return ""
	}
	bill, key := call.Value(billing.Bill), call.Value(billing.Partner)
	if key != "" && strings.Contains(bill, key) {
		return ""
	}
	return strings.ToValidUTF8(bill[:min(len(bill), maxBill)], "")
}
