package proxy

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/partner"
	"billbridge/translate/billing"
)

// observe updates the metrics, writes a line of the access log and calls Options.Finished when an exchange has ended.
func (g *Gateway) observe(x *exchange) {
	g.metrics.observe(x)
	x.endSpan()
	if !x.isReported() {
		var f Finished // on the stack
		g.writeLine(x, &f)
		return
	}
	k := x.keptOrNew()
	g.writeLine(x, &k.Finished)
	x.describeMore(&k.Finished)
	g.finished(&k.Finished)
	keptPool.Put(k)
}

// writeLine describes the exchange in f, and writes its line unless log.sample leaves it out.
func (g *Gateway) writeLine(x *exchange, f *Finished) {
	sample, succeeded := float64(x.state.config.Log.Sample.OK), x.succeeded()
	sampled := sample < 1 && succeeded
	leaveOut := sampled && rand.Float64() >= sample
	if leaveOut && !x.isReported() {
		return
	}
	level, now := slog.LevelInfo, time.Now()
	if x.sent.called && x.out.reason != "" {
		level = slog.LevelWarn
	}
	var line *accesslog.Line
	if !leaveOut {
		line = accesslog.Start(g.log, now, level)
	}
	if line == nil && !x.isReported() {
		return
	}
	x.describe(f, now)
	f.Level, f.Succeeded, f.Logged = level, succeeded, line != nil
	if sampled {
		f.Sample = sample
	}
	if line != nil {
		f.log(line)
		line.End()
	}
}

// succeeded reports whether the upstream replied with HTTP 2xx and the code of a success, and the caller got it. Only the lines of
// these requests are sampled.
func (x *exchange) succeeded() bool {
	return x.sent.called && x.out.status/100 == 2 && x.out.reason == "" && !x.out.gone && x.call != nil && x.call.Succeeded()
}

// shortPartner returns the short hash of the caller's key, or "" if the key is not known.
func (x *exchange) shortPartner() string {
	switch {
	case x.decided.call.Partner != "":
		return x.decided.call.Partner.Short()
	case x.call != nil && x.call.Value(billing.Partner) != "":
		return partner.ShortOf(x.call.Value(billing.Partner))
	}
	return ""
}

// maxBill is the most bytes of a bill id in the log: ids of any length can occur.
const maxBill = 100

// bill returns the bill id of the call, or "" if it has none. A caller can write its key there, which must not be shown.
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
