package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"

	"github.com/gorilla/mux"
)

// forDefault in place of a partner means all partners without a stage of their own. A missing partner, for example from an unset
// variable, must not mean that.
const forDefault = "default"

// forAll in place of a partner means all partners.
const forAll = "all"

// Operator serves the rollout on the admin listener:
//
//	GET  /rollout?partner=&after=&limit=                         partners in pages; after is the next of the page before
//	GET  /rollout/board?partner=&stage=&after=&limit=            partners by stage, with traffic and verdict; without a stage the first of each
//	GET  /rollout/report?partner=
//	GET  /rollout/audit?partner=&limit=                          the last change first
//	POST /rollout/stage?partner=&stage=&percent=&by=&force=REASONS  partner=default for all without a stage of their own
//	POST /rollout/next?partner=&stage=&percent=&by=&force=REASONS   the stage after the one of a partner; if stage is given, only if it is this one
//	POST /rollout/unset?partner=&by=&force=REASONS                  a partner's own stage; with partner=default the default that was set
//	POST /rollout/stop?by=&force=REASONS                            the kill switch
//	POST /rollout/resume?by=
//	POST /rollout/restored?by=                                   the store was restored from a backup
//	POST /rollout/begin?by=&force=REASONS                           the new backend has only the bills that are in the ledger
//	POST /rollout/moved?upstream=&by=                            an upstream will get another address
//	GET  /rollout/bill?partner=&bill=&member=&merchant=          owner and state of a bill, and a read at both backends
//	POST /rollout/bill?bill=&member=&merchant=                   the same, with the partner's key in the body: {"key": …}
//	POST /rollout/read?partner=&bill=&member=&merchant=          reads a bill at its owning backend and records the result; the key may be in the body
//	GET  /rollout/bills?partner=&bill=&owner=&open=true&outcome=unknown&limit=   bills of the ledger
//	POST /rollout/assign?partner=&bill=&to=&by=&force=REASONS       the owning backend of a bill: to=old or to=new
//	POST /rollout/reset?partner=&by=&force=REASONS                  removes the counts of the report; partner=all for all of them
//
// partner is the ID of a partner, or at least its first 12 digits if the partner is known. A POST is answered with its [Changed].
// force names the kinds of the reasons that the change overrides, separated by commas: force=verdict,open_bills. force=true is refused.
// The change is in effect on this replica when the answer is sent, and on others within seconds. A second stop changes nothing
// and is answered with the first one.
//
// With preview=true stage, next, unset, stop and resume change nothing, and by can be left out: the answer says what would change, and
// which reasons there are against it.
func (r *Router) Operator() http.Handler {
	m := mux.NewRouter()
	m.Path("/rollout").Methods(http.MethodGet).HandlerFunc(jsonHandler(r.status))
	m.Path("/rollout/board").Methods(http.MethodGet).HandlerFunc(jsonHandler(r.board))
	m.Path("/rollout/report").Methods(http.MethodGet).HandlerFunc(jsonHandler(r.report))
	m.Path("/rollout/audit").Methods(http.MethodGet).HandlerFunc(jsonHandler(r.audit))
	m.Path("/rollout/stage").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.stage))
	m.Path("/rollout/next").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.next))
	m.Path("/rollout/unset").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.unset))
	m.Path("/rollout/reset").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.reset))
	m.Path("/rollout/stop").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.stop))
	m.Path("/rollout/resume").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.resume))
	m.Path("/rollout/restored").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.restored))
	m.Path("/rollout/begin").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.begin))
	m.Path("/rollout/bill").Methods(http.MethodGet, http.MethodPost).HandlerFunc(r.bill)
	m.Path("/rollout/read").Methods(http.MethodPost).HandlerFunc(r.read)
	m.Path("/rollout/bills").Methods(http.MethodGet).HandlerFunc(jsonHandler(r.bills))
	m.Path("/rollout/assign").Methods(http.MethodPost).HandlerFunc(r.assign)
	m.Path("/rollout/moved").Methods(http.MethodPost).HandlerFunc(jsonHandler(r.moved))
	return m
}

// An operatorError answers an operator's call that was refused. Nothing was changed.
type operatorError struct {
	status int
	text   string
}

func (d *operatorError) Error() string { return d.text }

func badRequest(format string, args ...any) error {
	return &operatorError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// storeTimeout is how long a call of an operator waits for the store.
const storeTimeout = 10 * time.Second

// withNewTimeout gives a change its own timeout: the checks before it may have used up the first one, and the kill switch must work then,
// too.
func withNewTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

func jsonHandler[T any](do func(ctx context.Context, query string) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), storeTimeout)
		defer cancel()
		answer, err := do(ctx, req.URL.RawQuery)
		if err != nil {
			status := http.StatusInternalServerError
			if d := (*operatorError)(nil); errors.As(err, &d) {
				status = d.status
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(answer) // an error means that the operator has disconnected
	}
}

// reset removes the counts of one partner or of all, after the cause of a FAIL was fixed.
func (r *Router) reset(ctx context.Context, query string) (c Changed, err error) {
	q, c, err := r.parseChange(query, store.Reset, "partner")
	if err != nil {
		return c, err
	}
	var partner partner.ID
	if c.Partner = forAll; q.params["partner"] != forAll {
		if partner, err = r.named(ctx, q.params["partner"]); err != nil {
			return c, err
		}
		if partner == "" {
			return c, badRequest("partner is missing: name one, or %s", forAll)
		}
		c.Partner, c.Name = partner.Short(), r.name(partner)
	}
	if err := c.override(r.reasonsAgainstReset(ctx, partner), q.force); err != nil {
		return c, err
	}
	ctx, cancel := withNewTimeout(ctx)
	defer cancel()
	if err := r.store.ResetCounts(ctx, partner, c.By, c.At, joined(c.Overridden)); err != nil {
		return c, err
	}
	r.counts.Forget(partner)
	return c, r.changed(ctx, &c)
}

// changed logs a stored change, and applies it to this replica.
func (r *Router) changed(ctx context.Context, c *Changed) error {
	what := []any{"action", c.Action, "by", c.By}
	if c.Partner != "" {
		what = append(what, "partner", c.Partner)
	}
	if c.Action == string(store.Staged) {
		what = append(what, "from", InWords(c.From, c.FromPercent), "to", InWords(c.To, c.ToPercent), "forced", c.Forced)
	}
	if c.Forced {
		what = append(what, "overridden", joined(c.Overridden))
	}
	r.log.Warn("the rollout was changed", what...)
	if err := r.follow(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("the change is stored, but not yet in effect on this gateway, which could not read it: %w", err)
	}
	c.Revision = r.decided.Load().revision
	return nil
}

// requireStore refuses a change if there is no store.
func (r *Router) requireStore() error {
	if r.store == nil {
		return &operatorError{http.StatusConflict, "the config has no store, so the stages are those of the config and cannot be changed while the gateway runs"}
	}
	return nil
}

// oneOrAll is the full ID of the partner in a query, "" if there is none.
func (r *Router) oneOrAll(ctx context.Context, q params) (only partner.ID, err error) {
	name, given := q["partner"]
	if !given {
		return "", nil
	}
	if only, err = r.named(ctx, name); err == nil && only == "" {
		err = badRequest("partner cannot be default here: leave partner out, every answer has the default")
	}
	return only, err
}

// named is the full ID of the partner that an operator named, "" for the default. Its errors do not repeat a name that is not an ID: it
// might be a key.
func (r *Router) named(ctx context.Context, name string) (partner.ID, error) {
	id, ok := partner.Parse(name)
	switch {
	case name == forDefault:
		return "", nil
	case name == "":
		return "", badRequest("partner is missing: name one, or %s for all without a stage of their own", forDefault)
	case !ok:
		return "", badRequest("a partner is named by 12 to 64 lower-case hex digits of the SHA-256 of its key")
	case id.IsFull():
		return id, nil
	case r.store == nil:
		return "", badRequest("without a store a partner is named by all 64 digits of its hash")
	}
	full, err := r.store.Partner(ctx, id)
	switch {
	case errors.Is(err, store.ErrAmbiguous):
		return "", badRequest("the hashes of several partners begin with %s: give more digits", id)
	case errors.Is(err, store.ErrNotFound):
		return "", &operatorError{http.StatusNotFound, fmt.Sprintf(
			"no known partner has a hash that begins with %s: for a new partner give all 64 digits", id)}
	}
	return full, err
}
