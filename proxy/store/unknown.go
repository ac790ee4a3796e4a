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
	// the member and the merchant of the call, with which the bill is read; "" if they are not known
	Member, Merchant string

	Read     Reading   // the last one that showed something
	Reads    int       // how many the gateway has made by itself
	Next     time.Time // when it makes the next one; zero: no more
	Resolved time.Time // when the last read resolved the outcome; zero: it is still unknown
}

// A Reading is what a read showed of a bill.
type Reading struct {
	Finding       string // in the words of the caller of this package; never empty
	State, Amount string // "" if the read did not show the bill
	At            time.Time
	By            string // who read, in the words of the caller
}

// The columns of an UnknownWrite.
const (
	readColumns = `partner, bill, operation, upstream, request, at, member, merchant,
	finding, state, amount, read_at, read_by, `
	writeColumns = readColumns + "reads, next_read, resolved"
)

// nameAtMost is the most bytes of a member or merchant that is stored. Documented ones are far shorter.
const nameAtMost = 200

// storedName is a name as it is stored: unchanged, or "" if it cannot be. Another name would find other bills.
func storedName(name string) string {
	if len(name) > nameAtMost || columnValues([]any{name}) != nil {
		return ""
	}
	return name
}

// RecordUnknown records a write whose outcome is unknown, once for each operation of a bill and merchant: a later one
// takes its place.
func (s *Store) RecordUnknown(ctx context.Context, w UnknownWrite) error {
	ctx = patient(ctx)
	if err := ownable(w.Partner, w.Bill, w.At, w.Upstream, w.Operation, w.Read.Finding); err != nil {
		return err
	}
	return s.exec(ctx, "recording an unknown outcome", `
		INSERT INTO billbridge_unknown (`+writeColumns+`)
		VALUES (`+ofPartner("$1")+`, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, $14, NULL)
		ON CONFLICT (partner, bill, operation, merchant) DO UPDATE SET upstream = excluded.upstream,
			request = excluded.request, at = excluded.at, member = excluded.member,
			finding = excluded.finding, state = excluded.state, amount = excluded.amount, read_at = excluded.read_at,
			read_by = excluded.read_by, reads = 0, next_read = excluded.next_read, resolved = NULL`,
		w.Partner, w.Bill, printable(w.Operation), w.Upstream, printable(w.Request), s.stamp(w.At),
		storedName(w.Member), storedName(w.Merchant), printable(w.Read.Finding), printable(w.Read.State),
		printable(w.Read.Amount), w.Read.At, w.Read.By, s.stamp(w.Next))
}

// RecordInterrupted records creates as RecordUnknown does that were recorded before a time and never completed,
// because their process ended. finding says that they were not read. With PostgreSQL it reads the ledger as ListBills
// does: with an index on open creates, each completion would write to all indexes.
func (s *Store) RecordInterrupted(ctx context.Context, before time.Time, finding string, next time.Time) error {
	return s.update(ctx, "recording interrupted creates", func(q tx) {
		q.exec(`
			INSERT INTO billbridge_unknown (partner, bill, operation, upstream, request, at, merchant, finding, state,
				amount, next_read)
			SELECT partner, bill, 'bill.create', upstream, '', coalesce(tried, changed), merchant, $2, '', '', $3
			FROM billbridge_owners o WHERE state = 'pending' AND uncertain = 0 AND creates <> ''
				AND coalesce(tried, changed) < $1 AND NOT EXISTS (
					SELECT 1 FROM billbridge_unknown u WHERE u.partner = o.partner AND u.bill = o.bill
						AND u.operation = 'bill.create' AND u.at >= coalesce(o.tried, o.changed)
						AND `+ofMerchant("u.merchant", "o.merchant")+`)
			ORDER BY partner, bill
			ON CONFLICT (partner, bill, operation, merchant) DO UPDATE SET upstream = excluded.upstream, request = '',
				at = excluded.at, member = '', finding = excluded.finding, state = '', amount = '',
				read_at = NULL, read_by = '', reads = 0, next_read = excluded.next_read, resolved = NULL`,
			s.stamp(before), finding, s.stamp(next))
	})
}

// RecordRead records what a read of a bill at an upstream showed; r.At is when the read was sent. Writes that ended
// at resolves or before cannot take effect later, so that the read resolves their outcome. ended means that the bill
// is destroyed or cancelled, which is final: all its outcomes are resolved, and an owned bill does not count as open
// any more.
//
// A read shows the bill of its merchant, and another merchant can have a bill with the same id: rows of other merchants
// stay as they are. A read that showed no bill resolves only creates, and only if that bill has no owner and the create
// named the merchant of the read.
func (s *Store) RecordRead(
	ctx context.Context, partner partner.ID, bill, upstream, merchant string, r Reading, resolves time.Time,
	ended bool,
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
					AND tried <= $4 AND also_at = '' AND `+ofMerchant("merchant", "$5"),
				partner, bill, upstream, r.At, storedName(merchant))
		}
		q.exec(`
			UPDATE billbridge_unknown SET finding = $4, state = $5, amount = $6, read_at = $7, read_by = $8,
				resolved = CASE WHEN at <= $9 AND ($5 <> '' OR operation = 'bill.create' AND merchant = $10
					AND request <> '' AND NOT EXISTS ( -- without a request it can be that of another create
					SELECT 1 FROM billbridge_owners o WHERE o.partner = $1 AND o.bill = $2 AND o.state = 'owned'
						AND `+ofMerchant("o.merchant", "$10")+`))
					THEN CAST($7 AS BIGINT) END
			WHERE partner = $1 AND bill = $2 AND upstream = $3 AND resolved IS NULL AND `+ofMerchant("merchant", "$10"),
			partner, bill, upstream, printable(r.Finding), printable(r.State), printable(r.Amount), r.At, r.By, resolves,
			storedName(merchant))
	})
}

// proven are the partners whose key is valid. Rows of invented keys are never read.
const proven = "partner IN (SELECT partner FROM billbridge_proven)"

// AskedFor is the next read of a write that PlanReads has planned. It is before those that the gateway plans by itself.
var AskedFor = time.UnixMilli(-1).UTC()

// DueReads returns the partners that have writes with an unknown outcome whose next read is planned for due or before:
// for AskedFor only those of PlanReads.
func (s *Store) DueReads(ctx context.Context, due time.Time) ([]partner.ID, error) {
	return readAll[partner.ID](ctx, s, "finding reads that are due", `
		SELECT p.partner FROM billbridge_proven p WHERE EXISTS (
			SELECT 1 FROM billbridge_unknown u
			WHERE u.partner = p.partner AND u.resolved IS NULL AND u.next_read <= $1)
		ORDER BY p.partner`, s.stamp(due))
}

// claimLasts is how long a gateway has for a claimed read before another one makes it.
const claimLasts = 5 * time.Minute

// ClaimRead returns the write of a partner whose read has been due for longest, as DueReads, and keeps others from
// making this read until [Store.EndRead], or for claimLasts. found is false if there is none.
func (s *Store) ClaimRead(
	ctx context.Context, id partner.ID, due, now time.Time,
) (w UnknownWrite, found bool, err error) {
	w, err = write(ctx, s, "claiming a read", func(q tx) UnknownWrite {
		s.lock(q, shared, claims) // see betweenClaims
		w, _ := find[UnknownWrite](q, `
			UPDATE billbridge_unknown SET reads = reads + 1, next_read = $3 WHERE (partner, bill, operation, merchant) = (
				SELECT partner, bill, operation, merchant FROM billbridge_unknown
				WHERE partner = $1 AND resolved IS NULL AND next_read <= $2 ORDER BY next_read LIMIT 1 `+s.passOver+`
			) RETURNING `+readColumns+"reads - 1, next_read, resolved",
			id, s.stamp(due), s.stamp(now).Add(claimLasts))
		return w
	})
	return w, w.Bill != "", err
}

// EndRead ends the claim of a read, with what is planned after it; next gets the time of the claim's database. If the
// read showed nothing, finding says so.
func (s *Store) EndRead(
	ctx context.Context, w UnknownWrite, finding, by string, now time.Time,
	next func(w UnknownWrite, now time.Time) time.Time,
) error {
	now = s.stamp(now)
	return s.exec(ctx, "ending a read", `
		UPDATE billbridge_unknown SET next_read = $5, finding = CASE WHEN $6 = '' THEN finding ELSE $6 END,
			state = CASE WHEN $6 = '' THEN state ELSE '' END, amount = CASE WHEN $6 = '' THEN amount ELSE '' END,
			read_at = CASE WHEN $6 = '' THEN read_at ELSE CAST($7 AS BIGINT) END,
			read_by = CASE WHEN $6 = '' THEN read_by ELSE $8 END
		WHERE partner = $1 AND bill = $2 AND operation = $3 AND merchant = $9 AND next_read = $4 AND resolved IS NULL`,
		w.Partner, w.Bill, w.Operation, w.Next, next(w, now), finding, now, by, w.Merchant)
}

// PlanReads makes a read of each write with an unknown outcome due, of the partners that a prefix fits; "" is all of
// them. It works in batches, as Sweep does.
func (s *Store) PlanReads(ctx context.Context, prefix partner.ID) error {
	_, err := s.sweep(ctx, `
		UPDATE billbridge_unknown SET next_read = CAST($3 AS BIGINT) WHERE (partner, bill, operation, merchant) IN (
			SELECT partner, bill, operation, merchant FROM billbridge_unknown
			WHERE partner >= $1 AND partner < $2 AND resolved IS NULL AND `+proven+`
				AND (next_read IS NULL OR next_read > CAST($3 AS BIGINT)) ORDER BY partner`,
		prefix, beyond(prefix), AskedFor)
	return err
}

// ErrMerchants: the merchant must be named.
var ErrMerchants error = sentinel("writes of several merchants have an unknown outcome")

// DismissUnknown resolves the outcomes of a bill because an operator knows them, and returns their number. Without a
// merchant the error is ErrMerchants if they are of several.
func (s *Store) DismissUnknown(
	ctx context.Context, partner partner.ID, bill, merchant, by string, now time.Time,
) (n int64, err error) {
	if err := checkDecision(by, now); err != nil {
		return 0, err
	}
	return write(ctx, s, "dismissing an unknown outcome", func(q tx) int64 {
		s.lock(q, shared, claims) // see betweenClaims
		if merchant == "" && value[int](q, `
			SELECT count(DISTINCT merchant) FROM billbridge_unknown
			WHERE partner = $1 AND bill = $2 AND resolved IS NULL`, partner, bill) > 1 {
			q.refuse(ErrMerchants)
			return 0
		}
		n := q.exec(`
			UPDATE billbridge_unknown SET resolved = $3, read_at = $3, read_by = $4, finding = $5, state = '',
				amount = '' WHERE partner = $1 AND bill = $2 AND resolved IS NULL AND (merchant = $6 OR $6 = '')`,
			partner, bill, s.stamp(now), by, Dismissed, merchant)
		if n > 0 {
			audited(q, Change{Action: OutcomeDismissed, By: by, At: now, Partner: partner, Subject: bill})
		}
		return n
	})
}

// Dismissed is the finding of a write whose outcome an operator has resolved without a read.
const Dismissed = "dismissed"

// ReadAs returns the member and the merchant of the last write of a bill that has or had an unknown outcome, of one
// merchant or of all for ""; "" if they are not known.
func (s *Store) ReadAs(
	ctx context.Context, partner partner.ID, bill, of string,
) (member, merchant string, err error) {
	as, err := readOne[[2]string](ctx, s, "reading the merchant of a write", `
		SELECT coalesce(member, ''), coalesce(merchant, '') FROM (SELECT 1) AS one LEFT JOIN (
			SELECT member, merchant FROM billbridge_unknown WHERE partner = $1 AND bill = $2 AND merchant <> ''
				AND (merchant = $3 OR $3 = '')
			ORDER BY at DESC LIMIT 1) AS last ON true`, partner, bill, of)
	return as[0], as[1], err
}

// Unknowns are the numbers of writes with an unknown outcome.
type Unknowns struct {
	All     int
	Unclear int // of proven partners, which ended before a time
	Due     int // of proven partners, which are read now
}

// CountUnknown counts the writes of the partners that a prefix fits; "" is all of them.
func (s *Store) CountUnknown(
	ctx context.Context, prefix partner.ID, unclearBefore, due time.Time,
) (Unknowns, error) {
	return readOne[Unknowns](ctx, s, "counting unknown outcomes", `
		SELECT count(*), count(CASE WHEN at < $3 AND `+proven+` THEN 1 END),
			count(CASE WHEN next_read <= $4 AND `+proven+` THEN 1 END)
		FROM billbridge_unknown WHERE partner >= $1 AND partner < $2 AND resolved IS NULL`,
		prefix, beyond(prefix), s.stamp(unclearBefore), s.stamp(due))
}

// MarkDoubled records that a bill is at both upstreams, by the call that showed it: its operation and its id. first
// is false if that was recorded before; then nothing is written. [Assigned] removes the mark.
func (s *Store) MarkDoubled(
	ctx context.Context, partner partner.ID, bill, operation, request string, now time.Time,
) (first bool, err error) {
	if err := ownable(partner, bill, now); err != nil {
		return false, err
	}
	return write(ctx, s, "recording that a bill is at both upstreams", func(q tx) bool {
		return q.exec(`
			INSERT INTO billbridge_doubled (partner, bill, operation, request, at)
			VALUES (`+ofPartner("$1")+`, $2, $3, $4, $5)
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
			o.changed, o.tried, o.ends, o.ended, coalesce(o.merchant, '') AS of_merchant, 1 AS unknown,
			d.partner AS of_partner, d.bill AS of_bill, d.operation, '' AS target, d.request, d.at, '' AS member,
			'' AS merchant, 'at both backends' AS finding, '' AS shown, '' AS amount, d.at AS read_at, '' AS read_by,
			0 AS reads, NULL AS next_read, NULL AS resolved
		FROM billbridge_doubled d LEFT JOIN billbridge_owners o ON o.partner = d.partner AND o.bill = d.bill`,
		"at DESC, partner, bill")
}

// SweepUnknown removes writes with an unknown outcome that ended before a time, and those whose outcome was resolved
// before another, unless a create of the bill is pending: RecordInterrupted would record it again. It returns their
// number.
func (s *Store) SweepUnknown(ctx context.Context, before, resolved time.Time) (n int, err error) {
	return s.sweep(ctx, `
		DELETE FROM billbridge_unknown WHERE (partner, bill, operation, merchant) IN (
			SELECT partner, bill, operation, merchant FROM billbridge_unknown u WHERE at < $1 OR resolved < $2 AND NOT EXISTS (
				SELECT 1 FROM billbridge_owners o WHERE o.partner = u.partner AND o.bill = u.bill
					AND o.state = 'pending') ORDER BY at`,
		before, resolved)
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
			coalesce(tried, changed) AS tried, ends, ended, merchant AS of_merchant, 0 AS unknown, '' AS of_partner,
			'' AS of_bill, '' AS operation, '' AS target, '' AS request, NULL AS at, '' AS member, '' AS merchant, '' AS finding,
			'' AS shown, '' AS amount, NULL AS read_at, '' AS read_by, 0 AS reads, NULL AS next_read, NULL AS resolved
		FROM billbridge_owners WHERE upstream <> '' AND `+ofBill, "partner, bill")
}

// An OutcomeList is what [Store.UnknownOutcomes] lists.
type OutcomeList string

// The lists of outcomes.
const (
	UnknownList  OutcomeList = "unknown"
	UnclearList  OutcomeList = "unclear"
	ResolvedList OutcomeList = "resolved"
)

// outcomeLists are the conditions of the lists.
var outcomeLists = map[OutcomeList]string{
	UnknownList:  "u.resolved IS NULL",
	UnclearList:  "u.resolved IS NULL AND u.at < $7 AND u." + proven,
	ResolvedList: "u.resolved IS NOT NULL",
}

// UnknownOutcomes returns writes that had no answer, the last first, and the number of all that the filter selects:
// those with an unknown outcome, those of them that ended before a time and are of proven partners, or those whose
// outcome a read has resolved.
func (s *Store) UnknownOutcomes(
	ctx context.Context, f BillFilter, l OutcomeList, unclearBefore time.Time,
) (list []ListedBill, all int, err error) {
	condition, ok := outcomeLists[l]
	if !ok {
		return nil, 0, fmt.Errorf("%w: there is no list %q of outcomes", ErrFilter, l)
	}
	return s.listBills(ctx, f, `
		SELECT u.partner, u.bill, coalesce(o.upstream, u.upstream) AS upstream, coalesce(o.state, '') AS state,
			coalesce(length(o.creates), 0) / 17 AS creates, coalesce(o.uncertain, 0) AS uncertain,
			o.changed, o.tried, o.ends, o.ended, coalesce(o.merchant, '') AS of_merchant, 1 AS unknown,
			u.partner AS of_partner, u.bill AS of_bill,
			u.operation, u.upstream AS target, u.request, u.at, u.member, u.merchant, u.finding, u.state AS shown,
			u.amount, u.read_at, u.read_by, u.reads, u.next_read, u.resolved
		FROM billbridge_unknown u LEFT JOIN billbridge_owners o ON o.partner = u.partner AND o.bill = u.bill
		WHERE CAST($7 AS BIGINT) > 0 AND `+condition, "at DESC, partner, bill, operation, merchant", s.stamp(unclearBefore))
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
	if _, err := read(ctx, s, "listing bills", func(q tx) partner.ID {
		return onePartner(q, f.PartnerPrefix, fitting("billbridge_owners"))
	}); err != nil {
		return nil, 0, err
	}
	return readPart[ListedBill](ctx, s, "listing bills", "*", " FROM ("+
		strings.Replace(rows, ofBill, condition, 1)+`) AS listed
		WHERE partner >= $1 AND partner < $2 AND (bill = $3 OR $3 = '') AND (upstream = $4 OR $4 = '')
		AND ($5 = 0 OR state IN ('pending', 'owned') AND ended IS NULL AND (ends IS NULL OR ends > $6))`,
		order, f.Limit,
		append([]any{f.PartnerPrefix, beyond(f.PartnerPrefix), f.Bill, f.Upstream, f.Open, f.Now}, more...)...)
}
