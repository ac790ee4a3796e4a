package relay

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate/billing"

	"github.com/gorilla/mux"
)

// lostFor is how long after a loss of writes an unknown address may be one of the lost: so long do backends repeat a callback
// (translate/README.md, Events). A final answer would lose the callback of a payment.
const lostFor = 24 * time.Hour

// lostMark begins the ids of rows for lost addresses. What follows is in the log: the upstream, if it is known, and 16 of
// the digits, which addresses with the same partner's address have in common if they are sealed. All digits are a secret.
const lostMark = "lost "

// mayLackAddresses reports whether the store was restored, or lacks writes after a fail-over, a short time ago.
func (r *Relay) mayLackAddresses(ctx context.Context) bool {
	state, err := r.store.Rollout(ctx)
	return err != nil || !state.Restored.At.IsZero() && r.now().Sub(state.Restored.At) < lostFor
}

// lost asks the upstream to send a callback to a lost address again.
func (in *inbound) lost(req *http.Request, lost string) {
	body, ok := in.read(req)
	if !ok {
		return
	}
	_, notice, _ := in.s.rows.Translate(nil, body, in.form, in.form)
	bills := notice.Values[billing.Bill]
	of := fmt.Sprintf("bill %.40q", bills)
	for _, key := range notice.Values[billing.Partner] {
		if strings.Contains(fmt.Sprint(bills), key) { // a key is never logged
			of = "a bill"
		}
		of += " of partner " + partner.ShortOf(key)
	}
	in.relay.lostLog.Error("callbacks came to addresses that the store does not have, and it lacks writes since a fail-over or a restore: they get "+
		"503, so that the backend sends them again. See billbridge callbacks assign --help", "lost", lost, "of", of)
	in.fail(http.StatusServiceUnavailable, "lost_address", "this callback cannot be taken now. Send it again later")
}

// assign stores an address for a lost one: that of a callback of its partner, or one that the operator gives.
func (r *Relay) assign(w http.ResponseWriter, req *http.Request) {
	d, rest, err := decisionOf(req.URL.RawQuery)
	q, _ := url.ParseQuery(rest) // it was encoded from values
	c, missing := r.store.Get(req.Context(), mux.Vars(req)["id"])
	c.URL = cmp.Or(q.Get("url"), c.URL)
	_, wrong := r.current.Load().guard.check(c.URL)
	switch err = cmp.Or(err, missing); {
	case err == nil && wrong != nil:
		err = fmt.Errorf("%w: the address %w", store.ErrFilter, wrong)
	case err == nil && !d.dry:
		a := store.Address{
			ID: lostMark + q.Get("lost"), Upstream: c.Upstream, Partner: c.Partner, Form: c.Form, URL: c.URL, Created: r.now(),
		}
		_, err = r.store.Bind(req.Context(), a, store.Change{
			Action: store.AddressAssigned, By: d.by, At: a.Created, Partner: c.Partner,
			Subject: a.ID + " to " + r.listed(c).Address,
		})
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, r.listed(c))
}
