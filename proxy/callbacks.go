package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/relay"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// storeWithin is how long a call waits for the store before it is refused.
const storeWithin = 5 * time.Second

// readdress puts an address of ours where the request has the partner's, so that the callback comes to us and is
// brought on in the partner's form. A request without one stays as it is. Where ours cannot be stored nothing is sent,
// and the exchange has been answered: a callback that nobody can place would be lost.
func (x *exchange) readdress(body []byte) (_ []byte, ok bool) {
	if x.gateway.relay == nil {
		return body, true
	}
	theirs, field, ok := x.call.CallbackAddress()
	if !ok {
		return body, true
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), storeWithin)
	defer cancel()
	// Copies of what is stored as it is: the store may write it after it was given up, when another call has the buffer
	// of the request.
	asked := relay.Asked{
		Upstream: x.lane.upstream.config.Name, Operation: x.route.operation.Name, Form: x.client,
		Key: x.call.Partner(), OfBill: x.route.operation.OfBill(), Bill: strings.Clone(x.call.Bill()), Expiry: x.call.Expiry(),
		URL: strings.Clone(theirs),
	}
	asked.Member, asked.Merchant = x.call.Store()
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
	return x.call.Readdress(nil, ours), true
}

// answerCallback has the relay answer an upstream's callback. What holds for every answer of ours holds here, too: it
// has an id, and a panic answers this request and ends nothing else (R40). The upstream then tries again.
func (g *Gateway) answerCallback(w http.ResponseWriter, r *http.Request) {
	id := requestID(r.Header["X-Request-Id"])
	w.Header().Set("X-Request-Id", id)
	defer func() {
		if panicked := recover(); panicked != nil {
			g.log.Error("panic", "id", id, "type", fmt.Sprintf("%T", panicked), "stack", string(debug.Stack()))
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusInternalServerError)
		}
	}()
	g.relay.ServeHTTP(w, r)
}

// openRelay opens the store of the config and the relay on it. Without a store there is neither.
func (s *Server) openRelay(c *config.Config, registry prometheus.Registerer, build Build) (err error) {
	if !c.Store.URL.IsSet() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if s.store, err = store.Open(ctx, c.Store.URL.Reveal()); err != nil {
		return err
	}
	if err = s.reconcile(c); err == nil {
		s.relay, err = relay.New(c, relay.Options{
			Store: s.store, Registerer: registry, Logger: s.log, UserAgent: userAgent(build),
		})
	}
	if err != nil {
		return errors.Join(err, s.store.Close())
	}
	return nil
}

// reconcile refuses a config that drops an upstream which callbacks are still expected of, or gives its name to another.
func (s *Server) reconcile(c *config.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	list := make([]store.Upstream, len(c.Upstreams))
	for i, u := range c.Upstreams {
		list[i] = store.Upstream{Name: u.Name, Form: string(u.Form), URL: u.Address.String()}
	}
	sides := store.Sides{Alone: c.Route.Default}
	if c.Rollout != nil {
		sides = store.Sides{Old: c.Rollout.Old, New: c.Rollout.New, Shared: c.Rollout.Bills == config.Shared, Staying: []string{"old", "shadow"}}
	}
	// Both may refuse the config, and what one notes the other must not find when it does: so the sides are looked at first,
	// and noted last.
	look := sides
	look.Look = true
	if err := s.store.Sides(ctx, look, time.Now()); err != nil {
		return err
	}
	moved, err := s.store.Reconcile(ctx, list)
	for _, was := range moved {
		s.log.Warn("the address of an upstream has changed; bills and callback addresses of it are in the store",
			"upstream", was.Name, "was", was.URL, "is", c.Upstreams.Find(was.Name).Address.String())
	}
	if err != nil {
		return err
	}
	return s.store.Sides(ctx, sides, time.Now())
}

func userAgent(b Build) string { return "billbridge/" + cmp.Or(b.Version, "unknown") }
