package relay

import (
	"context"
	"crypto/sha256"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Queue stores an event for a destination of [config.Config.Notify]. It is delivered as a callback is, after earlier
// events of its order. An event with an id that the store has is not stored again. The error is a [*Wrong] if the
// address is never called.
func (r *Relay) Queue(ctx context.Context, to *config.Destination, id, order string, body []byte) error {
	s, address := r.current.Load(), to.URL.Reveal()
	u, err := s.guard.check(address)
	if err != nil {
		return &Wrong{err.Error()}
	}
	_, _, err = r.store.Accept(ctx, store.Callback{
		ID: id, Upstream: config.NotifyUpstream, Form: to.Format, URL: address, Host: hostOf(u), Order: order, Once: true,
		Digest: sha256.Sum256([]byte(id)), ContentType: "application/json", Body: body, Received: r.now(),
	}, time.Duration(s.callbacks.Retention))
	r.Wake()
	return err
}

// sign returns the signature of an event by Standard Webhooks, "" if the destination has no secret.
func sign(to *config.Destination, c store.Claimed, at time.Time) string {
	if !to.Secret.IsSet() {
		return ""
	}
	var signature string
	key, err := standardwebhooks.NewWebhook(to.Secret.Reveal())
	if err == nil {
		signature, err = key.Sign(c.ID, at, c.Body)
	}
	if err != nil {
		panic("a secret that the config has checked cannot sign") // the error may quote it
	}
	return signature
}
