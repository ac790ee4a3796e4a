package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Queue stores an event for a destination of [config.Config.Notify]. It is delivered as a callback is, after earlier
// events of its order. An event with an id that the store has is not stored again.
func (r *Relay) Queue(ctx context.Context, to *config.Destination, id, order string, body []byte) error {
	u, err := url.Parse(to.URL.Reveal())
	if err != nil {
		return errors.New(notCalled) // the error would show it
	}
	_, err = r.store.Accept(ctx, store.Callback{Notice: store.Notice{
		ID: id, Upstream: config.NotifyUpstream, Form: to.Format, URL: to.URL.Reveal(), Host: hostOf(u), Order: order,
		Digest: sha256.Sum256([]byte(id)), ContentType: "application/json", Body: body, Received: r.now(),
	}, News: store.News{Once: true}}, r.current.Load().callbacks.Retention)
	r.Wake()
	return err
}

// signed returns the signature of an event by Standard Webhooks.
func signed(to *config.Destination, c store.Claimed, at time.Time) string {
	key, _ := standardwebhooks.NewWebhook(to.Secret.Reveal()) // the config has checked it
	signature, _ := key.Sign(c.ID, at, c.Body)
	return signature
}
