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

// exchanges returns those that a visitor sees, the newest first.
func (d *desk) exchanges(s scope) []sandbox.Exchange {
	list := slices.DeleteFunc(d.Exchanges(), func(x sandbox.Exchange) bool { return !s.sees(x.Partner) })
	slices.Reverse(list)
	return list
}

// calls shows the last calls and attempts to deliver callbacks.
func (d *desk) calls(w http.ResponseWriter, r *http.Request) {
	p := callsPage{scope: scopeOf(r), Filter: filter{r.URL.Query()}, Operations: sandbox.Operations()}
	for _, x := range d.exchanges(p.scope) {
		f := p.Filter
		if f.has("partner", p.Of(x.Partner).ID) && f.has("operation", x.Operation) && f.has("code", x.Code) &&
			f.has("bill", x.Bill) && len(p.Rows) < shownCalls {
			p.Rows = append(p.Rows, x)
		}
	}
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

// found returns the exchange of the path, or answers with 404.
func (d *desk) found(w http.ResponseWriter, r *http.Request) (p callPage, ok bool) {
	p.scope = scopeOf(r)
	for _, x := range d.exchanges(p.scope) {
		if strconv.Itoa(x.Number) == r.PathValue("number") {
			p.Exchange = x
			return p, true
		}
	}
	d.site.Refuse(w, r, http.StatusNotFound, "call.gone")
	return p, false
}

// call shows one call.
func (d *desk) call(w http.ResponseWriter, r *http.Request) {
	if p, ok := d.found(w, r); ok {
		d.site.Page(w, r, "call", p)
	}
}

// repeat makes a call again.
func (d *desk) repeat(w http.ResponseWriter, r *http.Request) {
	if p, ok := d.found(w, r); ok {
		d.Repeat(r.Context(), p.Exchange)
		http.Redirect(w, r, "/desk/calls", http.StatusSeeOther)
	}
}
