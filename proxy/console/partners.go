package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/routing"
)

// A partnersPage is the data of the page partners.
type partnersPage struct {
	operate.PartnerList
	Stages  []routing.Stage
	Rulings []evidence.Ruling
	Filter  url.Values
	From    int            // the place of the first partner of the page
	More    string         // the query of the next page; "" if this is the last one
	Status  operate.Status // without partners
	Named   []string       // the names of the config
	Find    string         // a partner that was not found
	Problem string
	Done    string // what was changed just now: stop or resume
}

// To is the place of the last partner of the page.
func (p partnersPage) To() int { return p.From + len(p.Partners) - 1 }

// partnersOnPage is the number of partners of one page of the table.
const partnersOnPage = 100

// partners shows a page of the table.
func (c *Console) partners(r *http.Request) (answer, error) {
	o := c.Operator
	q := r.URL.Query()
	page := partnersPage{
		Stages: c.stages(), Rulings: evidence.Rulings, Named: c.partnerNames(), Filter: url.Values{},
		Done: doneOf(r, "stop", "resume"),
	}
	if find := strings.TrimSpace(q.Get("partner")); find != "" {
		id := c.partnerID(find)
		_, err := ask(r, o.Partners, operate.PartnerQuery{PartnerRef: operate.PartnerRef{Partner: id}})
		if err == nil {
			return goTo("/partners/" + url.PathEscape(id))
		}
		page.Find, page.Problem = find, err.Error()
	}
	for _, key := range []string{"stage", "verdict", "ready", "after"} {
		page.Filter.Set(key, strings.TrimSpace(q.Get(key)))
	}
	query := operate.PartnerQuery{Limit: operate.AtMost(partnersOnPage)}
	err := operate.Decode(without(page.Filter), &query)
	page.From = query.After + 1
	// A limit of one: of the status the page needs what is true for all partners.
	status, failed := ask(r, o.Status, operate.Page{Limit: operate.AtMost(1)})
	if page.Status = status; err == nil {
		err = failed
	}
	if err == nil {
		page.PartnerList, err = ask(r, o.Partners, query)
	}
	if err != nil { // the kill switch is on this page and must be found while the store is down
		page.Problem = err.Error()
		return answer{page: "partners", data: page, status: statusOf(err)}, nil
	}
	if page.Next != 0 {
		page.More = changed(page.Filter, "after", strconv.Itoa(page.Next))
	}
	return show("partners", page)
}

// A partnerPage is the data of the page partner.
type partnerPage struct {
	Named string // as in the address: the digits of a partner that was not seen yet must be complete
	operate.PartnerStatus
	Row     operate.PartnerRow
	Status  operate.Status
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

// onePartner shows one partner.
func (c *Console) onePartner(r *http.Request) (a answer, err error) {
	o := c.Operator
	page := partnerPage{Named: r.PathValue("partner"), Done: doneOf(r, "next", "set", "unset")}
	ref := operate.PartnerRef{Partner: page.Named}
	if page.Status, err = ask(r, o.Status, operate.Page{PartnerRef: ref}); err != nil {
		return a, err
	}
	list, err := ask(r, o.Partners, operate.PartnerQuery{PartnerRef: ref})
	if err == nil {
		page.Report, err = ask(r, o.Evidence, ref) // list has the next stage
	}
	if err == nil {
		page.History, err = ask(r, o.Audit, operate.AuditPage{PartnerRef: ref, Limit: operate.AtMost(historyShown)})
	}
	if err != nil {
		return a, err
	}
	page.PartnerStatus, page.Row = page.Status.Partners[0], list.Partners[0]
	return show("partner", page)
}
