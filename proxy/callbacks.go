package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"billbridge/config"
	"billbridge/proxy/admission"
	"billbridge/proxy/relay"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// swapCallbackURL replaces the partner's callback address in the request by one of the gateway, so that the callback
// comes to the gateway and is delivered in the partner's form. A request without an address is not changed. If the
// new address cannot be stored, nothing is sent, since the callback would be lost.
func (x *exchange) swapCallbackURL(out outgoing) (outgoing, *failure) {
	asked, field, ok := relay.Binding{Stored: x.to.route.Address}, "", true
	if asked.Stored == "" {
		asked, field, ok = x.binding(out.call)
	}
	if !ok {
		return out, nil
	}
	if x.route.targets == nil && x.state.config.Callbacks != nil {
		if failed := x.mayHoldRows(); failed != nil {
			return out, failed
		}
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), config.StoreTimeout)
	defer cancel()
	asked.Upstream = x.to.target.upstream.Config.Name
	gatewayURL, err := x.gateway.relay.Bind(ctx, asked)
	var wrong *relay.Wrong
	switch {
	case errors.As(err, &wrong):
		member := x.route.operation.PathOf(translate.Request, billing.Member, x.client)
		merchant := x.route.operation.PathOf(translate.Request, billing.Merchant, x.client)
		failed := wrongAddress.with(field)
		failed.field = field
		if strings.Contains(wrong.Text, "merchant") && (member == "" || merchant == "") {
			failed.says = append(failed.says, tell("long_id")...)
		} else {
			values := []any{member, merchant}
			failed.says = append(failed.says, translate.Detail{Format: wrong.Text, Values: values})
		}
		return out, failed
	case err != nil:
		if x.r.Context().Err() == nil { // otherwise the caller has gone, which is not an error of the store
			x.gateway.storeError(x.id, "a callback address cannot be stored", err)
		}
		return out, notStored.with()
	case gatewayURL != asked.URL:
		out.address = gatewayURL
		out.request = out.call.Replace(nil, billing.Callback, gatewayURL)
	}
	return out, nil
}

// binding is the callback address of the request, and its field; ok is false if it has none.
func (x *exchange) binding(call *translate.Call) (asked relay.Binding, field string, ok bool) {
	if x.gateway.relay != nil {
		asked.URL, field, ok = call.StringValue(billing.Callback)
	}
	if !ok {
		return asked, "", false
	}
	// Clones: the store may write these strings after a timeout, when another call uses the buffer of the request.
	who := billing.IdentityOf(call)
	return relay.Binding{
		Operation: x.route.operation.Name, Form: x.client, OfBill: billing.AboutBill(x.route.operation), Bill: who.Bill,
		Partner: x.asked.who, Expiry: call.Value(billing.Expiry), Member: who.Member, Merchant: who.Merchant,
		URL: strings.Clone(asked.URL),
	}, field, true
}

// mayHoldRows returns why a call that adds rows to the store is not sent, or nil.
func (x *exchange) mayHoldRows() *failure {
	g, id := x.gateway, x.asked.who
	if g.relay == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), config.StoreTimeout)
	defer cancel()
	if proven, may := g.relay.MayHold(ctx, id); g.admission.MayAddRows(id, x.from, proven, may) {
		return nil
	}
	return tooManyRows.with().later(admission.TrialAfter)
}

// AnswerCallback has the relay answer a callback of an upstream. Like every answer it has an X-Request-Id, and a
// panic ends only this request (R40): the upstream then sends the callback again.
func (g *Gateway) AnswerCallback(w http.ResponseWriter, r *http.Request) {
	id := requestID(r.Header["X-Request-Id"])
	w.Header().Set("X-Request-Id", id)
	refuse := func(status int) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(status)
	}
	survived := g.survives(id, func() {
		g.keepAlives.set(w.Header(), r)
		from, ok := g.admission.Enter(r)
		if !ok {
			w.Header().Set("Retry-After", "1")
			refuse(http.StatusServiceUnavailable)
			return
		}
		defer g.admission.Leave(from)
		if hasTwoLengths(r) {
			refuse(http.StatusBadRequest)
			return
		}
		body, end := g.admission.Count(w, r, from, g.current.Load().config.Timeouts.Body, relay.ErrNoMemory)
		defer end()
		r.Body = body
		g.relay.ServeHTTP(w, r)
	})
	if !survived {
		refuse(http.StatusInternalServerError)
	}
}
