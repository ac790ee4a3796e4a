package web

import (
	"net/http"
	"slices"

	"billbridge/proxy/sandbox"
)

// bills shows the bills of the visitor, the newest first.
func (d *desk) bills(w http.ResponseWriter, r *http.Request) {
	list(d, w, r, "bills", d.Bills(), func(b sandbox.Bill) map[string]string {
		return map[string]string{"partner": b.Partner, "state": b.State, "bill": b.ID}
	})
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
	partner := scopeOf(r).find(r.PostFormValue("partner"), "")
	do := map[string]func(partnerKey, billID string) error{
		"pay": d.Pay, "notify": d.Notify, "expire": without(d.Expire), "cancel": without(d.Cancel),
	}[r.PathValue("do")]
	if partner.ID == "" || do == nil {
		d.site.Refuse(w, r, http.StatusNotFound, "bill.gone")
		return
	}
	d.changed(w, r, "/desk/bill?"+r.PostForm.Encode(), do(partner.key, r.PostFormValue("bill")))
}

// without leaves the bill of a reply out.
func without(do func(partnerKey, billID string) (sandbox.Bill, error)) func(string, string) error {
	return func(key, id string) error {
		_, err := do(key, id)
		return err
	}
}

// changed ends a change: it leads to a page, or says why the change was refused.
func (d *desk) changed(w http.ResponseWriter, r *http.Request, to string, err error) {
	if err != nil {
		d.site.Fail(w, r, http.StatusConflict, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
