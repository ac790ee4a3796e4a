package web

import (
	"net/http"
	"slices"

	"billbridge/proxy/sandbox"
)

// A billsPage is the data of the page bills.
type billsPage struct {
	scope
	Filter filter
	Rows   []sandbox.Bill
}

// bills shows the bills of the visitor, the newest first.
func (d *desk) bills(w http.ResponseWriter, r *http.Request) {
	f := filter{r.URL.Query()}
	p := billsPage{scope: scopeOf(r), Filter: f}
	p.Rows = newest(d.Bills(), func(b sandbox.Bill) bool {
		return p.sees(b.Partner) && f.has("partner", p.Of(b.Partner).ID) && f.has("state", b.State) &&
			f.has("bill", b.ID)
	})
	p.Rows = p.Rows[:min(len(p.Rows), shownCalls)]
	d.site.Page(w, r, "bills", p)
}

// A billPage is the data of the page bill.
type billPage struct {
	scope
	sandbox.Bill
	Query     string // of the page
	Calls     []sandbox.Exchange
	Callbacks []sandbox.Callback
}

// bill shows the bill of a query.
func (d *desk) bill(w http.ResponseWriter, r *http.Request) {
	p := billPage{scope: scopeOf(r), Query: r.URL.Query().Encode()}
	key := p.find(r.FormValue("partner"), "").key
	var err error
	if p.Bill, err = d.Bill(key, r.FormValue("bill")); key == "" || err != nil {
		d.site.Refuse(w, r, http.StatusNotFound, "bill.gone")
		return
	}
	p.Calls = newest(d.Exchanges(), func(x sandbox.Exchange) bool { return x.Partner == key && x.Bill == p.ID })
	p.Callbacks = slices.DeleteFunc(d.Service.Callbacks(), func(c sandbox.Callback) bool {
		return c.Partner != key || c.BillID != p.ID
	})
	d.site.Page(w, r, "bill", p)
}

// changeBill does to a bill what customers, card companies and time do.
func (d *desk) changeBill(w http.ResponseWriter, r *http.Request) {
	partner, id := scopeOf(r).find(r.PostFormValue("partner"), ""), r.PostFormValue("bill")
	if partner.ID == "" {
		d.site.Refuse(w, r, http.StatusNotFound, "bill.gone")
		return
	}
	var err error
	switch key := partner.key; r.PathValue("do") {
	case "pay":
		err = d.Pay(key, id)
	case "expire":
		_, err = d.Expire(key, id)
	case "cancel":
		_, err = d.Cancel(key, id)
	case "notify":
		err = d.Notify(key, id)
	}
	d.changed(w, r, "/desk/bill?"+r.PostForm.Encode(), err)
}

// changed ends a change: it leads to a page, or says why the change was refused.
func (d *desk) changed(w http.ResponseWriter, r *http.Request, to string, err error) {
	if err != nil {
		d.site.Fail(w, r, http.StatusConflict, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
