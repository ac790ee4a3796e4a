package console

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"billbridge/proxy"
	"billbridge/proxy/operate"
)

// A billsPage is the data of the page bills.
type billsPage struct {
	list
	Bill    string // that was looked for
	This    string // the address of the page, for refreshes; "" if it shows a problem or the result of a read
	WrongID bool   // the bill cannot exist

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

// resolvedShown is the most writes with a resolved outcome that the page shows.
const resolvedShown = 20

// readAllBills makes the gateways read the bills of all writes with an unknown outcome.
func (c *Console) readAllBills(r *http.Request) (a answer, err error) {
	l := c.listOf(r, "/bills", "partner")
	_, err = ask(r, c.Operator.ReadAll, operate.PartnerRef{Partner: c.partnerID(l.Filter.Get("partner"))})
	return answer{to: l.With()}, err
}

// bills shows writes with an unknown outcome, or what is known of one bill. With POST the bill is read at both backends
// before.
func (c *Console) bills(r *http.Request) (a answer, err error) {
	page := billsPage{list: c.listOf(r, "/bills", "bill", "partner"), HasCallbacks: c.Operator.Relay != nil}
	page.Bill = page.Filter.Get("bill")
	of := operate.PartnerRef{Partner: c.partnerID(page.Filter.Get("partner"))}
	if r.Method == http.MethodPost {
		read, err := ask(r, c.Operator.Read, operate.BillRef{
			PartnerRef: of, Bill: page.Bill, Member: r.PostFormValue("member"), Merchant: r.PostFormValue("merchant"),
		})
		if a, err = withProblem(r, a, &page.Problem, err, operate.NotFound); err != nil {
			return a, err
		}
		if page.Problem == "" {
			page.Read, page.NotAsked = &read, read.ReadAs == nil
		}
	}
	if strings.ContainsRune(page.Bill, 0) || !utf8.ValidString(page.Bill) { // the store takes no such id
		page.WrongID, page.Bill = true, ""
	}
	if a, err = withProblem(r, a, &page.Problem, c.findBills(r, &page, of), operate.NotFound); err != nil {
		return a, err
	}
	// Without a partner the page is not refreshed: if many partners have a bill with this id, each search reads the
	// whole ledger.
	if page.Problem == "" && !page.WrongID && page.Read == nil && (page.Bill == "" || of.Partner != "") {
		page.This = page.With()
	}
	return show("bills", &page)
}

// findBills finds what the ledger, the callbacks and the console have of the bill, or of all.
func (c *Console) findBills(r *http.Request, page *billsPage, of operate.PartnerRef) (err error) {
	list := func(f operate.BillFilter) operate.BillList {
		f.PartnerRef, f.Bill = of, page.Bill
		return askNext(r, &err, c.Operator.Bills, f)
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
	page.Ledger = list(operate.BillFilter{}).Bills
	page.Calls, _ = c.ring.list(func(f *proxy.Finished) bool {
		return f.Bill == page.Bill &&
			(of.Partner == "" || f.Partner != "" && strings.HasPrefix(of.Partner, string(f.Partner)))
	}, 0, ofOneBill)
	if page.HasCallbacks {
		f := operate.CallbackFilter{PartnerRef: of, Bill: page.Bill, Limit: operate.AtMost(100)}
		page.Callbacks = askNext(r, &err, c.Operator.Callbacks, f).Callbacks
	}
	return err
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
