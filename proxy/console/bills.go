package console

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"billbridge/proxy"
	"billbridge/proxy/operate"
)

// A billsPage is the data of the page bills.
type billsPage struct {
	Bill, Partner string   // what was looked for; the partner by its name or its digits
	Partners      []string // the names of the config
	This          string   // the address of the page, for refreshes; "" if it shows a problem or the result of a read
	Problem       string   // of what was looked for
	WrongID       bool     // the bill cannot exist

	Ledger    []operate.BillLine // of the bill
	Unknown   []operate.BillLine // writes with an unknown outcome: of the bill, or all
	LeftOut   int                // more unknown outcomes
	Reading   int                // of Unknown: those that a gateway reads now
	Resolved  []operate.BillLine // writes whose outcome a read has resolved: of the bill, or the last ones
	Doubled   []operate.BillLine // bills that both backends have: the bill, or all
	Callbacks []operate.Callback // of the bill
	Calls     []*call            // of the bill, as far as the console keeps them

	HasCallbacks bool
	Read         *operate.Bill // what a read showed just now
	NotAsked     bool          // the read was not possible: the key of the partner is not known
}

// ofOneBill is the most calls of a bill that the page shows.
const ofOneBill = 100

// bills shows writes with an unknown outcome, or what is known of one bill.
func (c *Console) bills(r *http.Request) (answer, error) {
	q := r.URL.Query()
	page := billsPage{Bill: strings.TrimSpace(q.Get("bill")), Partner: strings.TrimSpace(q.Get("partner"))}
	return c.showBills(r, &page)
}

// readBill reads a bill at both backends, and shows the result.
func (c *Console) readBill(r *http.Request) (a answer, err error) {
	page := &billsPage{
		Bill: strings.TrimSpace(r.PostFormValue("bill")), Partner: strings.TrimSpace(r.PostFormValue("partner")),
	}
	read, err := ask(r, c.Operator.Read, operate.BillRef{
		PartnerRef: operate.PartnerRef{Partner: c.partnerID(page.Partner)}, Bill: page.Bill,
		Member: r.PostFormValue("member"), Merchant: r.PostFormValue("merchant"),
	})
	if problem, ok := problemOf(err, operate.NotFound); ok {
		page.Problem, err = problem, nil
	}
	if err != nil {
		return a, err
	}
	if page.Problem == "" {
		page.Read, page.NotAsked = &read, read.ReadAs == nil
	}
	return c.showBills(r, page)
}

// resolvedShown is the most writes with a resolved outcome that the page shows.
const resolvedShown = 20

// readAllBills makes the gateways read the bills of all writes with an unknown outcome.
func (c *Console) readAllBills(r *http.Request) (a answer, err error) {
	partner := strings.TrimSpace(r.PostFormValue("partner"))
	if _, err := ask(r, c.Operator.ReadAll, operate.PartnerRef{Partner: c.partnerID(partner)}); err != nil {
		return a, err
	}
	return goTo("/bills?" + without(url.Values{"partner": {partner}}).Encode())
}

// showBills completes the page and writes it.
func (c *Console) showBills(r *http.Request, page *billsPage) (a answer, err error) {
	page.Partners, page.HasCallbacks = c.partnerNames(), c.Operator.Relay != nil
	if strings.ContainsRune(page.Bill, 0) || !utf8.ValidString(page.Bill) { // the store takes no such id
		page.WrongID, page.Bill = true, ""
	}
	if err := c.findBills(r, page); err != nil {
		problem, ok := problemOf(err, operate.NotFound)
		if !ok {
			return a, err
		}
		page.Problem = problem
	}
	// Without a partner the page is not refreshed: if many partners have a bill with this id, each search reads the
	// whole ledger.
	if page.Problem == "" && !page.WrongID && page.Read == nil && (page.Bill == "" || page.Partner != "") {
		page.This = "/bills?" + without(url.Values{"bill": {page.Bill}, "partner": {page.Partner}}).Encode()
	}
	return show("bills", page)
}

// findBills finds what the ledger, the callbacks and the console have of the bill.
func (c *Console) findBills(r *http.Request, page *billsPage) (err error) {
	digits := c.partnerID(page.Partner)
	of := operate.PartnerRef{Partner: digits}
	list := func(f operate.BillFilter) (found operate.BillList) {
		if f.PartnerRef, f.Bill = of, page.Bill; err == nil {
			found, err = ask(r, c.Operator.Bills, f)
		}
		return found
	}
	page.Doubled = list(operate.BillFilter{Doubled: true, Limit: operate.AtMost(200)}).Bills
	unknown := list(operate.BillFilter{Outcome: "unknown", Limit: operate.AtMost(200)})
	page.Unknown, page.LeftOut = unknown.Bills, unknown.LeftOut
	for _, b := range page.Unknown {
		if at := b.NextRead; at != nil && !at.After(c.Now()) {
			page.Reading++
		}
	}
	page.Resolved = list(operate.BillFilter{Outcome: "resolved", Limit: operate.AtMost(resolvedShown)}).Bills
	if page.Bill == "" {
		return err
	}
	if page.Ledger = list(operate.BillFilter{}).Bills; err != nil {
		return err
	}
	page.Calls, _ = c.ring.list(func(f *proxy.Finished) bool {
		return f.Bill == page.Bill && (digits == "" || f.Partner != "" && strings.HasPrefix(digits, string(f.Partner)))
	}, 0, ofOneBill)
	if !page.HasCallbacks {
		return nil
	}
	callbacks, err := ask(
		r, c.Operator.Callbacks,
		operate.CallbackFilter{PartnerRef: of, Bill: page.Bill, Limit: operate.AtMost(100)},
	)
	if err != nil {
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
