package store

import (
	"context"
	"fmt"
	"time"

	"billbridge/proxy/partner"
)

// Bills are the numbers of bills that the ledger has of a partner at an upstream, by ownership.
// They lack those that were created before the gateway was in use.
type Bills struct {
	Partner  partner.ID `json:"-"`
	Upstream string     `json:"upstream"`
	Pending  int        `json:"pending"`
	Owned    int        `json:"owned"`
	Over     int        `json:"over"`  // of Pending and Owned: past their end
	Ended    int        `json:"ended"` // of Pending and Owned, and not Over: seen destroyed or cancelled
	Released int        `json:"released"`
}

// Open is how many of them may still be open.
func (b Bills) Open() int { return b.Pending + b.Owned - b.Over - b.Ended }

// A LedgerPlace is a place among the bills of a partner, the newest first.
type LedgerPlace struct {
	At   time.Time // of the last change of its owner
	Bill string
}

// NewestBills returns the bills of a partner that have an owner, the newest first, at most limit, and the number of all
// that follow a place; the zero place is before all.
func (s *Store) NewestBills(
	ctx context.Context, id partner.ID, after LedgerPlace, limit int,
) (bills []LedgerPlace, all int, err error) {
	type page struct {
		bills []LedgerPlace
		all   int
	}
	p, err := read(ctx, s, "listing the newest bills", func(q tx) (p page) {
		const meant = ` FROM billbridge_owners WHERE partner = $1 AND state = 'owned'
			AND ($2 = '' OR changed < $3 OR changed = $3 AND bill > $2)`
		p.bills = list[LedgerPlace](q, fmt.Sprintf("SELECT changed, bill%s ORDER BY changed DESC, bill LIMIT %d",
			meant, limit), id, after.Bill, after.At)
		p.all = value[int](q, "SELECT count(*)"+meant, id, after.Bill, after.At)
		return p
	})
	return p.bills, p.all, err
}

// OpenBillsIn counts the bills in the ledger of the partners of a range, sorted by partner and upstream. A bill whose
// end is before now is over. It reads all rows of these partners: an index for it would halve the rate of Own.
func (s *Store) OpenBillsIn(ctx context.Context, in Range, now time.Time) ([]Bills, error) {
	return read(ctx, s, "counting bills", func(q tx) []Bills {
		return list[Bills](q, `
			SELECT partner, upstream, count(CASE state WHEN 'pending' THEN 1 END),
				count(CASE state WHEN 'owned' THEN 1 END),
				count(CASE WHEN state <> 'released' AND ends <= $3 THEN 1 END),
				count(CASE WHEN state = 'owned' AND ended IS NOT NULL AND (ends IS NULL OR ends > $3) THEN 1 END),
				count(CASE state WHEN 'released' THEN 1 END)
			FROM billbridge_owners WHERE partner >= $1 AND partner < $2 AND upstream <> ''
			GROUP BY partner, upstream ORDER BY partner, upstream`, in.From, in.Before, now)
	})
}
