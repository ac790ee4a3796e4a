package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
)

// A boardPage is the data of the page partners: all stages, or one with all of its partners, in pages.
type boardPage struct {
	Columns []rollout.Column
	Stage   string         // the only one; "" for all
	Status  rollout.Status // without partners
	Named   []string       // the names of the config
	Find    string         // a partner that was not found
	Problem string
	Done    string // what was changed just now: stop or resume
	After   string // of the next page of a stage; "" if this is the last one
}

// boardAtOnce is how many partners a page of one stage has.
const boardAtOnce = "60"

// partners shows the board.
func (c *Console) partners(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	page := boardPage{Stage: q.Get("stage"), Named: c.partnerNames()}
	if done := q.Get("done"); slices.Contains([]string{"stop", "resume"}, done) {
		page.Done = done
	}
	if find := strings.TrimSpace(q.Get("partner")); find != "" {
		err := c.call(r, c.options.Rollout, http.MethodGet, "/rollout/board?"+url.Values{"partner": {c.partnerID(find)}, "limit": {"1"}}.Encode(), nil, nil)
		if err == nil {
			http.Redirect(w, r, "/partners/"+url.PathEscape(c.partnerID(find)), http.StatusSeeOther)
			return
		}
		page.Find, page.Problem = find, err.Error()
	}
	query := url.Values{}
	if page.Stage != "" {
		query = without(url.Values{"stage": {page.Stage}, "after": {q.Get("after")}, "limit": {boardAtOnce}})
	}
	var board rollout.Board
	// A limit of one: of the status the page needs what is true for all partners.
	err := c.call(r, c.options.Rollout, http.MethodGet, "/rollout?limit=1", nil, &page.Status)
	if err == nil {
		err = c.call(r, c.options.Rollout, http.MethodGet, "/rollout/board?"+query.Encode(), nil, &board)
	}
	if api := (*apiError)(nil); errors.As(err, &api) { // the kill switch is on this page and must be found while the store is down
		page.Problem = api.text
		c.pageWithStatus(w, r, api.status, "partners", page)
		return
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	page.Columns = board.Columns
	if page.Stage != "" {
		page.After = board.Columns[0].Next
	}
	c.page(w, r, "partners", page)
}

// A partnerPage is the data of the page partner.
type partnerPage struct {
	Named string // as in the address: the digits of a partner that was not seen yet must be complete
	rollout.PartnerStatus
	Card    *rollout.Card // nil if the partner was not seen yet
	Status  rollout.Status
	Next    *rollout.Changed // a preview; nil if there is none
	NoNext  string           // why there is none
	Report  rollout.Report
	History []rollout.Changed
	Done    string // what was changed just now: next, set or unset
}

// HasCodes reports whether the report has codes of answers.
func (p partnerPage) HasCodes() bool {
	return slices.ContainsFunc(p.Report.Verdicts, func(v evidence.Verdict) bool { return v.CallStats != nil && len(v.Codes) > 0 })
}

// historyShown is how many changes the page of a partner shows.
const historyShown = 50

// partnerChanges are the changes of one partner.
var partnerChanges = []string{"next", "set", "unset"}

// onePartner shows one partner.
func (c *Console) onePartner(w http.ResponseWriter, r *http.Request) {
	named := r.PathValue("partner")
	q := url.Values{"partner": {named}}.Encode()
	page := partnerPage{Named: named}
	var board rollout.Board
	for _, part := range []struct {
		path   string
		answer any
	}{
		{"/rollout?" + q, &page.Status},
		{"/rollout/board?limit=1&" + q, &board},
		{"/rollout/report?" + q, &page.Report},
		{"/rollout/audit?limit=" + strconv.Itoa(historyShown) + "&" + q, &page.History},
	} {
		if err := c.call(r, c.options.Rollout, http.MethodGet, part.path, nil, part.answer); err != nil {
			c.fail(w, r, err)
			return
		}
	}
	page.PartnerStatus = page.Status.Partners[0]
	for _, column := range board.Columns {
		for _, card := range column.Partners {
			page.Card = &card
		}
	}
	var next rollout.Changed
	switch err := c.call(r, c.options.Rollout, http.MethodPost, "/rollout/next?preview=true&"+q, nil, &next); {
	case err == nil:
		page.Next = &next
	default:
		problem, ok := problemOf(err)
		if !ok {
			c.fail(w, r, err)
			return
		}
		page.NoNext = problem
	}
	if done := r.URL.Query().Get("done"); slices.Contains(partnerChanges, done) {
		page.Done = done
	}
	c.page(w, r, "partner", page)
}
