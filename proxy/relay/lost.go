package relay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// lostFor is how long after a loss of writes an unknown address may be one of the lost: so long do backends repeat a
// callback (INTERFACE.md, Events). A final answer would lose the callback of a payment.
const lostFor = 24 * time.Hour

// lostMark is the prefix of the ids of rows for lost addresses. What follows is in the log: the upstream and the
// shared digits of a sealed id, or / and the lostName of another one.
const lostMark = "lost "

// lostName names an id that another key has sealed, or nobody: all of its digits are a secret.
func lostName(id string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(id)))[:store.SharedDigits]
}

var lostForm = regexp.MustCompile(`^([^/]*)/[0-9a-f]{12}$`)

// mayLackAddresses reports whether the store was restored, or lacks writes after a fail-over, a short time ago.
func (r *Relay) mayLackAddresses(ctx context.Context) bool {
	state, err := r.store.Rollout(ctx)
	return err != nil || !state.Restored.At.IsZero() && r.now().Sub(state.Restored.At) < lostFor
}

// lost asks the upstream to send a callback to a lost address again.
func (in *inbound) lost(req *http.Request, lost string) *refusal {
	body, refused := in.read(req)
	if refused != nil {
		return refused
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
	in.relay.lostLog.Error("callbacks came to addresses that the store does not have, "+
		"and it lacks writes since a fail-over or a restore: "+
		"they get 503, so that the backend sends them again. See billbridge callbacks assign --help",
		"lost", lost, "of", of)
	return &refusal{
		http.StatusServiceUnavailable, "lost_address",
		"the callback cannot be stored now. Send it again later",
	}
}

// Assign stores an address for a lost one: that of a callback like those that will come. With dryRun it only checks it.
// The error is a [*Wrong] if something of it is wrong. shown is the address for the audit log, without secrets.
func (r *Relay) Assign(
	ctx context.Context, lost string, like store.Callback, by store.Author, shown string, dryRun bool,
) error {
	s := r.current.Load()
	forms := s.config.Table.Forms()
	switch m := lostForm.FindStringSubmatch(lost); {
	case m == nil:
		return &Wrong{"lost must be the name that the log has, such as new/8c21f6e0a94b"}
	case m[1] != "" && m[1] != like.Upstream:
		return &Wrong{"the lost address is of upstream " + m[1] + ", and the callback of " + like.Upstream}
	case s.config.Upstreams.Find(like.Upstream) == nil:
		return &Wrong{fmt.Sprintf(
			"there is no upstream %q in the config: name the one that sends the callback", like.Upstream,
		)}
	case !slices.Contains(forms[:], translate.Form(like.Form)):
		return &Wrong{fmt.Sprintf("form must be %s or %s, but is %q", forms[0], forms[1], like.Form)}
	}
	if _, err := s.guard.check(like.URL); err != nil {
		return &Wrong{"the address " + err.Error()}
	}
	if dryRun {
		return nil
	}
	a := store.Address{
		ID: lostMark + lost, Upstream: like.Upstream, Partner: like.Partner, Form: like.Form, URL: like.URL,
		Created: r.now(),
	}
	_, err := r.store.Bind(ctx, a, store.Change{
		Action: store.AddressAssigned, By: by.Name, Reason: by.Reason, At: a.Created, Partner: like.Partner,
		Subject: a.ID + " to " + shown,
	})
	return err
}
