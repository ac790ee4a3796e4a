package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"

	"billbridge/proxy/sandbox"
)

// A billsPage is the data of the page bills.
type billsPage struct {
	scope
	Filter url.Values
	Rows   []sandbox.Bill
}

// bills shows the bills of the visitor, the newest first.
func (d *desk) bills(w http.ResponseWriter, r *http.Request) {
	p := billsPage{scope: d.scopeOf(r), Filter: r.URL.Query()}
	for _, b := range slices.Backward(d.Bills()) {
		has := func(name, value string) bool { return cmp.Or(p.Filter.Get(name), value) == value }
		if p.sees(b.Partner) && has("partner", p.ID(b.Partner)) && has("state", b.State) && has("bill", b.ID) &&
			len(p.Rows) < shownCalls {
			p.Rows = append(p.Rows, b)
		}
	}
	d.site.Page(w, r, "bills", p)
}

// A billPage is the data of the page bill.
type billPage struct {
	scope
	Bill      sandbox.Bill
	Query     string // of the page
	Problem   string // why a change was refused
	Calls     []sandbox.Exchange
	Callbacks []sandbox.Callback
	Declines  []string // the codes of a payment that fails
}

// bill shows the bill of a query.
func (d *desk) bill(w http.ResponseWriter, r *http.Request) {
	d.billWith(w, r, r.URL.Query(), nil)
}

func (d *desk) billWith(w http.ResponseWriter, r *http.Request, of url.Values, problem error) {
	p := billPage{scope: d.scopeOf(r), Declines: sandbox.DeclineCodes()}
	key, status := p.key(of.Get("partner")), http.StatusOK
	var err error
	if p.Bill, err = d.Bill(key, of.Get("bill")); key == "" || err != nil {
		d.site.Refuse(w, r, http.StatusNotFound, "bill.gone")
		return
	}
	p.Query = url.Values{"partner": {p.ID(key)}, "bill": {p.Bill.ID}}.Encode()
	if problem != nil {
		p.Problem, status = problem.Error(), http.StatusConflict
	}
	for _, x := range d.exchanges(p.scope) {
		if x.Partner == key && x.Bill == p.Bill.ID {
			p.Calls = append(p.Calls, x)
		}
	}
	for _, c := range d.Service.Callbacks() {
		if c.Partner == key && c.BillID == p.Bill.ID {
			p.Callbacks = append(p.Callbacks, c)
		}
	}
	d.site.PageWithStatus(w, r, status, "bill", p)
}

// changeBill does to a bill what customers, card companies and time do.
func (d *desk) changeBill(w http.ResponseWriter, r *http.Request) {
	key, id := d.scopeOf(r).key(r.PostFormValue("partner")), r.PostFormValue("bill")
	var err error
	switch do := r.PathValue("do"); {
	case key == "": // the page says that there is no such bill
	case do == "pay":
		err = d.Pay(key, id)
	case do == "fail":
		_, err = d.Fail(key, id, r.PostFormValue("code"))
	case do == "expire":
		_, err = d.Expire(key, id)
	case do == "cancel":
		_, err = d.Cancel(key, id)
	case do == "notify":
		err = d.Notify(key, id)
	}
	if err != nil || key == "" {
		d.billWith(w, r, r.PostForm, err)
		return
	}
	back := url.Values{"partner": {r.PostFormValue("partner")}, "bill": {id}}
	http.Redirect(w, r, "/desk/bill?"+back.Encode(), http.StatusSeeOther)
}
