package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"billbridge/proxy/sandbox"
)

// shownCalls is the most that a list shows.
const shownCalls = 100

// A callsPage is the data of the page calls.
type callsPage struct {
	scope
	Filter     filter
	Operations []string
	Rows       []sandbox.Exchange
}

// newest returns the entries of a list that match, the newest first.
func newest[T any](list []T, matches func(T) bool) []T {
	list = slices.DeleteFunc(list, func(one T) bool { return !matches(one) })
	slices.Reverse(list)
	return list
}

// calls shows the last calls and attempts to deliver callbacks.
func (d *desk) calls(w http.ResponseWriter, r *http.Request) {
	f := filter{r.URL.Query()}
	p := callsPage{scope: scopeOf(r), Filter: f, Operations: sandbox.Operations()}
	p.Rows = newest(d.Exchanges(), func(x sandbox.Exchange) bool {
		return p.sees(x.Partner) && f.has("partner", p.Of(x.Partner).ID) && f.has("operation", x.Operation) &&
			f.has("code", x.Code) && f.has("bill", x.Bill)
	})
	p.Rows = p.Rows[:min(len(p.Rows), shownCalls)]
	d.site.Page(w, r, "calls", p)
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
	p := callPage{scope: scopeOf(r)}
	list := newest(d.Exchanges(), func(x sandbox.Exchange) bool {
		return p.sees(x.Partner) && strconv.Itoa(x.Number) == r.PathValue("number")
	})
	if len(list) == 0 {
		d.site.Refuse(w, r, http.StatusNotFound, "call.gone")
		return
	}
	p.Exchange = list[0]
	d.site.Page(w, r, "call", p)
}
