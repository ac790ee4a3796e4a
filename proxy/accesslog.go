package proxy

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"billbridge/proxy/accesslog"
	"billbridge/proxy/partner"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// observe updates the metrics and writes a line of the access log when an exchange has ended.
func (g *Gateway) observe(x *exchange) {
	g.metrics.observe(x)
	level := slog.LevelInfo
	if x.sent.called && x.out.reason != "" {
		level = slog.LevelWarn
	}
	sample := float64(x.state.config.Log.Sample.OK)
	sampled := sample < 1 && x.succeeded()
	if sampled && rand.Float64() >= sample {
		return
	}
	now := time.Now()
	line := accesslog.Start(g.log, now, level)
	if line == nil {
		return
	}
	x.log(line, now)
	if sampled {
		line.Float("sample", sample)
	}
	line.End()
}

// succeeded reports whether the upstream replied with HTTP 2xx and the code of a success, and the caller got it. Only the lines of
// these requests are sampled.
func (x *exchange) succeeded() bool {
	return x.sent.called && x.out.status/100 == 2 && x.out.reason == "" && !x.out.gone && x.call != nil && x.call.Succeeded()
}

// log adds the fields of the exchange to its line.
func (x *exchange) log(line *accesslog.Line, now time.Time) {
	operation, upstream := none, none
	if x.route != nil {
		operation = x.route.operation.Name
		if x.target != nil {
			upstream = x.target.upstream.config.Name
		}
	}
	line.String("id", x.id)
	line.String("operation", operation)
	line.String("client", string(x.client))
	line.String("upstream", upstream)
	line.Int("status", x.out.status)
	line.String("code", x.codeLabel())
	line.Milliseconds("ms", now.Sub(x.start))
	if why := x.decided.route.Reason; why != "" {
		line.String("route", string(why))
	}
	if partner := x.shortPartner(); partner != "" {
		line.String("partner", partner)
	}
	if x.sent.called {
		line.Milliseconds("upstream_ms", x.sent.took)
		if x.sent.unknown && x.route.operation.Effect == translate.Write {
			line.String("outcome", "unknown")
			if bill := x.bill(); bill != "" {
				line.String("bill", bill)
			}
		}
	}
	if x.out.reason != "" {
		line.String("reason", x.out.reason)
	}
	if x.sent.called && x.out.gone {
		line.Bool("caller_gone", true)
	}
	if x.out.field != "" {
		line.String("field", x.out.field)
	}
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

// bill returns the bill id of the call, or "" if it has none. Ids of any length can occur, so it returns at most 100 bytes.
func (x *exchange) bill() string {
	if x.call == nil {
		return ""
	}
	bill := x.call.Value(billing.Bill)
	return strings.ToValidUTF8(bill[:min(len(bill), 100)], "")
}
