package console

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/translate/billing"
)

// A callsPage is the data of the page calls.
type callsPage struct {
	list
	callFilter
	Config *config.Config
	Routes []string // the values of the filter
	Rows   []callRow
	Live   bool   // the page follows new calls
	Newest string // the address of the page with the newest calls
	Paused string // the address of the page as it is now
	Spans  []span // of the calls that are kept
	Search string // a command that finds the calls in the log
}

// A callRow is a call as pages show it: without a value of the caller that may be personal data.
type callRow struct {
	*call
	Outcome outcome
	Bill    string
}

func rowOf(c *call) callRow { return callRow{c, outcomeOf(&c.Finished), billing.MaskBill(c.Bill)} }

// milliseconds returns a duration as in the log.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Round(10*time.Microsecond).Microseconds())/1000, 'f', -1, 64)
}

// rounded returns a quantile with two digits: it is exact to 7 %.
func rounded(d time.Duration) string {
	value, unit := float64(d)/1e6, " ms"
	if value >= 995 {
		value, unit = value/1000, " s"
	}
	digits := 1 - int(math.Floor(math.Log10(max(value, 0.01)*1.0051))) // 9.95 has three digits when it is rounded
	power := math.Pow10(digits)
	return strconv.FormatFloat(math.Round(value*power)/power, 'f', max(digits, 0), 64) + unit
}

// callsOnPage is the number of calls of one page.
const callsOnPage = 75

// routeReasons are the values of Finished.Route.
var routeReasons = []string{"owner", "stage", "canary", "probe", "stop"}

// calls shows the last calls that a filter selects, the newest first.
func (c *Console) calls(r *http.Request) (answer, error) {
	f, problem := c.callFilterOf(r.URL.Query())
	page := callsPage{
		list:       list{Path: "/calls", Filter: f.Values, Names: c.partnerNames(), Problem: problem},
		callFilter: f, Config: c.Config(), Routes: routeReasons, Spans: c.ring.spans(outcome(f.Get("outcome"))),
	}
	if problem != "" {
		return answer{page: "calls", data: page, status: http.StatusBadRequest}, nil
	}
	page.Search = c.searchOf(&f)
	page.addTabs("outcome", "before", nil, append([]string{""}, outcomes...)...)
	page.Live, page.Newest = f.before == 0 && f.To.IsZero(), page.With("before", "", "to", "")
	found, more := c.ring.list(f.match, f.before, callsOnPage)
	newest := c.ring.newest()
	if len(found) > 0 { // the page is the same while no call matches
		newest = found[0].number
	}
	page.Paused = page.With("before", keyOf(newest+1))
	for _, one := range found {
		page.Rows = append(page.Rows, rowOf(one))
	}
	if more {
		page.More = page.With("before", found[len(found)-1].Key())
	}
	return show("calls", page)
}

// A callFilter selects calls.
type callFilter struct {
	url.Values // as in the address of the page, without empty ones

	before   uint64
	partners []string // the first digits of the IDs that the partner means
	slower   time.Duration
	From, To time.Time // in the zone of the page
}

// filterKeys are the keys of a filter. The partner is a name, a part of it, or the first digits of the ID; slower
// is in milliseconds.
var filterKeys = []string{
	"partner", "operation", "client", "form", "upstream", "route",
	"code", "bill", "id", "slower", "from", "to", "outcome", "before",
}

// longestFilter is the length of the longest value of a filter, in bytes. No value of a call is longer.
const longestFilter = 128

// callFilterOf reads the filter of a query. If it is not valid, problem is the key of a text and the filter is empty:
// a mistyped value may be a key and is not shown.
func (c *Console) callFilterOf(q url.Values) (f callFilter, problem string) {
	f.Values = url.Values{}
	for _, key := range filterKeys {
		value := strings.TrimSpace(q.Get(key))
		if len(value) > longestFilter || !utf8.ValidString(value) {
			problem = "calls.problem.long"
		}
		f.Set(key, value)
	}
	without(f.Values)
	if problem = cmp.Or(problem, f.parsePartner(c.Config().Partners), f.parse(c.zone)); problem != "" {
		clear(f.Values)
	}
	return f, problem
}

// parsePartner finds the partners of a filter.
func (f *callFilter) parsePartner(partners config.Partners) (problem string) {
	partner := f.Get("partner")
	if partner == "" {
		return ""
	}
	for _, p := range partners {
		if strings.Contains(config.FoldName(p.Name), config.FoldName(partner)) {
			f.partners = append(f.partners, p.Hash[:12])
		}
	}
	if digits := strings.Trim(partner, "0123456789abcdef") == ""; digits && len(partner) >= 4 && len(partner) <= 64 {
		f.partners = append(f.partners, partner[:min(len(partner), 12)])
	}
	if f.partners == nil {
		return "calls.problem.partner"
	}
	return ""
}

// parse reads numbers and times. Times are as people or an input of type datetime-local write them, in a zone if they
// have none: a browser with scripts sends UTC.
func (f *callFilter) parse(zone *time.Location) (problem string) {
	var err error
	if key := f.Get("before"); key != "" {
		if f.before, err = strconv.ParseUint(key, 36, 64); err != nil {
			return "calls.problem.page"
		}
	}
	if text := f.Get("slower"); text != "" {
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ms >= 0 && ms < 1e9) {
			return "calls.problem.number"
		}
		f.slower = time.Duration(ms * float64(time.Millisecond))
	}
	for key, at := range map[string]*time.Time{"from": &f.From, "to": &f.To} {
		text := f.Get(key)
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
			if at.IsZero() {
				*at, _ = time.ParseInLocation(layout, text, zone)
			}
		}
		if text != "" && at.IsZero() {
			return "calls.problem.time"
		}
		*at = at.In(zone)
	}
	return ""
}

// Detailed reports whether more than the outcome is selected.
func (f callFilter) Detailed() bool {
	for key := range f.Values {
		if key != "outcome" && key != "before" {
			return true
		}
	}
	return false
}

// match reports whether the filter selects a call.
func (f callFilter) match(x *proxy.Finished) bool {
	for _, one := range [...][2]string{
		{"operation", x.Operation},
		{"client", string(x.Client)},
		{"form", string(x.Form)},
		{"upstream", x.Upstream},
		{"route", x.Route},
		{"code", x.Code},
		{"bill", x.Bill},
		{"outcome", string(outcomeOf(x))},
	} {
		if want := f.Get(one[0]); want != "" && want != one[1] {
			return false
		}
	}
	id := f.Get("id")
	ofPartner := func(digits string) bool { return strings.HasPrefix(string(x.Partner), digits) }
	return (id == "" || id == x.ID) && x.Took >= f.slower &&
		!x.At.Before(f.From) && (f.To.IsZero() || !x.At.After(f.To)) &&
		(f.partners == nil || slices.ContainsFunc(f.partners, ofPartner))
}
