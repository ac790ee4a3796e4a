package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"billbridge/proxy/operate"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
)

// A boardPage is the data of the page partners: all stages, or one with all of its partners, in pages.
type boardPage struct {
	Columns []operate.Column
	Stage   string         // the only one; "" for all
	Status  operate.Status // without partners
	Named   []string       // the names of the config
	Find    string         // a partner that was not found
	Problem string
	Done    string // what was changed just now: stop or resume
	After   string // of the next page of a stage; "" if this is the last one
}

// boardAtOnce is how many partners a page of one stage has.
const boardAtOnce = 60

// pageOf returns a page of one partner, or of all for "".
func pageOf(partner string, limit int) operate.Page {
	return operate.Page{PartnerRef: operate.PartnerRef{Partner: partner}, Limit: operate.AtMost(limit)}
}

// partners shows the board.
func (c *Console) partners(w http.ResponseWriter, r *http.Request) {
	o := c.options.Operator
	q := r.URL.Query()
	page := boardPage{Stage: q.Get("stage"), Named: c.partnerNames()}
	if done := q.Get("done"); slices.Contains([]string{"stop", "resume"}, done) {
		page.Done = done
	}
	if find := strings.TrimSpace(q.Get("partner")); find != "" {
		id := c.partnerID(find)
		_, err := ask(r, o.Board, operate.BoardPage{Page: pageOf(id, 1)})
		if err == nil {
			http.Redirect(w, r, "/partners/"+url.PathEscape(id), http.StatusSeeOther)
			return
		}
		page.Find, page.Problem = find, err.Error()
	}
	var query operate.BoardPage
	if page.Stage != "" {
		query = operate.BoardPage{Stage: rollout.Stage(page.Stage), Page: pageOf("", boardAtOnce)}
		query.After = q.Get("after")
	}
	var board operate.Board
	var err error
	// A limit of one: of the status the page needs what is true for all partners.
	if page.Status, err = ask(r, o.Status, pageOf("", 1)); err == nil {
		board, err = ask(r, o.Board, query)
	}
	if err != nil { // the kill switch is on this page and must be found while the store is down
		page.Problem = err.Error()
		c.pageWithStatus(w, r, statusOf(err), "partners", page)
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
	operate.PartnerStatus
	Card    *operate.Card // nil if the partner was not seen yet
	Status  operate.Status
	Next    *operate.Change // a preview; nil if there is none
	NoNext  string          // why there is none
	Report  operate.Report
	History []operate.Change
	Done    string // what was changed just now: next, set or unset
}

// HasCodes reports whether the report has codes of answers.
func (p partnerPage) HasCodes() bool {
	has := func(v evidence.Verdict) bool { return v.CallStats != nil && len(v.Codes) > 0 }
	return slices.ContainsFunc(p.Report.Verdicts, has)
}

// historyShown is how many changes the page of a partner shows.
const historyShown = 50

// partnerChanges are the changes of one partner.
var partnerChanges = []string{"next", "set", "unset"}

// onePartner shows one partner.
func (c *Console) onePartner(w http.ResponseWriter, r *http.Request) {
	o := c.options.Operator
	page := partnerPage{Named: r.PathValue("partner")}
	ref := operate.PartnerRef{Partner: page.Named}
	var err error
	if page.Status, err = ask(r, o.Status, operate.Page{PartnerRef: ref}); err != nil {
		c.fail(w, r, err)
		return
	}
	board, err := ask(r, o.Board, operate.BoardPage{Page: pageOf(page.Named, 1)})
	if err == nil {
		page.Report, err = ask(r, o.Report, ref)
	}
	if err == nil {
		page.History, err = ask(r, o.Audit, operate.AuditPage{PartnerRef: ref, Limit: operate.AtMost(historyShown)})
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	page.PartnerStatus = page.Status.Partners[0]
	for _, column := range board.Columns {
		for _, card := range column.Partners {
			page.Card = &card
		}
	}
	next, err := ask(r, o.Next, operate.Move{PartnerRef: ref, Switch: operate.Switch{Preview: true}})
	if problem, ok := problemOf(err); ok {
		page.NoNext = problem
	} else if err != nil {
		c.fail(w, r, err)
		return
	} else {
		page.Next = &next
	}
	if done := r.URL.Query().Get("done"); slices.Contains(partnerChanges, done) {
		page.Done = done
	}
	c.page(w, r, "partner", page)
}
