package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"billbridge/proxy/partner"
)

// An UnknownWrite is a write of a bill that ended without an answer, so that its outcome is unknown.
type UnknownWrite struct {
	Partner   partner.ID // as in Owner
	Bill      string
	Operation string
	Upstream  string    // where it was sent
	Request   string    // the id of the call; "" if it is not known
	At        time.Time // when it ended without an answer
	Read      Reading
}

// A Reading is what a read showed of a bill.
type Reading struct {
	Finding       string // in the words of the caller of this package; never empty
	State, Amount string // "" if the read did not show the bill
	At            time.Time
}

// RecordUnknown records a write whose outcome is unknown, once for each operation of a bill: a later one takes its
// place. It stays until RecordRead resolves it.
func (s *Store) RecordUnknown(ctx context.Context, w UnknownWrite) error {
	ctx = patient(ctx)
	if err := ownable(w.Partner, w.Bill, w.At, w.Upstream, w.Operation, w.Read.Finding); err != nil {
		return err
	}
	return s.exec(ctx, "recording an unknown outcome", `
		INSERT INTO billbridge_unknown (partner, bill, operation, upstream, request, at, finding, state, amount,
			read_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (partner, bill, operation) DO UPDATE SET upstream = excluded.upstream,
			request = excluded.request, at = excluded.at,
			finding = excluded.finding, state = excluded.state, amount = excluded.amount, read_at = excluded.read_at`,
		w.Partner, w.Bill, printable(w.Operation), w.Upstream, printable(w.Request), s.stamp(w.At),
		printable(w.Read.Finding), printable(w.Read.State), printable(w.Read.Amount), w.Read.At)
}

// RecordRead records what a read of a bill at an upstream showed; r.At is when the read was sent. Writes that ended
// at resolves or before cannot take effect later, so that the read resolves their outcome. ended means that the bill
// is destroyed or cancelled, which is final: all its outcomes are resolved, and an owned bill does not count as open
// any more.
//
// A read that showed no bill resolves only creates, and only if the bill has no owner: the bill may belong to another
// merchant.
func (s *Store) RecordRead(
	ctx context.Context, partner partner.ID, bill, upstream string, r Reading, resolves time.Time, ended bool,
) error {
	if err := ownable(partner, bill, r.At, upstream); err != nil {
		return err
	}
	r.At, resolves = s.stamp(r.At), s.stamp(resolves) // they are compared with times of other gateways
	if ended {
		resolves = r.At
	}
	return s.update(ctx, "recording what a read showed", func(q tx) {
		if ended {
			q.exec(`
				UPDATE billbridge_owners SET ended = $4
				WHERE partner = $1 AND bill = $2 AND upstream = $3 AND state = 'owned' AND ended IS NULL
					AND coalesce(tried, changed) <= $4`, partner, bill, upstream, r.At)
		}
		q.exec(`
			DELETE FROM billbridge_unknown WHERE partner = $1 AND bill = $2 AND upstream = $3 AND at <= $4
				AND ($5 <> '' OR operation = 'bill.create' AND NOT EXISTS (
					SELECT 1 FROM billbridge_owners o WHERE o.partner = $1 AND o.bill = $2 AND o.state = 'owned'))`,
			partner, bill, upstream, resolves, printable(r.State))
		q.exec(`
			UPDATE billbridge_unknown SET finding = $4, state = $5, amount = $6, read_at = $7
			WHERE partner = $1 AND bill = $2 AND upstream = $3`,
			partner, bill, upstream, printable(r.Finding), printable(r.State), printable(r.Amount), r.At)
	})
}

// MarkDoubled records that a bill is at both upstreams, by the call that showed it: its operation and its id. first
// is false if that was recorded before; then nothing is written. Assign removes the mark.
func (s *Store) MarkDoubled(
	ctx context.Context, partner partner.ID, bill, operation, request string, now time.Time,
) (first bool, err error) {
	if err := ownable(partner, bill, now); err != nil {
		return false, err
	}
	return write(ctx, s, "recording that a bill is at both upstreams", func(q tx) bool {
		return q.exec(`
			INSERT INTO billbridge_doubled (partner, bill, operation, request, at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (partner, bill) DO NOTHING`,
			partner, bill, printable(operation), printable(request), s.stamp(now)) == 1
	})
}

// DoubledBills returns the bills that are marked by MarkDoubled, the last first, each with the call that showed it,
// and the number of all that the filter selects.
func (s *Store) DoubledBills(ctx context.Context, f BillFilter) (list []ListedBill, all int, err error) {
	return s.listBills(ctx, f, `
		SELECT d.partner, d.bill, coalesce(o.upstream, '') AS upstream, coalesce(o.state, '') AS state,
			coalesce(length(o.creates), 0) / 17 AS creates, coalesce(o.uncertain, 0) AS uncertain,
			o.changed, o.tried, o.ends, o.ended, 1 AS unknown,
			d.partner AS of_partner, d.bill AS of_bill, d.operation, '' AS target, d.request, d.at,
			'at both backends' AS finding, '' AS shown, '' AS amount, d.at AS read_at
		FROM billbridge_doubled d LEFT JOIN billbridge_owners o ON o.partner = d.partner AND o.bill = d.bill`,
		"at DESC, partner, bill")
}

// SweepUnknown removes writes with an unknown outcome that ended before a time, and returns their number.
func (s *Store) SweepUnknown(ctx context.Context, before time.Time) (n int, err error) {
	return s.sweep(ctx, `
		DELETE FROM billbridge_unknown WHERE (partner, bill, operation) IN (
			SELECT partner, bill, operation FROM billbridge_unknown WHERE at < $1 ORDER BY at`, before)
}

// A BillFilter selects bills. A field with its zero value excludes none.
type BillFilter struct {
	PartnerPrefix partner.ID // as in Filter
	Bill          string
	Upstream      string
	Open          bool      // only pending and owned bills that are neither over nor ended, as in Bills
	Now           time.Time // when a bill is over
	Limit         int       // at most so many; must be positive
}

// A ListedBill is a bill of the ledger. State is "" if it is listed for a write and the ledger does not have it.
type ListedBill struct {
	Owner
	// only from UnknownOutcomes and DoubledBills, else zero; without Request and Read if the create was cut off with
	// its process
	Write UnknownWrite
}

// ListBills returns bills of the ledger, sorted by partner and bill, and the number of all that the filter selects.
// Without a bill it reads all rows of the partners that the filter selects.
func (s *Store) ListBills(ctx context.Context, f BillFilter) (list []ListedBill, all int, err error) {
	return s.listBills(ctx, f, `
		SELECT partner, bill, upstream, state, length(creates) / 17 AS creates, uncertain, changed,
			coalesce(tried, changed) AS tried, ends, ended, 0 AS unknown, '' AS of_partner, '' AS of_bill,
			'' AS operation, '' AS target, '' AS request, NULL AS at, '' AS finding, '' AS shown, '' AS amount,
			NULL AS read_at
		FROM billbridge_owners WHERE upstream <> '' AND `+ofBill, "partner, bill")
}

// UnknownOutcomes returns the writes that have an unknown outcome, the last first, and the number of all that the
// filter selects: those of RecordUnknown, and creates recorded before cutOff that were never completed because their
// process ended. With PostgreSQL it reads the ledger as ListBills does: with an index on open creates, each
// completion would write to all indexes.
func (s *Store) UnknownOutcomes(
	ctx context.Context, f BillFilter, cutOff time.Time,
) (list []ListedBill, all int, err error) {
	return s.listBills(ctx, f, `
		SELECT u.partner, u.bill, coalesce(o.upstream, u.upstream) AS upstream, coalesce(o.state, '') AS state,
			coalesce(length(o.creates), 0) / 17 AS creates, coalesce(o.uncertain, 0) AS uncertain,
			o.changed, o.tried, o.ends, o.ended, 1 AS unknown, u.partner AS of_partner, u.bill AS of_bill,
			u.operation, u.upstream AS target, u.request, u.at, u.finding, u.state AS shown, u.amount, u.read_at
		FROM billbridge_unknown u LEFT JOIN billbridge_owners o ON o.partner = u.partner AND o.bill = u.bill
		UNION ALL
		SELECT partner, bill, upstream, state, length(creates) / 17, uncertain, changed, coalesce(tried, changed),
			ends, ended, 1, partner, bill, 'bill.create', upstream, '', coalesce(tried, changed), '', '', '', NULL
		FROM billbridge_owners o WHERE state = 'pending' AND uncertain = 0 AND creates <> ''
			AND coalesce(tried, changed) < $7 AND `+ofBill, "at DESC, partner, bill, operation", s.stamp(cutOff))
}

// ofBill stands in a query of the ledger for a condition that an index serves, if the filter names a bill. The index
// begins with the partner: each partner is looked up, and then its bill.
const ofBill = "{of the bill}"

// listBills lists the rows of a query.
func (s *Store) listBills(
	ctx context.Context, f BillFilter, rows, order string, more ...any,
) ([]ListedBill, int, error) {
	if err := checkPrefix(f.PartnerPrefix); f.PartnerPrefix != "" && err != nil {
		return nil, 0, err
	}
	if f.Limit < 1 || f.Now.IsZero() {
		return nil, 0, fmt.Errorf("%w: a list of bills needs a limit and the time now, not %d and %s",
			ErrFilter, f.Limit, f.Now.Format(time.RFC3339))
	}
	condition := "true"
	if f.Bill != "" {
		condition = "bill = $3 AND partner IN (" + partnersOf("billbridge_owners", "$1", "$2") + ")"
	}
	meant := " FROM (" + strings.Replace(rows, ofBill, condition, 1) + `) AS listed
		WHERE partner >= $1 AND partner < $2 AND (bill = $3 OR $3 = '') AND (upstream = $4 OR $4 = '')
		AND ($5 = 0 OR state IN ('pending', 'owned') AND ended IS NULL AND (ends IS NULL OR ends > $6))`
	args := append([]any{f.PartnerPrefix, beyond(f.PartnerPrefix), f.Bill, f.Upstream, f.Open, f.Now}, more...)
	type selection struct {
		bills []ListedBill
		all   int
	}
	found, err := read(ctx, s, "listing bills", func(q tx) (found selection) {
		onePartner(q, "billbridge_owners", f.PartnerPrefix)
		found.bills = list[ListedBill](q, fmt.Sprintf("SELECT *%s ORDER BY %s LIMIT %d", meant, order, f.Limit),
			args...)
		if found.all = len(found.bills); found.all == f.Limit {
			found.all = value[int](q, "SELECT count(*)"+meant, args...)
		}
		return found
	})
	return found.bills, found.all, err
}
