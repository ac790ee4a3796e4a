package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"billbridge/proxy/store"

	"github.com/gorilla/mux"
)

// Listed is one callback as the operator sees it. It shows nothing of the body, which is the partner's customer's, and
// of the partner's address no query, which may be a secret.
type Listed struct {
	ID       string     `json:"id"`
	Received time.Time  `json:"received"`
	Partner  string     `json:"partner"`
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
	Size     int        `json:"size,omitempty"`   // of the body, in bytes; only of a single callback
	Digest   string     `json:"digest,omitempty"` // SHA-256 of the upstream's body in canonical form; only of a single callback
	Cursor   int64      `json:"cursor"`           // for after
}

// Progress is one line of a replay or a drop: how many callbacks of how many. The last line has Over, and in Error why
// not all of them, if so.
type Progress struct {
	Done  int    `json:"done"`
	Of    int    `json:"of"`
	Over  bool   `json:"over,omitempty"`
	Error string `json:"error,omitempty"`
}

// Operator is what the operator sees of callbacks and decides about them, for the admin listener:
//
//	GET  /callbacks?partner=&bill=&upstream=&state=&since=&until=&limit=&after=   the newest first
//	GET  /callbacks/{id}
//	POST /callbacks/replay?…   dead ones, by the same filter; answers a line of Progress after each batch
//	POST /callbacks/drop?…
//	POST /callbacks/{id}/replay
//	POST /callbacks/{id}/drop
//
// A partner is named by at least 12 digits of its hash. Times are RFC 3339.
func (r *Relay) Operator() http.Handler {
	m := mux.NewRouter()
	m.Path("/callbacks").Methods(http.MethodGet).HandlerFunc(r.list)
	m.Path("/callbacks/replay").Methods(http.MethodPost).HandlerFunc(r.decide("replayed", r.store.Replay))
	m.Path("/callbacks/drop").Methods(http.MethodPost).HandlerFunc(r.decide("dropped", r.store.Drop))
	m.Path("/callbacks/{id}").Methods(http.MethodGet).HandlerFunc(r.show)
	m.Path("/callbacks/{id}/replay").Methods(http.MethodPost).HandlerFunc(r.decideOne("replayed", "a dead or a delivered", r.store.ReplayOne))
	m.Path("/callbacks/{id}/drop").Methods(http.MethodPost).HandlerFunc(r.decideOne("dropped", "a dead", r.store.DropOne))
	return m
}

func (r *Relay) list(w http.ResponseWriter, req *http.Request) {
	f, err := filterOf(req.URL.RawQuery)
	if err != nil {
		tell(w, err)
		return
	}
	found, err := r.store.List(req.Context(), f)
	if err != nil {
		tell(w, err)
		return
	}
	list := make([]Listed, len(found))
	for i, c := range found {
		list[i] = listed(c)
	}
	answer(w, list)
}

func (r *Relay) show(w http.ResponseWriter, req *http.Request) {
	c, err := r.store.Get(req.Context(), mux.Vars(req)["id"])
	if err != nil {
		tell(w, err)
		return
	}
	l := listed(c)
	l.Size, l.Digest = len(c.Body), fmt.Sprintf("%x", c.Digest)
	answer(w, l)
}

// decide replays or drops what a filter means.
func (r *Relay) decide(what string, change func(context.Context, store.Filter, time.Time, func(int)) (int, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		f, err := filterOf(req.URL.RawQuery)
		switch {
		case err != nil:
		case f.State != "" && f.State != store.Dead:
			err = fmt.Errorf("%w: only dead callbacks can be %s together, not %s ones", store.ErrFilter, what, f.State)
		case f.After != 0:
			err = fmt.Errorf("%w: after is for lists", store.ErrFilter)
		case f.Limit == 0 && req.URL.Query().Has("limit"): // to the store it means all of them
			err = fmt.Errorf("%w: the limit is 0: leave it out if all are meant", store.ErrFilter)
		}
		if err != nil {
			tell(w, err)
			return
		}
		f.State = store.Dead
		total, err := r.store.Count(req.Context(), f)
		if err != nil {
			tell(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines, flush := json.NewEncoder(w), http.NewResponseController(w)
		step := Progress{Of: total}
		say := func() {
			_ = lines.Encode(step) // an operator that went away misses the lines alone: the request's context ends the work
			_ = flush.Flush()
		}
		say()
		step.Done, err = change(req.Context(), f, r.now(), func(done int) {
			step.Done = done
			say()
			r.wake()
		})
		step.Over = true
		if err != nil {
			step.Error = err.Error()
		}
		r.log.Warn("callbacks "+what, "count", step.Done, "partner", f.PartnerPrefix, "bill", f.Bill, "upstream", f.Upstream)
		r.wake()
		say()
	}
}

// decideOne replays or drops one callback. which are those that it can be done with.
func (r *Relay) decideOne(what, which string, change func(context.Context, string, time.Time) error) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		id := mux.Vars(req)["id"]
		err := change(req.Context(), id, r.now())
		if errors.Is(err, store.ErrState) {
			if is, lost := r.store.Get(req.Context(), id); lost == nil {
				err = fmt.Errorf("%w: %s is %s, and only %s callback can be %s", store.ErrState, id, is.State, which, what)
			}
		}
		if err != nil {
			tell(w, err)
			return
		}
		r.log.Warn("callback "+what, "callback", id)
		r.wake()
		answer(w, Progress{Done: 1, Of: 1, Over: true})
	}
}

func listed(c store.Callback) Listed {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	l := Listed{
		ID: c.ID, Received: c.Received, Partner: shown(c.Partner), Bill: c.Bill, Upstream: c.Upstream, State: string(c.State),
		Attempts: c.Attempts, LastAt: at(c.LastAt), Status: c.LastStatus, Outcome: c.LastOutcome, Form: c.Form,
		Type: c.ContentType, Cursor: c.Cursor,
	}
	if c.State == store.Waiting {
		l.Next = at(c.Next)
	}
	if u, err := url.Parse(c.URL); err == nil {
		l.Address = u.Scheme + "://" + u.Host + u.EscapedPath()
	}
	return l
}

// shown is how a partner is named to people: never by more than 12 digits of its hash.
func shown(hash string) string { return hash[:min(12, len(hash))] }

// filterOf reads a filter. What is not understood is an error, and so is an empty value, which comes from a variable
// that is not set: a replay of more than was meant is not undone.
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
			f.PartnerPrefix = v
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

// tell answers an operator's call that failed.
func tell(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, store.ErrFilter), errors.Is(err, store.ErrAmbiguous):
		status = http.StatusBadRequest
	case errors.Is(err, store.ErrNotFound):
		status, err = http.StatusNotFound, errors.New("there is no callback of that id, or it was over for longer than the retention")
	case errors.Is(err, store.ErrState):
		status = http.StatusConflict
	}
	http.Error(w, err.Error(), status)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v) // an operator that went away asks again
}
