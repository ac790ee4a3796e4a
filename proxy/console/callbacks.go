package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/relay"
)

// A callbacksPage is the data of the page callbacks.
type callbacksPage struct {
	Filter    callbackFilter
	Tabs      []callbackTab
	Upstreams []string
	Partners  []string // the names of the config
	Ages      []string
	List      []relay.Listed
	Problem   string // of the filter
	This      string // the address of the page
	Next      string // the address of the next page; "" if this is the last one

	ReplayAll, DropAll string // the addresses of decisions about all dead callbacks of the filter; "" if others are shown

	HasBills bool
}

// A callbackTab shows the callbacks of one state.
type callbackTab struct {
	State   string // "" for all
	Link    string
	Count   int // of those that need somebody or something; -1 if they are not counted
	Over    bool
	Current bool
}

// A callbackFilter is the form of the page.
type callbackFilter struct {
	State, Partner, Bill, Upstream string
	Age                            string // one of callbackAges
	After                          string
}

// callbackAges are the choices of the filter: received within, or longer ago if it begins with a minus sign.
var callbackAges = []string{"1h", "24h", "168h", "-1h", "-24h", "-168h"}

// countedMost bounds the counts of the page: beyond it the number does not matter, and counting takes time.
const countedMost = 10_000

// callbacksOnPage is the number of callbacks of one page.
const callbacksOnPage = 100

func callbackFilterOf(q url.Values) callbackFilter {
	return callbackFilter{
		State: q.Get("state"), Partner: strings.TrimSpace(q.Get("partner")), Bill: strings.TrimSpace(q.Get("bill")), Upstream: q.Get("upstream"),
		Age: q.Get("age"), After: q.Get("after"),
	}
}

// link is the address of a page with the filter.
func (f callbackFilter) link(path string) string {
	q := without(url.Values{"state": {f.State}, "partner": {f.Partner}, "bill": {f.Bill}, "upstream": {f.Upstream}, "age": {f.Age}, "after": {f.After}})
	return path + "?" + q.Encode()
}

// callbackQuery is the filter in a query of the admin API.
func (c *Console) callbackQuery(f callbackFilter) url.Values {
	q := url.Values{"state": {f.State}, "partner": {c.partnerID(f.Partner)}, "bill": {f.Bill}, "upstream": {f.Upstream}, "after": {f.After}}
	if slices.Contains(callbackAges, f.Age) {
		age, _ := time.ParseDuration(strings.TrimPrefix(f.Age, "-")) // one of callbackAges
		key := "since"
		if strings.HasPrefix(f.Age, "-") {
			key = "until"
		}
		q.Set(key, c.options.Now().Add(-age).UTC().Format(time.RFC3339))
	}
	return without(q)
}

// without removes the keys that have no value.
func without(q url.Values) url.Values {
	for key := range q {
		if q.Get(key) == "" {
			q.Del(key)
		}
	}
	return q
}

// partnerID returns the digits of a partner that the visitor named: by its name in the config, or by its digits.
func (c *Console) partnerID(named string) string {
	for _, p := range c.options.Config().Partners {
		if strings.EqualFold(p.Name, named) {
			return p.Hash
		}
	}
	return named
}

// suggestedMost is the most names that a form suggests: with more, a browser is slow, and nobody reads them.
const suggestedMost = 500

// partnerNames are the names of the config for the suggestions of a form; none if there are too many.
func (c *Console) partnerNames() []string {
	var names []string
	if len(c.options.Config().Partners) > suggestedMost {
		return nil
	}
	for _, p := range c.options.Config().Partners {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// callbacks shows the callbacks of a filter, the newest first.
func (c *Console) callbacks(w http.ResponseWriter, r *http.Request) {
	f := callbackFilterOf(r.URL.Query())
	page := callbacksPage{Filter: f, This: f.link("/deliveries"), Partners: c.partnerNames(), Ages: callbackAges, HasBills: c.options.Rollout != nil}
	for _, u := range c.options.Config().Upstreams {
		page.Upstreams = append(page.Upstreams, u.Name)
	}
	var err error
	if page.Tabs, err = c.callbackTabs(r, f); err != nil {
		c.fail(w, r, err)
		return
	}
	q := c.callbackQuery(f)
	q.Set("limit", strconv.Itoa(callbacksOnPage))
	var found relay.Page
	err = c.call(r, c.options.Callbacks, http.MethodGet, "/callbacks/page?"+q.Encode(), nil, &found)
	if problem, ok := problemOf(err); ok { // of the filter: the form stays
		page.Problem, err = problem, nil
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	page.List = found.Callbacks
	if found.Next != 0 {
		next := f
		next.After = strconv.FormatInt(found.Next, 10)
		page.Next = next.link("/deliveries")
	}
	if f.State == "dead" && len(page.List) > 0 {
		bulk := f
		bulk.After = ""
		page.ReplayAll, page.DropAll = bulk.link("/deliveries/all/replay"), bulk.link("/deliveries/all/drop")
	}
	c.page(w, r, "callbacks", page)
}

// callbackTabs are the states, with the numbers of those that wait or are dead.
func (c *Console) callbackTabs(r *http.Request, f callbackFilter) ([]callbackTab, error) {
	var counts relay.Counts
	if err := c.call(r, c.options.Callbacks, http.MethodGet, "/callbacks/counts?at_most="+strconv.Itoa(countedMost), nil, &counts); err != nil {
		return nil, err
	}
	var tabs []callbackTab
	for _, state := range []string{"", "dead", "waiting", "delivered", "dropped"} {
		other := f
		other.State, other.After = state, ""
		tab := callbackTab{State: state, Link: other.link("/deliveries"), Count: -1, Current: state == f.State}
		if n, counted := counts[state]; counted {
			tab.Count, tab.Over = n.Number, n.More
		}
		tabs = append(tabs, tab)
	}
	return tabs, nil
}

// A callbackPage is the data of the page callback.
type callbackPage struct {
	relay.Listed
	MayReplay, MayDrop bool // by its state
	HasBills           bool
	Done               string // what was decided just now: replay or drop
}

// callback shows one callback with its attempts.
func (c *Console) callback(w http.ResponseWriter, r *http.Request) {
	var page callbackPage
	if err := c.callbackOf(r, http.MethodGet, "", &page.Listed); err != nil {
		c.fail(w, r, err)
		return
	}
	page.HasBills = c.options.Rollout != nil
	page.MayDrop = page.State == "dead"
	page.MayReplay = page.Deleted == nil && (page.MayDrop || page.State == "delivered")
	if done := r.URL.Query().Get("done"); slices.Contains(decisions, done) {
		page.Done = done
	}
	c.page(w, r, "callback", page)
}

// callbackOf calls the API for the callback of the address of a page.
func (c *Console) callbackOf(r *http.Request, method, rest string, answer any) error {
	id := r.PathValue("id")
	if !strings.HasPrefix(id, "cb_") || strings.ContainsAny(id, "/.") || len(id) > 100 { // the API would take it for another path
		return &apiError{http.StatusNotFound, "there is no callback with this id"}
	}
	return c.call(r, c.options.Callbacks, method, "/callbacks/"+url.PathEscape(id)+rest, nil, answer)
}

// decisions are what can be done with dead callbacks.
var decisions = []string{"replay", "drop"}

// A decisionPage is the data of the page callback-decision: what a decision would do, before it is confirmed.
type decisionPage struct {
	Do      string // replay or drop
	ID      string // of one callback; "" for several
	Filter  callbackFilter
	Fields  url.Values // the filter for the form
	Count   int
	Over    bool   // more than Count
	Blocked string // why it is not possible; "" if it is
}

// decideCallback shows what a decision about one callback would do, and takes it.
func (c *Console) decideCallback(w http.ResponseWriter, r *http.Request) {
	do, id := r.PathValue("do"), r.PathValue("id")
	if !slices.Contains(decisions, do) {
		c.refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	if r.Method == http.MethodPost {
		if err := c.callbackOf(r, http.MethodPost, "/"+do+"?"+url.Values{"by": {by(r)}}.Encode(), nil); err != nil {
			c.fail(w, r, err)
			return
		}
		http.Redirect(w, r, "/deliveries/"+url.PathEscape(id)+"?done="+do, http.StatusSeeOther)
		return
	}
	page := decisionPage{Do: do, ID: id, Count: 1}
	err := c.callbackOf(r, http.MethodPost, "/"+do+"?dry_run=true", nil)
	if problem, conflict := problemOf(err); conflict {
		page.Blocked, err = problem, nil
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.page(w, r, "callback-decision", page)
}

// decideCallbacks shows what a decision about all dead callbacks of a filter would do, and takes it with its progress.
func (c *Console) decideCallbacks(w http.ResponseWriter, r *http.Request) {
	do := r.PathValue("do")
	if !slices.Contains(decisions, do) {
		c.refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	if r.Method == http.MethodPost {
		c.decideWithProgress(w, r, do)
		return
	}
	f := callbackFilterOf(r.URL.Query())
	f.State, f.After = "dead", ""
	page := decisionPage{Do: do, Filter: f, Fields: c.callbackQuery(f)}
	q := c.callbackQuery(f)
	q.Set("dry_run", "true")
	q.Set("limit", strconv.Itoa(countedMost+1))
	var preview relay.Progress
	err := c.call(r, c.options.Callbacks, http.MethodPost, "/callbacks/"+do+"?"+q.Encode(), nil, &preview)
	if problem, ok := problemOf(err); ok {
		page.Blocked, err = problem, nil
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	page.Count, page.Over = min(preview.Of, countedMost), preview.Of > countedMost
	c.page(w, r, "callback-decision", page)
}
