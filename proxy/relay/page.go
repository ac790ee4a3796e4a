package relay

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"billbridge/proxy/store"
)

// A Page is a part of the list of callbacks.
type Page struct {
	Callbacks []Listed `json:"callbacks"`
	Next      int64    `json:"next,omitempty"` // for after; 0 if there are no more. A page can be empty although there are more.
}

// Counts are the numbers of callbacks by state: waiting and dead.
type Counts map[string]Number

// A Number is counted up to a bound.
type Number struct {
	Number int  `json:"number"`
	More   bool `json:"more,omitempty"` // than Number
}

// pageMost is the most callbacks of one page.
const pageMost = 1000

func (r *Relay) page(w http.ResponseWriter, req *http.Request) {
	f, err := filterOf(req.URL.RawQuery)
	if err == nil && f.Limit > pageMost {
		err = fmt.Errorf("%w: limit must be at most %d", store.ErrFilter, pageMost)
	}
	var found store.Page
	if err == nil {
		found, err = r.store.Page(req.Context(), f)
	}
	if err != nil {
		fail(w, err)
		return
	}
	p := Page{Callbacks: make([]Listed, len(found.Callbacks)), Next: found.Next}
	for i, c := range found.Callbacks {
		p.Callbacks[i] = r.listed(c)
	}
	answer(w, p)
}

func (r *Relay) counts(w http.ResponseWriter, req *http.Request) {
	q, err := url.ParseQuery(req.URL.RawQuery)
	most, wrong := strconv.Atoi(q.Get("at_most"))
	if err != nil || wrong != nil || len(q) != 1 || len(q["at_most"]) != 1 || most < 1 || most > 1_000_000 {
		fail(w, fmt.Errorf("%w: at_most must be given once, from 1 to 1000000", store.ErrFilter))
		return
	}
	counts := Counts{}
	for _, state := range []store.State{store.Waiting, store.Dead} {
		n, err := r.store.Count(req.Context(), store.Filter{State: state, Limit: most + 1})
		if err != nil {
			fail(w, err)
			return
		}
		counts[string(state)] = Number{min(n, most), n > most}
	}
	answer(w, counts)
}
