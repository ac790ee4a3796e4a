package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
)

// A BillList is what [Store.Bills] lists.
type BillList string

// The lists. All but the first have the last first.
const (
	AllBills      BillList = ""
	UnknownBills  BillList = "unknown"  // with a write whose outcome is unknown
	UnclearBills  BillList = "unclear"  // those of proven partners whose write ended before a time
	ResolvedBills BillList = "resolved" // with a write whose outcome was resolved
	DoubledBills  BillList = "doubled"  // both upstreams have it
)

// A BillFilter selects bills. A field with its zero value excludes none.
type BillFilter struct {
	List          BillList
	UnclearBefore time.Time
	PartnerPrefix partner.ID // as in Filter
	Bill          string
	Upstream      string
	Due           time.Time // only those of proven partners whose read is due then
	Open          bool      // only pending and owned bills that are neither over nor ended, as in OpenBills
	Now           time.Time // when a bill is over
	Limit         int       // at most so many; must be positive
}

// countAtMost is the most bills that are counted.
const countAtMost = 10_000

// Bills returns bills and the number of all that the filter selects, which is exact up to countAtMost.
func (s *Store) Bills(ctx context.Context, f BillFilter) (list []ledger.Bill, all int, err error) {
	if err := checkPrefix(f.PartnerPrefix); f.PartnerPrefix != "" && err != nil {
		return nil, 0, err
	}
	if f.Limit < 1 || f.Now.IsZero() {
		return nil, 0, fmt.Errorf("%w: a list of bills needs a limit and the time now, not %d and %s",
			ErrFilter, f.Limit, f.Now.Format(time.RFC3339))
	}
	switch f.List {
	case AllBills, UnknownBills, UnclearBills, ResolvedBills, DoubledBills:
	default:
		return nil, 0, fmt.Errorf("%w: there is no list %q of bills", ErrFilter, f.List)
	}
	if _, err := read(ctx, s.db, "listing bills", func(q tx) partner.ID {
		return onePartner(q, f.PartnerPrefix, fitting("billbridge_bills"))
	}); err != nil {
		return nil, 0, err
	}
	from := &billPlace{}
	f.UnclearBefore, f.Due = s.stamp(f.UnclearBefore), s.stamp(f.Due)
	for from != nil && (len(list) < f.Limit || all < countAtMost) {
		part, err := read(ctx, s.db, "listing bills", func(q tx) billPart {
			return f.part(q, s.each, *from, f.Limit-len(list))
		})
		if err != nil {
			return nil, 0, err
		}
		list, all, from = append(list, part.bills...), all+part.all, part.next
	}
	return list, all, nil
}

// A billPlace is the place of a row in a list.
type billPlace struct {
	At      int64 // 0 in the list of all
	Partner partner.ID
	Bill    string
}

// A billPart is what one step of a list reads.
type billPart struct {
	bills []ledger.Bill
	all   int
	next  *billPlace // after which the next step begins; nil after the last
}

// part reads the part of a list after a place, and returns some of its bills.
func (f BillFilter) part(q tx, each string, after billPlace, some int) (p billPart) {
	var c conditions // first those of the rows of an index, in its order
	order, column := "partner, bill", "0"
	switch all := f.List == AllBills; {
	case all && f.Bill != "": // the index begins with the partner: each is looked up, and then its bill
		from := max(after.Partner, f.PartnerPrefix) // hexadecimal digits
		found := list[partner.ID](q, "SELECT partner FROM ("+partnersOf("billbridge_bills", "'"+string(from)+"'",
			"'"+string(beyond(f.PartnerPrefix))+"'")+`) AS known WHERE partner > $1 AND (
			SELECT b.bill FROM billbridge_bills b WHERE b.partner = known.partner AND b.bill = $2) IS NOT NULL`,
			after.Partner, f.Bill)
		c.add("bill = %s", f.Bill)
		c.add("partner "+each, texts(found))
	case all:
		c.add("(partner, bill) > (%s, %s) AND partner < %s", max(after.Partner, f.PartnerPrefix), after.Bill,
			beyond(f.PartnerPrefix))
	default:
		if column = string(f.List); f.List == UnclearBills {
			column = string(UnknownBills)
			c.add("unknown < %s", f.UnclearBefore)
		}
		order = column + " DESC, partner DESC, bill DESC"
		if c.add(column + " IS NOT NULL"); after.Partner != "" {
			c.add("("+column+", partner, bill) < (%s, %s, %s)", after.At, after.Partner, after.Bill)
		}
	}
	rows := fmt.Sprintf(" FROM billbridge_bills WHERE %s ORDER BY %s LIMIT ", c, order)
	if last, more := find[billPlace](q, fmt.Sprintf("SELECT %s, partner, bill%s1 OFFSET %d", column, rows, examined-1),
		c.args...); more {
		p.next = &last
	}
	c.all = nil
	// Now those of the bills among these rows.
	if f.List == AllBills {
		c.add("upstream <> ''")
	} else {
		c.add("partner >= %s AND partner < %s", f.PartnerPrefix, beyond(f.PartnerPrefix))
		c.given("bill = %s", f.Bill)
	}
	if f.List == UnclearBills || !f.Due.IsZero() {
		c.add(proven)
	}
	c.given("due <= %s", f.Due)
	c.given("upstream = %s", f.Upstream)
	if f.Open {
		c.add("state IN ('pending', 'owned') AND ended IS NULL AND ends > %s", f.Now)
	}
	from := fmt.Sprintf(" FROM (SELECT *%s%d) AS part WHERE %s", rows, examined, c)
	selected := fmt.Sprintf("SELECT "+billColumns+from+" ORDER BY %s LIMIT %d", order, max(some, 0))
	for _, row := range list[billRow](q, selected, c.args...) {
		p.bills = append(p.bills, opened(q, row, billRow.bill))
	}
	p.all = value[int](q, "SELECT count(*)"+from, c.args...)
	return p
}

// proven is true for the rows "part" of partners whose key is valid. Rows of invented keys are never read.
const proven = "(SELECT p.partner FROM billbridge_proven p WHERE p.partner = part.partner) IS NOT NULL"

// AskedFor is the next read of a bill that PlanReads has planned. It is before those that the gateway plans by itself.
var AskedFor = time.UnixMilli(-1).UTC()

// Due is until when reads are due: of bills, as the ledger says, and of those whose callbacks may be lost. Zero: none
// is.
type Due struct{ Bills, Looks time.Time }

// A DuePartner has bills whose next read is due.
type DuePartner struct {
	ID      partner.ID
	Awaited bool      // the ledger awaits one of the reads
	Look    time.Time // since when the first read for a callback is due; zero: none is
}

// DueReads returns the partners that have bills whose next read is due. Bills of invented keys are never read.
func (s *Store) DueReads(ctx context.Context, d Due) ([]DuePartner, error) {
	const bill = "(" + firstDue + " = p.partner AND due <= $1 ORDER BY due LIMIT 1) IS NOT NULL"
	const look = "(SELECT look" + looksOf + " = p.partner AND look > $2 AND look <= $3 ORDER BY look LIMIT 1)"
	return readAll[DuePartner](ctx, s.db, "finding reads that are due", "SELECT p.partner, "+bill+", "+look+
		" FROM billbridge_proven p WHERE "+bill+" OR "+look+" IS NOT NULL ORDER BY p.partner",
		s.stamp(d.Bills), s.stamp(d.Looks).Add(-lookLost), s.stamp(d.Looks))
}

// The bills of a partner whose reads are due. No other index has the expression, whatever the statistics say.
const (
	firstDue  = "SELECT bill FROM billbridge_bills WHERE CAST(partner || '' AS TEXT)"
	firstLook = "SELECT bill" + looksOf
	looksOf   = " FROM billbridge_addresses WHERE bill <> '' AND CAST(partner || '' AS TEXT)"
)

const (
	// claimLasts is how long a gateway has for a claimed read before another one makes it.
	claimLasts = 5 * time.Minute
	// lookLost is how long a look can be overdue: bills of the time before looks were made are left out.
	lookLost = 30 * 24 * time.Hour
)

// A Read is a bill that a gateway reads for all who ask for that.
type Read struct {
	Bill  ledger.Bill
	Looks []Look    // that are due
	At    time.Time // of the claim, by the clock that gateways share; zero if no read is due
}

// ClaimRead returns the bill of a partner whose read has been due for longest, first of those that the ledger awaits,
// and keeps others from reading it until its [ledger.ReadEnded] and [Store.EndLook], or for claimLasts.
func (s *Store) ClaimRead(ctx context.Context, id partner.ID, d Due, now time.Time) (Read, error) {
	at := asStored(s.stamp(now))
	return write(ctx, s.db, "claiming a read", func(q tx) (r Read) {
		s.lock(q, shared, claims) // see betweenClaims
		s.lock(q, exclusive, "reads", string(id))
		bill, found := find[string](q, firstDue+" = $1 AND due <= $2 ORDER BY due LIMIT 1", id, s.stamp(d.Bills))
		until := s.stamp(d.Looks)
		since := until.Add(-lookLost)
		if !found {
			bill, found = find[string](q, firstLook+" = $1 AND look > $2 AND look <= $3 ORDER BY look LIMIT 1",
				id, since, until)
		}
		if !found {
			return r
		}
		r.Bill, r.At = ledger.Bill{Partner: id, ID: bill}, at
		claimed := ledger.Event{Call: ledger.Call{At: now}, What: ledger.Claimed{For: claimLasts}}
		r.Bill = s.apply(q, r.Bill, []ledger.Event{claimed}).Bill
		for _, row := range list[Look](q, `
			UPDATE billbridge_addresses SET look = $5 WHERE partner = $1 AND bill = $2 -- by this index
				AND COALESCE(look, 0) > $3 AND COALESCE(look, 0) <= $4 RETURNING `+sealedAddress,
			id, bill, since, until, at.Add(claimLasts)) {
			switch l, err := s.keyring.address(row); {
			case err == nil:
				r.Looks = append(r.Looks, l)
			case r.Bill.Due.IsZero():
				q.refuse(err) // the claim stays: others come first
			}
		}
		return r
	})
}

// PlanReads makes a read of each bill with an unknown outcome due, of the partners that a prefix fits; "" is all of
// them. It works in batches, as Sweep does.
func (s *Store) PlanReads(ctx context.Context, prefix partner.ID) error {
	_, err := s.sweep(ctx, sweep{
		table: "bills", rows: "true", by: "unknown", before: endOfTime, pause: pause,
		only:   "partner >= $4 AND partner < $5 AND " + proven + " AND (due IS NULL OR due > CAST($3 AS BIGINT))",
		change: "UPDATE billbridge_bills SET due = CAST($3 AS BIGINT), version = version + 1",
		args:   []any{AskedFor, prefix, beyond(prefix)},
	})
	return err
}

// Interrupted records the creates that were recorded before a time and never completed, because their gateway ended:
// see [ledger.Interrupted].
func (s *Store) Interrupted(ctx context.Context, before time.Time, what ledger.Interrupted) error {
	event := ledger.Event{Call: ledger.Call{At: before}, What: what}
	return inParts(ctx, s.db, "finding interrupted creates", AllPartners,
		"SELECT "+billColumns+" FROM %s WHERE state = 'pending' OR also_at <> ''", func(row billRow) error {
			b, err := row.bill()
			if err == nil && len(b.Creates) > 0 {
				_, _, err = s.Apply(ctx, b, event)
			}
			return err
		})
}

// inParts reads the ledger of the partners of a range in parts, whose place in a query has the verb. The arguments of
// the query begin with $4.
func inParts[T any](
	ctx context.Context, s *db, doing string, in Range, query string, do func(T) error, args ...any,
) error {
	const rows = ` FROM billbridge_bills WHERE (partner, bill) > ($1, $2) AND partner < $3
		ORDER BY partner, bill LIMIT `
	type part struct {
		found []T
		next  billPlace
		more  bool
	}
	query = strings.ReplaceAll(query, "%s", fmt.Sprintf("(SELECT *%s%d) AS part", rows, examined))
	for p := (part{next: billPlace{Partner: in.From}, more: true}); p.more; {
		place := []any{p.next.Partner, p.next.Bill, in.Before}
		var err error
		if p, err = read(ctx, s, doing, func(q tx) (p part) {
			last := fmt.Sprintf("SELECT 0, partner, bill%s1 OFFSET %d", rows, examined-1)
			p.next, p.more = find[billPlace](q, last, place...)
			p.found = list[T](q, query, append(place, args...)...)
			return p
		}); err != nil {
			return err
		}
		for _, one := range p.found {
			if err := do(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// Dismiss resolves the outcomes of the writes of a bill because an operator knows them, and returns their number.
// Without a merchant the error is [ledger.ErrMerchants] if they are of several.
func (s *Store) Dismiss(
	ctx context.Context, id partner.ID, bill, merchant string, by Author, now time.Time,
) (n int, err error) {
	if err := checkDecision(by, now); err != nil {
		return 0, err
	}
	var refused error
	n, err = write(ctx, s.db, "dismissing an unknown outcome", func(q tx) (n int) {
		s.lock(q, shared, claims) // see betweenClaims
		was := storedBill(q, id, bill)
		after := s.apply(q, was, []ledger.Event{{
			Call: ledger.Call{At: now, Merchant: merchant}, What: ledger.Dismissed{By: by.Name, Finding: Dismissed},
		}})
		refused = after.err
		if n = was.Unresolved() - after.Unresolved(); n > 0 {
			audited(q, Change{
				Action: OutcomeDismissed, By: by.Name, Reason: by.Reason, At: now, Partner: id, Subject: bill,
			})
		}
		return n
	})
	return n, cmp.Or(err, refused)
}

// Dismissed is the finding of a write whose outcome an operator has resolved without a read.
const Dismissed = "dismissed"
