package proxy

import (
	"context"
	"log/slog"
	"strings"
	"time"

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
	ctx := context.Background()
	if !g.log.Enabled(ctx, level) {
		return
	}
	operation, upstream := none, none
	if x.route != nil {
		operation = x.route.operation.Name
		if x.target != nil {
			upstream = x.target.upstream.config.Name
		}
	}
	attrs := make([]slog.Attr, 0, 15)
	attrs = append(attrs,
		slog.String("id", x.id),
		slog.String("operation", operation),
		slog.String("client", string(x.client)),
		slog.String("upstream", upstream),
		slog.Int("status", x.out.status),
		slog.String("code", x.codeLabel()),
		slog.Float64("ms", float64(time.Since(x.start).Microseconds())/1000),
	)
	if why := x.decided.route.Reason; why != "" {
		attrs = append(attrs, slog.String("route", string(why)))
	}
	if partner := x.shortPartner(); partner != "" {
		attrs = append(attrs, slog.String("partner", partner))
	}
	if x.sent.called {
		attrs = append(attrs, slog.Float64("upstream_ms", float64(x.sent.took.Microseconds())/1000))
		if x.sent.unknown && x.route.operation.Effect == translate.Write {
			attrs = append(attrs, slog.String("outcome", "unknown"))
			if bill := x.bill(); bill != "" {
				attrs = append(attrs, slog.String("bill", bill))
			}
		}
	}
	if x.out.reason != "" {
		attrs = append(attrs, slog.String("reason", x.out.reason))
	}
	if x.sent.called && x.out.gone {
		attrs = append(attrs, slog.Bool("caller_gone", true))
	}
	if x.out.field != "" {
		attrs = append(attrs, slog.String("field", x.out.field))
	}
	g.log.LogAttrs(ctx, level, "request", attrs...)
}

// shortPartner returns the short hash of the caller's key, or "" if the key is not known.
func (x *exchange) shortPartner() string {
	switch {
	case x.decided.call.Partner != "":
		return x.decided.call.Partner.Short()
	case x.call != nil && x.call.Value(billing.Partner) != "":
		return partner.Of(x.call.Value(billing.Partner)).Short()
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
