package console

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/rollout"
)

// A callbacksPage is the data of the page callbacks.
type callbacksPage struct {
	Filter    url.Values
	Tabs      []callbackTab
	Upstreams []string
	Partners  []string // the names of the config
	Ages      []string
	List      []operate.Callback
	Missing   operate.MissingList
	Problem   string // of the filter
	This      string // the address of the page
	Next      string // the address of the next page; "" if this is the last one

	// the addresses of decisions about all failed callbacks of the filter; "" if others are shown
	ReplayAll, DropAll string

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

// callbackAges are the choices of the filter: received within, or longer ago if it begins with a minus sign.
var callbackAges = []string{"1h", "24h", "168h", "-1h", "-24h", "-168h"}

// countedMost bounds the counts of the page: beyond it the number does not matter, and counting takes time.
const countedMost = 10_000

// callbacksOnPage is the number of callbacks of one page.
const callbacksOnPage = 100

// callbackFilterOf returns the filter of a query, without empty values.
func callbackFilterOf(q url.Values) url.Values {
	f := url.Values{}
	for _, key := range []string{"state", "partner", "bill", "upstream", "age", "after"} {
		f.Set(key, strings.TrimSpace(q.Get(key)))
	}
	return without(f)
}

// selected returns a filter as package operate reads it.
func (c *Console) selected(f url.Values) url.Values {
	q := maps.Clone(f)
	q.Set("partner", c.partnerID(f.Get("partner")))
	q.Del("age")
	if age := f.Get("age"); slices.Contains(callbackAges, age) {
		key := "since"
		if strings.HasPrefix(age, "-") {
			key = "until"
		}
		ago, _ := time.ParseDuration(strings.TrimPrefix(age, "-")) // one of callbackAges
		q.Set(key, c.Now().Add(-ago).UTC().Format(time.RFC3339))
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
	if p := c.Config().Partners.Named(named); p != nil {
		return p.Hash
	}
	return named
}

// suggestedMost is the most names that a form suggests: with more, a browser is slow, and nobody reads them.
const suggestedMost = 500

// partnerNames are the names of the config for the suggestions of a form; none if there are too many.
func (c *Console) partnerNames() []string {
	var names []string
	if len(c.Config().Partners) > suggestedMost {
		return nil
	}
	for _, p := range c.Config().Partners {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// callbacks shows the callbacks of a filter, the newest first.
func (c *Console) callbacks(r *http.Request) (a answer, err error) {
	f := callbackFilterOf(r.URL.Query())
	page := callbacksPage{
		Filter: f, This: "/deliveries?" + f.Encode(), Partners: c.partnerNames(),
		Ages: callbackAges, HasBills: c.Operator.Rollout != nil,
	}
	for _, u := range c.Config().Upstreams {
		page.Upstreams = append(page.Upstreams, u.Name)
	}
	if len(c.Config().Notify) > 0 {
		page.Upstreams = append(page.Upstreams, config.NotifyUpstream)
	}
	if page.Tabs, err = c.callbackTabs(r, f); err != nil {
		return a, err
	}
	var found operate.CallbackPage
	selected := operate.CallbackFilter{Limit: operate.AtMost(callbacksOnPage)}
	if err = operate.Decode(c.selected(f), &selected); err == nil {
		found, err = ask(r, c.Operator.Callbacks, selected)
	}
	if problem, ok := problemOf(err); ok { // of the filter: the form stays
		page.Problem, err = problem, nil
	}
	if err != nil {
		return a, err
	}
	page.List = found.Callbacks
	if page.Missing, err = ask(r, c.Operator.Missing, operate.MissingFilter{}); err != nil {
		return a, err
	}
	if found.Next != 0 {
		page.Next = "/deliveries?" + changed(f, "after", strconv.FormatInt(found.Next, 10))
	}
	if f.Get("state") == "failed" && len(page.List) > 0 {
		all := changed(f, "after", "")
		page.ReplayAll, page.DropAll = "/deliveries/all/replay?"+all, "/deliveries/all/drop?"+all
	}
	return show("callbacks", page)
}

// callbackTabs are the states, with the numbers of those that wait or failed.
func (c *Console) callbackTabs(r *http.Request, f url.Values) ([]callbackTab, error) {
	counts, err := ask(r, c.Operator.Counts, operate.CountLimit{AtMost: countedMost})
	if err != nil {
		return nil, err
	}
	var tabs []callbackTab
	for _, state := range []string{"", "failed", "waiting", "superseded", "delivered", "dropped"} {
		link := "/deliveries?" + changed(f, "state", state, "after", "")
		tab := callbackTab{State: state, Link: link, Count: -1, Current: state == f.Get("state")}
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
func (c *Console) callback(r *http.Request) (a answer, err error) {
	one, err := ask(r, c.Operator.Callback, operate.CallbackRef{ID: r.PathValue("id")})
	if err != nil {
		return a, err
	}
	page := callbackPage{
		Callback: one, HasBills: c.Operator.Rollout != nil, Done: doneOf(r, decisions...),
	}
	page.MayDrop = page.State == "failed"
	page.MayReplay = page.Deleted == nil && (page.MayDrop || page.State == "delivered" || page.State == "superseded")
	return show("callback", page)
}

// decisions are what can be done with failed callbacks.
var decisions = []string{"replay", "drop"}

// A decisionPage is the data of the page callback-decision: what a decision would do, before it is confirmed.
type decisionPage struct {
	Do      string // replay or drop
	ID      string // of one callback; "" for several
	Filter  url.Values
	Fields  url.Values // the filter for the form; of one callback, the reasons that it overrides
	Count   int
	Over    bool              // more than Count
	Done    *operate.Progress // of a decision about several that was made; nil before
	Blocked string            // why it is not possible; "" if it is
	Reasons []rollout.BlockingReason
}

// decideCallback shows what a decision about one callback would do, and takes it.
func (c *Console) decideCallback(r *http.Request) (a answer, err error) {
	do, id := r.PathValue("do"), r.PathValue("id")
	if !slices.Contains(decisions, do) {
		return a, errPath
	}
	choice := operate.Choice{
		CallbackRef: operate.CallbackRef{ID: id}, Redelivery: operate.Redelivery{Do: do},
	}
	if r.Method == http.MethodPost {
		choice.By = by(r)
		if named := r.PostFormValue("force"); named != "" {
			_ = choice.Force.UnmarshalText([]byte(named)) // it never fails
		}
		if _, err := ask(r, c.Operator.DecideCallback, choice); err != nil {
			return a, err
		}
		return goTo("/deliveries/" + url.PathEscape(id) + "?done=" + do)
	}
	page := decisionPage{Do: do, ID: id, Count: 1}
	choice.DryRun = true
	_, err = ask(r, c.Operator.DecideCallback, choice)
	return showDecision(r, page, err)
}

// showDecision returns the page of a decision, with the reason why it is not possible.
func showDecision(r *http.Request, page decisionPage, err error) (answer, error) {
	if refused := (*operate.Error)(nil); errors.As(err, &refused) && refused.Reasons != nil {
		page.Reasons, err = refused.Reasons, nil
		page.Fields = url.Values{"force": {rollout.JoinKinds(rollout.KindsOf(page.Reasons))}}
	}
	return withProblem(r, answer{page: "callback-decision", data: &page}, &page.Blocked, err)
}

// decideCallbacks shows what a decision about all failed callbacks of a filter would do, and takes it. The work ends
// when the visitor leaves the page.
func (c *Console) decideCallbacks(r *http.Request) (a answer, err error) {
	do := r.PathValue("do")
	if !slices.Contains(decisions, do) {
		return a, errPath
	}
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil { // a part of a filter would select too many
			return a, errForm
		}
		r.PostForm.Set("by", by(r))
		var s operate.Selection
		page := decisionPage{Do: do, Done: &operate.Progress{}}
		err := operate.Decode(without(r.PostForm), &s)
		if err == nil {
			s.Do = do
			err = c.Operator.DecideCallbacks(r.Context(), s, func(step operate.Progress) { *page.Done = step })
		}
		if err != nil {
			return a, err
		}
		return show("callback-decision", page)
	}
	f := callbackFilterOf(r.URL.Query())
	f.Del("state")
	f.Del("after")
	page := decisionPage{Do: do, Filter: f, Fields: c.selected(f)}
	s := operate.Selection{
		Redelivery:     operate.Redelivery{Do: do, DryRun: true},
		CallbackFilter: operate.CallbackFilter{Limit: operate.AtMost(countedMost + 1)},
	}
	err = operate.Decode(page.Fields, &s)
	if err == nil {
		err = c.Operator.DecideCallbacks(r.Context(), s, func(p operate.Progress) {
			page.Count, page.Over = min(p.Of, countedMost), p.Of > countedMost
		})
	}
	return showDecision(r, page, err)
}
