package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
)

// A partnersPage is the data of the page partners.
type partnersPage struct {
	list
	operate.PartnerList
	Migration migration
	Choose    string         // the query of a new wave with all partners of the filter
	From      int            // the place of the first partner of the page
	Status    operate.Status // without partners
	Find      string         // a partner that was not found
	Done      string         // what was changed just now: stop or resume
}

// To is the place of the last partner of the page.
func (p partnersPage) To() int { return p.From + len(p.Partners) - 1 }

// partnersOnPage is the number of partners of one page of the table.
const partnersOnPage = 50

// partners shows a page of the table.
func (c *Console) partners(r *http.Request) (answer, error) {
	o := c.Operator
	page := partnersPage{
		list: c.listOf(r, "/partners", "stage", "state", "after"),
		Done: doneOf(r, "stop", "resume"),
	}
	if page.Find = strings.TrimSpace(r.URL.Query().Get("partner")); page.Find != "" {
		id := c.partnerID(page.Find)
		_, err := ask(r, o.Partners, operate.PartnerQuery{PartnerRef: operate.PartnerRef{Partner: id}})
		if err == nil {
			return goTo("/partners/" + url.PathEscape(id))
		}
		page.Problem = err.Error()
	}
	query := operate.PartnerQuery{Limit: operate.AtMost(partnersOnPage)}
	err := operate.Decode(page.Filter, &query)
	page.From = query.After + 1
	// A limit of one: of the status the page needs what is true for all partners.
	var failed error
	page.Status, failed = ask(r, o.Status, operate.Page{Limit: operate.AtMost(1)})
	err = cmp.Or(err, failed)
	page.PartnerList = askNext(r, &err, o.Partners, query)
	if err != nil { // the kill switch is on this page and must be found while the store is down
		page.Problem = err.Error()
		return answer{page: "partners", data: page, status: statusOf(err)}, nil
	}
	page.Migration, err = c.migration(r)
	if err != nil {
		return answer{}, err
	}
	w := c.windows[0]
	if c.Now().Sub(w.since) > 2*w.long() {
		w = c.windows[len(c.windows)-1]
	}
	page.Migration.draw(c, w)
	counts := operate.Counts{"": {Number: sum(page.States)}}
	states := []string{""}
	for _, s := range operate.PartnerStates {
		states = append(states, string(s))
		counts[string(s)] = operate.Number{Number: page.States[s]}
	}
	page.addTabs("state", "after", counts, states...)
	chosen := maps.Clone(page.Filter)
	chosen.Del("after")
	chosen.Set("all", "true")
	page.Choose = chosen.Encode()
	if page.Next != 0 {
		page.More = page.With("after", strconv.Itoa(page.Next))
	}
	return show("partners", page)
}

// sum returns the sum of the values.
func sum[K comparable](numbers map[K]int) (all int) {
	for _, n := range numbers {
		all += n
	}
	return all
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
	page.Status = askNext(r, &err, o.Status, operate.Page{PartnerRef: ref})
	list := askNext(r, &err, o.Partners, operate.PartnerQuery{PartnerRef: ref})
	page.Report = askNext(r, &err, o.Evidence, ref) // list has the next stage
	page.History = askNext(r, &err, o.Audit, operate.AuditPage{PartnerRef: ref, Limit: operate.AtMost(historyShown)})
	if err != nil {
		return a, err
	}
	page.PartnerStatus, page.Row = page.Status.Partners[0], list.Partners[0]
	return show("partner", page)
}
