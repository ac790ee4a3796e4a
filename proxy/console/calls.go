package console

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"billbridge/proxy"
	"billbridge/proxy/partner"
	"billbridge/translate/billing"
)

// A callsPage is the data of the page calls.
type callsPage struct {
	Filter  callFilter
	Choices callChoices
	Tabs    []outcomeTab
	Problem string // the key of a text; "" if the filter is valid
	Rows    []callRow
	Missed  int    // of a live page: calls that are not in Rows, because there were too many
	New     bool   // the rows have just arrived
	Live    string // the query of the events; "" if the page does not follow
	Older   string // the query of the next page; "" if this is the last one
	Kept    int
	Max     int
}

// callChoices are the values that selects of the filter have.
type callChoices struct {
	Partners, Operations, Forms, Upstreams []string
	Routes                                 []string
}

// An outcomeTab shows the calls of one outcome.
type outcomeTab struct {
	Outcome outcome // "" for all
	Query   string
	Current bool
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

// tenths returns a duration in milliseconds with one decimal: numbers below each other are compared.
func tenths(d time.Duration) string { return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) }

// callsOnPage is the number of calls of one page.
const callsOnPage = 100

// routeReasons are the values of Finished.Route.
var routeReasons = []string{"owner", "stage", "canary", "probe", "stop"}

// calls shows the last calls that a filter selects, the newest first.
func (c *Console) calls(w http.ResponseWriter, r *http.Request) {
	f, err := c.callFilterOf(r.URL.Query())
	page := callsPage{Filter: f, Choices: c.callChoices(), Kept: c.ring.holds(), Max: maxCalls}
	status := http.StatusOK
	if err != nil {
		status, page.Problem = http.StatusBadRequest, err.Error()
		c.pageWithStatus(w, r, status, "calls", page)
		return
	}
	for _, o := range append([]outcome{""}, outcomes...) {
		tab := f
		tab.Outcome, tab.before = o, 0
		page.Tabs = append(page.Tabs, outcomeTab{o, tab.query().Encode(), o == f.Outcome})
	}
	found, more := c.ring.list(f.match, f.before, callsOnPage)
	for _, one := range found {
		page.Rows = append(page.Rows, rowOf(one))
	}
	if f.before == 0 && f.To == "" {
		live := f.query()
		if live.Set("after", keyOf(c.ring.newest())); len(found) > 0 {
			live.Set("after", found[0].Key())
		}
		page.Live = live.Encode()
	}
	if more {
		older := f
		older.before = found[len(found)-1].number
		page.Older = older.query().Encode()
	}
	c.page(w, r, "calls", page)
}

func (c *Console) callChoices() callChoices {
	config := c.options.Config()
	choices := callChoices{Partners: c.partnerNames()}
	for _, o := range config.Table.Operations() {
		choices.Operations = append(choices.Operations, o.Name)
	}
	for _, form := range config.Table.Forms() {
		choices.Forms = append(choices.Forms, string(form))
	}
	for _, u := range config.Upstreams {
		choices.Upstreams = append(choices.Upstreams, u.Name)
	}
	if config.Rollout != nil {
		choices.Routes = routeReasons
	}
	return choices
}

// A callFilter selects calls. Empty fields select all.
type callFilter struct {
	Partner                                        string // a name, a part of it, or the first digits of the ID
	Operation, Client, Form, Upstream, Route, Code string
	Bill                                           string
	ID                                             string // of the call or of its trace
	Slower                                         string // milliseconds
	From, To                                       string // times
	Outcome                                        outcome

	before   uint64
	partners []string // the first digits of the IDs that Partner means
	slower   time.Duration
	from, to time.Time
}

// longestFilter is the length of the longest value of a filter, in bytes. No value of a call is longer.
const longestFilter = 128

// The problems of a filter, as keys of texts.
var (
	errFilterLong    = errors.New("calls.problem.long")
	errFilterPartner = errors.New("calls.problem.partner")
	errFilterNumber  = errors.New("calls.problem.number")
	errFilterTime    = errors.New("calls.problem.time")
	errFilterPage    = errors.New("calls.problem.page")
)

// callFilterOf reads the filter of a query. If it is not valid, the filter is empty: a mistyped value may be a key and is not shown.
func (c *Console) callFilterOf(q url.Values) (f callFilter, err error) {
	value := func(key string) string {
		v := strings.TrimSpace(q.Get(key))
		if len(v) > longestFilter || !utf8.ValidString(v) {
			err = errFilterLong
		}
		return v
	}
	f = callFilter{
		Partner: value("partner"), Operation: value("operation"), Client: value("client"), Form: value("form"), Upstream: value("upstream"),
		Route: value("route"), Code: value("code"), Bill: value("bill"), ID: value("id"), Slower: value("slower"), From: value("from"), To: value("to"),
		Outcome: outcome(value("outcome")),
	}
	before := value("before")
	if err == nil {
		err = errors.Join(c.parsePartner(&f), parseSlower(&f), parseTime(f.From, &f.from), parseTime(f.To, &f.to), parseKey(before, &f.before))
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			err = joined.Unwrap()[0]
		}
	}
	if err != nil {
		return callFilter{}, err
	}
	return f, nil
}

// parsePartner finds the partners that a filter means.
func (c *Console) parsePartner(f *callFilter) error {
	if f.Partner == "" {
		return nil
	}
	for _, p := range c.options.Config().Partners {
		if strings.Contains(strings.ToLower(p.Name), strings.ToLower(f.Partner)) {
			f.partners = append(f.partners, p.Hash[:12])
		}
	}
	if digits := strings.Trim(f.Partner, "0123456789abcdef") == ""; digits && len(f.Partner) >= 4 && len(f.Partner) <= 64 {
		f.partners = append(f.partners, f.Partner[:min(len(f.Partner), 12)])
	}
	if f.partners == nil {
		return errFilterPartner
	}
	return nil
}

func parseSlower(f *callFilter) error {
	if f.Slower == "" {
		return nil
	}
	ms, err := strconv.ParseFloat(f.Slower, 64)
	if err != nil || !(ms >= 0 && ms < 1e9) {
		return errFilterNumber
	}
	f.slower = time.Duration(ms * float64(time.Millisecond))
	return nil
}

// parseTime reads a time as people or an input of type datetime-local write it.
func parseTime(text string, to *time.Time) (err error) {
	if text == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if *to, err = time.ParseInLocation(layout, text, time.Local); err == nil {
			return nil
		}
	}
	return errFilterTime
}

func parseKey(text string, to *uint64) (err error) {
	if text == "" {
		return nil
	}
	if *to, err = strconv.ParseUint(text, 36, 64); err != nil {
		return errFilterPage
	}
	return nil
}

// query returns the filter as in the address of a page.
func (f callFilter) query() url.Values {
	q := url.Values{
		"partner": {f.Partner}, "operation": {f.Operation}, "client": {f.Client}, "form": {f.Form}, "upstream": {f.Upstream}, "route": {f.Route},
		"code": {f.Code}, "bill": {f.Bill}, "id": {f.ID}, "slower": {f.Slower}, "from": {f.From}, "to": {f.To}, "outcome": {string(f.Outcome)},
	}
	if f.before != 0 {
		q.Set("before", keyOf(f.before))
	}
	return without(q)
}

// Detailed reports whether more than the outcome is selected.
func (f callFilter) Detailed() bool {
	f.Outcome, f.before = "", 0
	return len(f.query()) > 0
}

// match reports whether the filter selects a call.
func (f callFilter) match(x *proxy.Finished) bool {
	for _, one := range [...]struct{ want, is string }{
		{f.Operation, x.Operation},
		{f.Client, string(x.Client)},
		{f.Form, string(x.Form)},
		{f.Upstream, x.Upstream},
		{f.Route, x.Route},
		{f.Code, x.Code},
		{f.Bill, x.Bill},
	} {
		if one.want != "" && one.want != one.is {
			return false
		}
	}
	switch {
	case f.ID != "" && f.ID != x.ID && f.ID != x.TraceID,
		f.Outcome != "" && outcomeOf(x) != f.Outcome,
		x.Took < f.slower,
		!f.from.IsZero() && x.At.Before(f.from),
		!f.to.IsZero() && x.At.After(f.to):
		return false
	}
	return f.partners == nil || slices.ContainsFunc(f.partners, func(digits string) bool { return hasPrefix(x.Partner, digits) })
}

func hasPrefix(id partner.ID, digits string) bool { return strings.HasPrefix(string(id), digits) }

// The limits of a live page.
const (
	liveBatch = 250 * time.Millisecond // calls are sent together
	liveLife  = 10 * time.Minute       // then the page loads again, so that the end of a session takes effect
	liveAlive = 15 * time.Second       // between two signs of life
	liveWrite = 10 * time.Second       // for the browser to take an event
)

// liveCalls sends the calls that a filter selects, as events with rows of the table.
func (c *Console) liveCalls(w http.ResponseWriter, r *http.Request) {
	f, err := c.callFilterOf(r.URL.Query())
	if err != nil {
		http.Error(w, "the filter is not valid", http.StatusBadRequest)
		return
	}
	var after uint64
	if err := parseKey(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")), &after); err != nil {
		http.Error(w, "after is not valid", http.StatusBadRequest)
		return
	}
	calls, missed, leave, ok := c.ring.follow(f.match)
	if !ok {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many pages are live", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	live := &liveStream{console: c, w: w, r: r, control: control, last: after}
	earlier, more := c.ring.list(f.match, 0, maxBatch)
	earlier = slices.DeleteFunc(earlier, func(one *call) bool { return one.number <= after })
	live.send(earlier, map[bool]int{true: 1}[more && len(earlier) == maxBatch])
	live.run(calls, missed)
}

// A liveStream sends events to one page.
type liveStream struct {
	console *Console
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	last    uint64 // the number of the newest call that was sent
	err     error
}

// run sends the calls of a channel until the page goes away.
func (l *liveStream) run(calls <-chan *call, missed func() int) {
	end := time.NewTimer(liveLife)
	defer end.Stop()
	alive := time.NewTicker(liveAlive)
	defer alive.Stop()
	batch := time.NewTicker(liveBatch)
	defer batch.Stop()
	var found []*call
	for l.err == nil {
		next := calls
		if len(found) >= maxBatch {
			next = nil // the channel fills up, and further calls are counted as missed
		}
		select {
		case one := <-next:
			if one.number > l.last {
				found = slices.Insert(found, 0, one)
			}
		case <-batch.C:
			if len(found) > 0 {
				l.send(found, missed())
				found = nil
			}
		case <-alive.C:
			l.write(": alive\n\n")
		case <-end.C:
			l.write("event: again\ndata: again\n\n")
			return
		case <-l.r.Context().Done():
			return
		case <-l.console.closing:
			return
		}
	}
}

// send sends calls, the newest first.
func (l *liveStream) send(found []*call, missed int) {
	if len(found) == 0 {
		l.write(": open\n\n")
		return
	}
	page := callsPage{Missed: missed, New: true}
	for _, one := range found {
		page.Rows = append(page.Rows, rowOf(one))
	}
	rows, err := l.console.render(l.r, "calls", "rows", page)
	if l.err = err; err != nil {
		l.console.options.Logger.Error("a live page of the console cannot be written", "error", err.Error())
		return
	}
	l.last = found[0].number
	l.write(fmt.Sprintf("id: %s\nevent: calls\ndata: %s\n\n", found[0].Key(), bytes.ReplaceAll(bytes.TrimSpace(rows), []byte("\n"), []byte("\ndata: "))))
}

func (l *liveStream) write(event string) {
	_ = l.control.SetWriteDeadline(l.console.options.Now().Add(liveWrite))
	if _, l.err = l.w.Write([]byte(event)); l.err == nil {
		l.err = l.control.Flush()
	}
}
