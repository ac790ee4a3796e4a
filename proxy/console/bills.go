package console

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"billbridge/proxy"
	"billbridge/proxy/relay"
	"billbridge/proxy/rollout"
)

// A billsPage is the data of the page bills.
type billsPage struct {
	Bill, Partner string   // what was looked for; the partner by its name or its digits
	Partners      []string // the names of the config
	Problem       string   // of what was looked for
	WrongID       bool     // the bill cannot exist

	Ledger    []rollout.BillLine // of the bill
	Unknown   []rollout.BillLine // writes with an unknown outcome: of the bill, or all
	LeftOut   int                // more unknown outcomes
	Callbacks []relay.Listed     // of the bill
	Calls     []*call            // of the bill, as far as the console keeps them
	Kept      int                // how many calls the console keeps

	HasCallbacks bool
	Read         *rollout.Bill // what a read showed just now
	NotAsked     bool          // the read was not possible: the key of the partner is not known
}

// ofOneBill is the most calls of a bill that the page shows.
const ofOneBill = 100

// bills shows writes with an unknown outcome, or what is known of one bill.
func (c *Console) bills(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c.showBills(w, r, &billsPage{Bill: strings.TrimSpace(q.Get("bill")), Partner: strings.TrimSpace(q.Get("partner"))})
}

// readBill reads a bill at its backend, and shows the result.
func (c *Console) readBill(w http.ResponseWriter, r *http.Request) {
	page := &billsPage{Bill: strings.TrimSpace(r.PostFormValue("bill")), Partner: strings.TrimSpace(r.PostFormValue("partner"))}
	q := without(url.Values{"bill": {page.Bill}, "partner": {c.partnerID(page.Partner)}, "member": {r.PostFormValue("member")}, "merchant": {r.PostFormValue("merchant")}})
	var read rollout.Bill
	err := c.call(r, c.options.Rollout, http.MethodPost, "/rollout/read?"+q.Encode(), nil, &read)
	if problem, ok := problemOf(err, http.StatusNotFound); ok {
		page.Problem, err = problem, nil
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	if page.Problem == "" {
		page.Read, page.NotAsked = &read, read.ReadAs == nil
	}
	c.showBills(w, r, page)
}

// showBills completes the page and writes it.
func (c *Console) showBills(w http.ResponseWriter, r *http.Request, page *billsPage) {
	page.Partners, page.HasCallbacks, page.Kept = c.partnerNames(), c.options.Callbacks != nil, maxCalls
	if strings.ContainsRune(page.Bill, 0) || !utf8.ValidString(page.Bill) { // the store takes no such id
		page.WrongID, page.Bill = true, ""
	}
	if err := c.findBills(r, page); err != nil {
		problem, ok := problemOf(err, http.StatusNotFound)
		if !ok {
			c.fail(w, r, err)
			return
		}
		page.Problem = problem
	}
	c.page(w, r, "bills", page)
}

// findBills finds what the ledger, the callbacks and the console have of the bill.
func (c *Console) findBills(r *http.Request, page *billsPage) error {
	digits := c.partnerID(page.Partner)
	of := without(url.Values{"bill": {page.Bill}, "partner": {digits}})
	get := func(api http.Handler, path, more string, answer any) error {
		return c.call(r, api, http.MethodGet, path+"?"+of.Encode()+more, nil, answer)
	}
	var unknown, ledger rollout.BillList
	if err := get(c.options.Rollout, "/rollout/bills", "&outcome=unknown&limit=200", &unknown); err != nil {
		return err
	}
	page.Unknown, page.LeftOut = unknown.Bills, unknown.LeftOut
	if page.Bill == "" {
		return nil
	}
	if err := get(c.options.Rollout, "/rollout/bills", "&limit=100", &ledger); err != nil {
		return err
	}
	page.Ledger = ledger.Bills
	page.Calls, _ = c.ring.list(func(f *proxy.Finished) bool {
		return f.Bill == page.Bill && (digits == "" || f.Partner != "" && strings.HasPrefix(digits, string(f.Partner)))
	}, 0, ofOneBill)
	if !page.HasCallbacks {
		return nil
	}
	var callbacks relay.Page
	if err := get(c.options.Callbacks, "/callbacks/page", "&limit=100", &callbacks); err != nil {
		return err
	}
	page.Callbacks = callbacks.Callbacks
	return nil
}

// Owners are the partners of the bill, for the button that reads it.
func (p *billsPage) Owners() (owners []string) {
	seen := map[string]bool{}
	add := func(id string) {
		if id = id[:min(len(id), 12)]; id != "" && !seen[id] {
			seen[id], owners = true, append(owners, id)
		}
	}
	for _, b := range p.Ledger {
		add(b.Partner)
	}
	for _, b := range p.Callbacks {
		add(b.Partner)
	}
	for _, call := range p.Calls {
		add(string(call.Partner))
	}
	return owners
}
