package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/relay"
	"billbridge/translate/billing"
)

// swapCallbackURL puts an address of ours where the request has the partner's, so that the callback comes to us and is
// brought on in the partner's form. A request without one stays as it is. Where ours cannot be stored nothing is sent,
// and the exchange has been answered: a callback that nobody can place would be lost.
func (x *exchange) swapCallbackURL(body []byte) (_ []byte, ok bool) {
	if x.gateway.relay == nil {
		return body, true
	}
	theirs, field, ok := x.call.StringValue(billing.Callback)
	if !ok {
		return body, true
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), config.StoreTimeout)
	defer cancel()
	// Copies of what is stored as it is: the store may write it after it was given up, when another call has the buffer
	// of the request.
	asked := relay.Asked{
		Upstream: x.target.upstream.config.Name, Operation: x.route.operation.Name, Form: x.client,
		Key: x.call.Value(billing.Partner), OfBill: billing.AboutBill(x.route.operation), Bill: strings.Clone(x.call.Value(billing.Bill)),
		Expiry: x.call.Value(billing.Expiry), Member: x.call.Value(billing.Member), Merchant: x.call.Value(billing.Merchant),
		URL: strings.Clone(theirs),
	}
	ours, err := x.gateway.relay.Bind(ctx, asked)
	var wrong *relay.Wrong
	switch {
	case errors.As(err, &wrong):
		x.out.field = field
		x.fail(wrongAddress, field+": "+wrong.Text)
		return nil, false
	case err != nil:
		if x.r.Context().Err() == nil { // else it is the caller that has gone
			x.gateway.log.Error("a callback address cannot be kept", "id", x.id, "error", err.Error())
		}
		x.fail(notStored, "the callback address cannot be kept just now, nothing was sent")
		return nil, false
	case ours == theirs:
		return body, true
	}
	return x.call.Replace(nil, billing.Callback, ours), true
}

// AnswerCallback has the relay answer an upstream's callback. What holds for every answer of ours holds here, too: it
// has an id, and a panic answers this request and ends nothing else (R40). The upstream then tries again.
func (g *Gateway) AnswerCallback(w http.ResponseWriter, r *http.Request) {
	id := requestID(r.Header["X-Request-Id"])
	w.Header().Set("X-Request-Id", id)
	defer func() {
		if panicked := recover(); panicked != nil {
			g.log.Error("panic", "id", id, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusInternalServerError)
		}
	}()
	if g.noKeepAlives.Load() {
		w.Header().Set("Connection", "close")
	}
	body := g.drainable(w, r.Body, time.Duration(g.current.Load().config.Timeouts.Body))
	defer body.end()
	r.Body = body
	g.relay.ServeHTTP(w, r)
}
