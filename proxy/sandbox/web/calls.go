package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"billbridge/proxy/sandbox"
)

// shownCalls is the most that a list shows.
const shownCalls = 100

// A listPage is the data of a page with a list.
type listPage[T any] struct {
	scope
	Filter     url.Values
	Operations []string
	Rows       []T
}

// list shows those of a list that the visitor sees and that the query asks for, the newest first. facts returns the
// partner's key and what a query can ask for.
func list[T any](
	d *desk, w http.ResponseWriter, r *http.Request, page string, all []T, facts func(T) map[string]string,
) {
	p := listPage[T]{scope: scopeOf(r), Filter: r.URL.Query(), Operations: sandbox.Operations()}
	p.Rows = newest(all, func(one T) bool {
		is := facts(one)
		shown := p.sees(is["partner"])
		is["partner"] = p.Of(is["partner"]).ID
		for name, value := range is {
			shown = shown && cmp.Or(p.Filter.Get(name), value) == value
		}
		return shown
	})
	p.Rows = p.Rows[:min(len(p.Rows), shownCalls)]
	d.site.Page(w, r, page, p)
}

// newest returns the entries of a list that match, the newest first.
func newest[T any](list []T, matches func(T) bool) []T {
	list = slices.DeleteFunc(list, func(one T) bool { return !matches(one) })
	slices.Reverse(list)
	return list
}

// calls shows the last calls and attempts to deliver callbacks.
func (d *desk) calls(w http.ResponseWriter, r *http.Request) {
	list(d, w, r, "calls", d.Exchanges(), func(x sandbox.Exchange) map[string]string {
		return map[string]string{"partner": x.Partner, "operation": x.Operation, "code": x.Code, "bill": x.Bill}
	})
}

// A callPage is the data of the page call.
type callPage struct {
	scope
	sandbox.Exchange
}

// Pretty returns a body with line breaks, if it is JSON.
func (callPage) Pretty(body sandbox.Body) string {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		return string(body)
	}
	return out.String()
}

// Refused reports whether a check has refused the call.
func (p callPage) Refused(check int) bool { return !p.Done && check == len(p.Checked)-1 }

// Changed returns what a fault without a name has changed.
func (p callPage) Changed() string {
	text, _ := json.Marshal(p.Fault) // a Fault has JSON
	return string(text)
}

// call shows one call.
func (d *desk) call(w http.ResponseWriter, r *http.Request) {
	s := scopeOf(r)
	for _, x := range d.Exchanges() {
		if s.sees(x.Partner) && strconv.Itoa(x.Number) == r.PathValue("number") {
			d.site.Page(w, r, "call", callPage{s, x})
			return
		}
	}
	d.site.Refuse(w, r, http.StatusNotFound, "call.gone")
}
