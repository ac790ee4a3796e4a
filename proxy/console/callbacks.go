package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/operate"
)

// A callbacksPage is the data of the page callbacks.
type callbacksPage struct {
	Filter    callbackFilter
	Tabs      []callbackTab
	Upstreams []string
	Partners  []string // the names of the config
	Ages      []string
	List      []operate.Callback
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

// selects returns the filter for package operate.
func (c *Console) selects(f callbackFilter, limit int) (operate.CallbackFilter, error) {
	s := operate.CallbackFilter{
		PartnerRef: operate.PartnerRef{Partner: c.partnerID(f.Partner)}, State: f.State, Bill: f.Bill, Upstream: f.Upstream,
		Limit: operate.AtMost(limit),
	}
	var err error
	if f.After != "" {
		s.After, err = strconv.ParseInt(f.After, 10, 64)
	}
	if slices.Contains(callbackAges, f.Age) {
		age, _ := time.ParseDuration(strings.TrimPrefix(f.Age, "-")) // one of callbackAges
		at := c.options.Now().Add(-age).UTC().Truncate(time.Second)
		if strings.HasPrefix(f.Age, "-") {
			s.Until = at
		} else {
			s.Since = at
		}
	}
	if err != nil {
		err = &operate.Error{Text: "after is the next of the page before"}
	}
	return s, err
}

// fields returns a filter as the fields of a form, which decideWithProgress reads.
func fields(s operate.CallbackFilter) url.Values {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	return without(url.Values{
		"partner": {s.Partner}, "bill": {s.Bill}, "upstream": {s.Upstream}, "since": {at(s.Since)}, "until": {at(s.Until)},
	})
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
	var found operate.CallbackPage
	selected, err := c.selects(f, callbacksOnPage)
	if err == nil {
		found, err = ask(r, c.options.Callbacks.CallbackPage, selected)
	}
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
	counts, err := ask(r, c.options.Callbacks.Counts, operate.CountLimit{AtMost: countedMost})
	if err != nil {
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
	operate.Callback
	MayReplay, MayDrop bool // by its state
	HasBills           bool
	Done               string // what was decided just now: replay or drop
}

// callback shows one callback with its attempts.
func (c *Console) callback(w http.ResponseWriter, r *http.Request) {
	var page callbackPage
	var err error
	if page.Callback, err = ask(r, c.options.Callbacks.Callback, operate.CallbackRef{ID: r.PathValue("id")}); err != nil {
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

// decision returns what decides about several callbacks.
func (c *Console) decision(do string) func(context.Context, operate.Selection, func(operate.Progress)) error {
	if do == "replay" {
		return c.options.Callbacks.Replay
	}
	return c.options.Callbacks.Drop
}

// known reports whether a decision can be made here, and answers the request if not.
func (c *Console) known(w http.ResponseWriter, r *http.Request) bool {
	if !slices.Contains(decisions, r.PathValue("do")) {
		c.refuse(w, r, http.StatusNotFound, "error.path")
		return false
	}
	return true
}

// decideCallback shows what a decision about one callback would do, and takes it.
func (c *Console) decideCallback(w http.ResponseWriter, r *http.Request) {
	if !c.known(w, r) {
		return
	}
	do, id := r.PathValue("do"), r.PathValue("id")
	decide := c.options.Callbacks.DropOne
	if do == "replay" {
		decide = c.options.Callbacks.ReplayOne
	}
	choice := operate.Choice{CallbackRef: operate.CallbackRef{ID: id}}
	if r.Method == http.MethodPost {
		choice.By = by(r)
		if _, err := ask(r, decide, choice); err != nil {
			c.fail(w, r, err)
			return
		}
		http.Redirect(w, r, "/deliveries/"+url.PathEscape(id)+"?done="+do, http.StatusSeeOther)
		return
	}
	page := decisionPage{Do: do, ID: id, Count: 1}
	choice.DryRun = true
	_, err := ask(r, decide, choice)
	c.showDecision(w, r, page, err)
}

// showDecision writes the page of a decision, with the reason why it is not possible.
func (c *Console) showDecision(w http.ResponseWriter, r *http.Request, page decisionPage, err error) {
	if problem, ok := problemOf(err); ok {
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
	if !c.known(w, r) {
		return
	}
	do := r.PathValue("do")
	if r.Method == http.MethodPost {
		c.decideWithProgress(w, r, do)
		return
	}
	f := callbackFilterOf(r.URL.Query())
	f.State, f.After = "dead", ""
	selected, err := c.selects(f, countedMost+1)
	page := decisionPage{Do: do, Filter: f, Fields: fields(selected)}
	if err == nil {
		s := operate.Selection{Redelivery: operate.Redelivery{DryRun: true}, CallbackFilter: selected}
		err = c.decision(do)(r.Context(), s, func(p operate.Progress) {
			page.Count, page.Over = min(p.Of, countedMost), p.Of > countedMost
		})
	}
	c.showDecision(w, r, page, err)
}
