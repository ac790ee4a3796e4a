package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/gorilla/mux"
)

// Listed is one callback as the operator sees it: without the body, which has data of the partner's customer, and without the query
// of the partner's address, which may be a secret.
type Listed struct {
	ID       string     `json:"id"`
	Received time.Time  `json:"received"`
	Partner  string     `json:"partner"`
	Name     string     `json:"name,omitempty"` // of the partner
	Bill     string     `json:"bill"`
	Upstream string     `json:"upstream"`
	State    string     `json:"state"`
	Attempts int        `json:"attempts"`
	Next     *time.Time `json:"next,omitempty"` // of a waiting one
	LastAt   *time.Time `json:"last_at,omitempty"`
	Status   int        `json:"last_status,omitempty"`
	Outcome  string     `json:"last_outcome,omitempty"`
	Form     string     `json:"form"`
	Address  string     `json:"address"`
	Type     string     `json:"content_type"`
	Size     int        `json:"size,omitempty"`         // of the body, in bytes; only of a single callback
	Deleted  *time.Time `json:"body_deleted,omitempty"` // when the body was deleted: the callback cannot be delivered again
	Says     string     `json:"bill_state,omitempty"`   // the state of the bill in the body, if the table knows it; only for a single callback
	Digest   string     `json:"digest,omitempty"`       // SHA-256 of the upstream's body in canonical form; only of a single callback
	Repeats  int        `json:"repeats,omitempty"`      // how often the upstream sent it again; these were acknowledged, and not delivered
	Repeated *time.Time `json:"repeated,omitempty"`     // when it did so last
	Cursor   int64      `json:"cursor"`                 // for after

	// History are the last attempts, in their order; only of a single callback. Attempts that were cut off are missing.
	History []Attempted `json:"history,omitempty"`
}

// Attempted is one attempt as the operator sees it.
type Attempted struct {
	Number  int       `json:"number"` // from 1 on, over all replays
	At      time.Time `json:"at"`     // when it ended
	Took    float64   `json:"took_seconds"`
	Status  int       `json:"status,omitempty"` // HTTP
	Code    string    `json:"code,omitempty"`   // the partner's
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"` // why it failed
}

// Decided is an entry of the audit log.
type Decided struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Action  string    `json:"action"`            // replay, drop or address
	Partner string    `json:"partner,omitempty"` // "" for callbacks of several
	Name    string    `json:"name,omitempty"`    // of the partner
	What    string    `json:"what"`              // the id of one callback, or the number and the filter of several
	From    string    `json:"from"`
}

// Progress is one line of the answer to a replay or a drop: how many callbacks of how many are done. The last line has Over, and
// Error if not all are done. A dry run has one line, with none done.
type Progress struct {
	Done  int    `json:"done"`
	Of    int    `json:"of"`
	Over  bool   `json:"over,omitempty"`
	Error string `json:"error,omitempty"`
}

// Operator serves callbacks on the admin listener:
//
//	GET  /callbacks?partner=&bill=&upstream=&state=&since=&until=&limit=&after=   the newest first
//	GET  /callbacks/page?…   the same in bounded time, as a [Page]: a part of the list, and where the next one begins
//	GET  /callbacks/counts?at_most=   how many are waiting and dead, counted up to at_most: [Counts]
//	GET  /callbacks/audit?limit=
//	GET  /callbacks/{id}
//	POST /callbacks/replay?by=&…   failed ones (state dead), by the same filter; the answer has a line of Progress after each batch
//	POST /callbacks/drop?by=&…
//	POST /callbacks/{id}/assign?by=&lost=&url=   the address of its partner, or url, for a lost one
//	POST /callbacks/{id}/replay?by=
//	POST /callbacks/{id}/drop?by=
//
// by is who decides, for the audit log. With dry_run=true nothing is changed, and by can be left out. partner is the ID of a partner
// or its first digits, at least 12. Times are RFC 3339.
func (r *Relay) Operator() http.Handler {
	m := mux.NewRouter()
	m.Path("/callbacks").Methods(http.MethodGet).HandlerFunc(r.list)
	m.Path("/callbacks/replay").Methods(http.MethodPost).HandlerFunc(r.decide("replayed", r.store.Replay))
	m.Path("/callbacks/drop").Methods(http.MethodPost).HandlerFunc(r.decide("dropped", r.store.Drop))
	m.Path("/callbacks/page").Methods(http.MethodGet).HandlerFunc(r.page)
	m.Path("/callbacks/counts").Methods(http.MethodGet).HandlerFunc(r.counts)
	m.Path("/callbacks/audit").Methods(http.MethodGet).HandlerFunc(r.audit)
	m.Path("/callbacks/{id}").Methods(http.MethodGet).HandlerFunc(r.show)
	m.Path("/callbacks/{id}/assign").Methods(http.MethodPost).HandlerFunc(r.assign)
	m.Path("/callbacks/{id}/replay").Methods(http.MethodPost).HandlerFunc(r.decideOne("replayed", r.store.ReplayOne, store.Dead, store.Delivered))
	m.Path("/callbacks/{id}/drop").Methods(http.MethodPost).HandlerFunc(r.decideOne("dropped", r.store.DropOne, store.Dead))
	return m
}

func (r *Relay) list(w http.ResponseWriter, req *http.Request) {
	f, err := filterOf(req.URL.RawQuery)
	if err != nil {
		fail(w, err)
		return
	}
	found, err := r.store.List(req.Context(), f)
	if err != nil {
		fail(w, err)
		return
	}
	list := make([]Listed, len(found))
	for i, c := range found {
		list[i] = r.listed(c)
	}
	answer(w, list)
}

func (r *Relay) show(w http.ResponseWriter, req *http.Request) {
	c, err := r.store.Get(req.Context(), mux.Vars(req)["id"])
	if err != nil {
		fail(w, err)
		return
	}
	attempts, err := r.store.Attempts(req.Context(), c.ID)
	if err != nil {
		fail(w, err)
		return
	}
	l := r.listed(c)
	l.Size, l.Digest, l.Says = len(c.Body), fmt.Sprintf("%x", c.Digest), r.stateIn(c)
	for _, a := range attempts {
		l.History = append(l.History, Attempted{a.Number, a.Ended, a.Took.Seconds(), a.Status, a.Code, a.Outcome, a.Reason})
	}
	answer(w, l)
}

// stateIn returns the state of the bill that a callback reports. Its body is in the form of the partner.
func (r *Relay) stateIn(c store.Callback) string {
	s, form := r.current.Load(), translate.Form(c.Form)
	if forms := s.config.Table.Forms(); !slices.Contains(forms[:], form) { // a reload has replaced the table in the meantime
		return ""
	}
	read, err := billing.ReadOperation(s.config.Table)
	if err != nil { // the table describes no state
		return ""
	}
	return billing.StateIn(s.rows.Explain(c.Body, form, form), read, form)
}

// auditedMost is the most entries of the audit log in one answer.
const auditedMost = 10_000

func (r *Relay) audit(w http.ResponseWriter, req *http.Request) {
	limit := 100
	q, err := url.ParseQuery(req.URL.RawQuery)
	for key, values := range q {
		n, wrong := strconv.Atoi(values[0])
		if key != "limit" || len(values) > 1 || wrong != nil || n < 1 || n > auditedMost {
			err = fmt.Errorf("limit must be given once, from 1 to %d", auditedMost)
		}
		limit = n
	}
	if err != nil {
		fail(w, fmt.Errorf("%w: %w", store.ErrFilter, err))
		return
	}
	log, err := r.store.AuditCallbacks(req.Context(), limit)
	if err != nil {
		fail(w, err)
		return
	}
	list := make([]Decided, len(log))
	for i, c := range log {
		list[i] = Decided{c.At, c.By, string(c.Action), c.Partner.Short(), r.name(c.Partner), c.Subject, c.From}
	}
	answer(w, list)
}

// A decision is the part of a query that is not the filter.
type decision struct {
	by  string
	dry bool
}

// decisionOf reads by and dry_run from a query and returns the rest.
func decisionOf(query string) (d decision, rest string, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return d, "", fmt.Errorf("%w: %w", store.ErrFilter, err)
	}
	by, dry := q["by"], q["dry_run"]
	delete(q, "by")
	delete(q, "dry_run")
	switch {
	case len(dry) > 1 || len(dry) == 1 && dry[0] != "true" && dry[0] != "false":
		return d, "", fmt.Errorf("%w: dry_run is true or false", store.ErrFilter)
	case len(dry) == 1 && dry[0] == "true":
		d.dry = true
	case len(by) != 1 || by[0] == "" || !utf8.ValidString(by[0]) || utf8.RuneCountInString(by[0]) > 100 ||
		strings.ContainsFunc(by[0], func(c rune) bool { return !unicode.IsPrint(c) }):
		return d, "", fmt.Errorf("%w: by must be your name, for the audit log: 1 to 100 printable characters", store.ErrFilter)
	default:
		d.by = by[0]
	}
	return d, q.Encode(), nil
}

// decide replays or drops the callbacks that a filter selects.
func (r *Relay) decide(what string, change func(context.Context, store.Filter, string, time.Time, func(int)) (int, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		d, rest, err := decisionOf(req.URL.RawQuery)
		var f store.Filter
		if err == nil {
			f, err = filterOf(rest)
		}
		switch {
		case err != nil:
		case f.State != "" && f.State != store.Dead:
			err = fmt.Errorf("%w: only dead callbacks can be %s together, not %s ones", store.ErrFilter, what, f.State)
		case f.After != 0:
			err = fmt.Errorf("%w: after is for lists", store.ErrFilter)
		case f.Limit == 0 && req.URL.Query().Has("limit"): // the store takes 0 for no limit
			err = fmt.Errorf("%w: the limit is 0: leave it out if all are meant", store.ErrFilter)
		}
		if err != nil {
			fail(w, err)
			return
		}
		f.State = store.Dead
		total, err := r.store.Count(req.Context(), f)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines, flush := json.NewEncoder(w), http.NewResponseController(w)
		step := Progress{Of: total}
		say := func() {
			_ = lines.Encode(step) // if the operator has gone, the context of the request ends the work
			_ = flush.Flush()
		}
		if d.dry {
			step.Over = true
			say()
			return
		}
		say()
		step.Done, err = change(req.Context(), f, d.by, r.now(), func(done int) {
			step.Done = done
			say()
			r.wake()
		})
		step.Over = true
		if err != nil {
			step.Error = err.Error()
		}
		r.log.Warn("callbacks "+what, "count", step.Done, "by", d.by, "partner", f.PartnerPrefix.Short(), "bill", f.Bill, "upstream", f.Upstream)
		r.wake()
		say()
	}
}

// decideOne replays or drops one callback that is in one of the states.
func (r *Relay) decideOne(what string, change func(_ context.Context, id, by string, _ time.Time) error, states ...store.State) http.HandlerFunc {
	wrong := func(c store.Callback) error {
		which := make([]string, len(states))
		for i, state := range states {
			which[i] = "a " + string(state)
		}
		return fmt.Errorf("%w: %s is %s, and only %s callback can be %s", store.ErrState, c.ID, c.State, strings.Join(which, " or "), what)
	}
	return func(w http.ResponseWriter, req *http.Request) {
		id := mux.Vars(req)["id"]
		d, rest, err := decisionOf(req.URL.RawQuery)
		if err == nil && rest != "" {
			err = fmt.Errorf("%w: one callback is named by its id alone", store.ErrFilter)
		}
		switch {
		case err != nil:
		case d.dry:
			var c store.Callback
			switch c, err = r.store.Get(req.Context(), id); {
			case err != nil:
			case !slices.Contains(states, c.State):
				err = wrong(c)
			case !c.Erased.IsZero():
				err = store.ErrErased
			}
		default:
			if err = change(req.Context(), id, d.by, r.now()); errors.Is(err, store.ErrState) {
				if is, lost := r.store.Get(req.Context(), id); lost == nil {
					err = wrong(is)
				}
			}
		}
		if err != nil {
			fail(w, err)
			return
		}
		if d.dry {
			answer(w, Progress{Of: 1, Over: true})
			return
		}
		r.log.Warn("callback "+what, "callback", id, "by", d.by)
		r.wake()
		answer(w, Progress{Done: 1, Of: 1, Over: true})
	}
}

// name is the name of a partner, "" if it has none.
func (r *Relay) name(id partner.ID) string { return r.current.Load().config.Partners.Name(string(id)) }

func (r *Relay) listed(c store.Callback) Listed {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	l := Listed{
		ID: c.ID, Received: c.Received, Partner: c.Partner.Short(), Name: r.name(c.Partner), Bill: c.Bill, Upstream: c.Upstream, State: string(c.State),
		Attempts: c.Attempts, LastAt: at(c.LastAt), Status: c.LastStatus, Outcome: c.LastOutcome, Form: c.Form,
		Type: c.ContentType, Cursor: c.Cursor, Deleted: at(c.Erased), Repeats: c.Repeats, Repeated: at(c.Repeated),
	}
	if c.State == store.Waiting {
		l.Next = at(c.Next)
	}
	if u, err := url.Parse(c.URL); err == nil {
		l.Address = u.Scheme + "://" + u.Host + u.EscapedPath()
	}
	return l
}

// filterOf reads a filter. Unknown keys, repeated keys and empty values are errors: an empty value can come from an unset variable, and a
// replay of too many callbacks cannot be undone.
func filterOf(query string) (f store.Filter, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return f, fmt.Errorf("%w: %w", store.ErrFilter, err)
	}
	for key, values := range q {
		if len(values) != 1 {
			return f, fmt.Errorf("%w: %s is given more than once", store.ErrFilter, key)
		}
		v := values[0]
		if v == "" {
			return f, fmt.Errorf("%w: %s must not be empty", store.ErrFilter, key)
		}
		switch key {
		case "partner":
			f.PartnerPrefix = partner.ID(v)
		case "bill":
			f.Bill = v
		case "upstream":
			f.Upstream = v
		case "state":
			f.State = store.State(v)
		case "since":
			f.Since, err = moment(key, v)
		case "until":
			f.Until, err = moment(key, v)
		case "limit":
			f.Limit, err = strconv.Atoi(v)
		case "after":
			f.After, err = strconv.ParseInt(v, 10, 64)
		default:
			err = errors.New("there is no such key")
		}
		if err != nil {
			return f, fmt.Errorf("%w: %s %q: %w", store.ErrFilter, key, v, err)
		}
	}
	return f, nil
}

func moment(key, v string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return at, errors.New("must be a time such as 2026-11-21T09:00:00+09:00")
	}
	return at, nil
}

// fail answers an operator's call with an error.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, store.ErrFilter), errors.Is(err, store.ErrAmbiguous):
		status = http.StatusBadRequest
	case errors.Is(err, store.ErrNotFound):
		status, err = http.StatusNotFound, errors.New("there is no callback with this id, or it was removed after callbacks.retention")
	case errors.Is(err, store.ErrState):
		status = http.StatusConflict
	case errors.Is(err, store.ErrErased):
		status, err = http.StatusConflict, errors.New("the body of the callback was deleted, as callbacks.keep_bodies after its delivery are over: it cannot be delivered again")
	}
	http.Error(w, err.Error(), status)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v) // an error means that the operator has disconnected
}
