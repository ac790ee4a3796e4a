package proxy

import (
	"billbridge/proxy/relay"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// noteExpiry logs that the last day of a bill cannot be read, where the gateway keeps what it knows of the bill until
// then: that is kept as for a bill without a last day. What is written there can be anything, and is not logged.
func (x *exchange) noteExpiry(a asked) {
	kept := x.route.targets != nil || x.state.config.Callbacks != nil
	if day := a.call.Value(billing.Expiry); kept && day != "" && relay.Until(day).IsZero() {
		x.gateway.callLog.Warn("the last day of a bill is not written as YYYY-MM-DD: it counts as not known",
			"id", x.id, "operation", x.route.operation.Name,
			"field", x.route.operation.PathOf(translate.Request, billing.Expiry, x.client), "partner", a.who.Short())
	}
}
