package console

import (
	"maps"
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
	list
	Upstreams []string
	Ages      []string
	Callbacks []operate.Callback
	Missing   operate.MissingList
	All       string // the query of decisions about all failed callbacks of the filter; "" if others are shown
	HasBills  bool
}

// callbackAges are the choices of the filter: received within, or longer ago if it begins with a minus sign.
var callbackAges = []string{"1h", "24h", "168h", "-1h", "-24h", "-168h"}

// countedMost bounds the counts of the page: beyond it the number does not matter, and counting takes time.
const countedMost = 10_000

// callbacksOnPage is the number of callbacks of one page.
const callbacksOnPage = 100

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

// callbacks shows the callbacks of a filter, the newest first.
func (c *Console) callbacks(r *http.Request) (a answer, err error) {
	page := callbacksPage{
		list: c.listOf(r, "/deliveries", "state", "partner", "bill", "upstream", "age", "after"),
		Ages: callbackAges, HasBills: c.Operator.Rollout != nil,
	}
	for _, u := range c.Config().Upstreams {
		page.Upstreams = append(page.Upstreams, u.Name)
	}
	counts := askNext(r, &err, c.Operator.Counts, operate.CountLimit{AtMost: countedMost})
	page.addTabs("state", "after", counts, "", "failed", "waiting", "superseded", "delivered", "dropped")
	page.Missing = askNext(r, &err, c.Operator.Missing, operate.MissingFilter{})
	if err != nil {
		return a, err
	}
	var found operate.CallbackPage
	selected := operate.CallbackFilter{Limit: operate.AtMost(callbacksOnPage)}
	if err = operate.Decode(c.selected(page.Filter), &selected); err == nil {
		found, err = ask(r, c.Operator.Callbacks, selected)
	}
	if page.Callbacks = found.Callbacks; found.Next != 0 {
		page.More = page.With("after", strconv.FormatInt(found.Next, 10))
	}
	if page.Filter.Get("state") == "failed" && len(page.Callbacks) > 0 {
		_, page.All, _ = strings.Cut(page.With("after", ""), "?")
	}
	return withProblem(r, answer{page: "callbacks", data: &page}, &page.Problem, err) // the form stays
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
		Callback: one, HasBills: c.Operator.Rollout != nil, Done: doneOf(r, "replay", "drop"),
	}
	page.MayDrop = page.State == "failed"
	page.MayReplay = page.Deleted == nil && (page.MayDrop || page.State == "delivered" || page.State == "superseded")
	return show("callback", page)
}

// A callbackChoice is what a decision about callbacks concerns: one, or the failed ones of a filter.
type callbackChoice struct {
	ID     string // "" for several
	Filter url.Values
	Count  int
	Over   bool // more than Count
}

// decideCallback decides about one callback.
func (c *Console) decideCallback(r *http.Request) (answer, error) {
	d := decision{Of: "callbacks", About: callbackChoice{ID: r.PathValue("id"), Count: 1}}
	choice := operate.Choice{CallbackRef: operate.CallbackRef{ID: r.PathValue("id")}}
	return d.decide(r, func() error {
		choice.Do, choice.DryRun = d.Do, true
		_, err := ask(r, c.Operator.DecideCallback, choice)
		return err
	}, func(by operate.Decision) error {
		choice.Author, choice.Force, choice.DryRun = by.Author, by.Force, false
		_, err := ask(r, c.Operator.DecideCallback, choice)
		return err
	})
}

// decideCallbacks decides about all failed callbacks of a filter. The work ends when the visitor leaves the page.
func (c *Console) decideCallbacks(r *http.Request) (answer, error) {
	d := decision{Of: "callbacks", Back: "/deliveries?state=failed"}
	var all operate.Selection
	return d.decide(r, func() error {
		choice := callbackChoice{Filter: filterOf(r.URL.Query(), "partner", "bill", "upstream", "age")}
		if d.Fields = c.selected(choice.Filter); r.Method == http.MethodPost { // as it was when the visitor saw it
			d.Fields = without(maps.Clone(r.PostForm))
			d.Fields.Del("by")
		}
		err := operate.Decode(d.Fields, &all)
		counted := all
		counted.Do, counted.DryRun, counted.Limit = d.Do, true, operate.AtMost(countedMost+1)
		if err == nil {
			err = c.Operator.DecideCallbacks(r.Context(), counted, func(p operate.Progress) {
				choice.Count, choice.Over = min(p.Of, countedMost), p.Of > countedMost
			})
		}
		d.About, d.Nothing = choice, choice.Count == 0
		return err
	}, func(by operate.Decision) error {
		all.Do, all.Author = d.Do, by.Author
		return c.Operator.DecideCallbacks(r.Context(), all, func(step operate.Progress) { d.Result = step })
	})
}
