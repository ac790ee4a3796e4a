package store

import (
	"context"
	"time"

	"billbridge/proxy/partner"
)

// Bills are the numbers of bills that the ledger has of a partner at an upstream, by ownership.
type Bills struct {
	Partner                  partner.ID
	Upstream                 string
	Pending, Owned, Released int
	Over                     int // of Pending and Owned: past their end
	Ended                    int // of Pending and Owned, and not Over: seen destroyed or cancelled
}

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
	return readPart[LedgerPlace](ctx, s, "listing the newest bills", "changed, bill", `
		FROM billbridge_owners WHERE partner = $1 AND state = 'owned'
			AND ($2 = '' OR changed < $3 OR changed = $3 AND bill > $2)`, "changed DESC, bill", limit,
		id, after.Bill, after.At)
}

// OpenBillsIn counts the bills in the ledger of the partners of a range, sorted by partner and upstream. A bill whose
// end is before now is over. It reads all rows of these partners: an index for it would halve the rate of Own.
func (s *Store) OpenBillsIn(ctx context.Context, in Range, now time.Time) ([]Bills, error) {
	return readAll[Bills](ctx, s, "counting bills", `
			SELECT partner, upstream, count(CASE state WHEN 'pending' THEN 1 END),
				count(CASE state WHEN 'owned' THEN 1 END), count(CASE state WHEN 'released' THEN 1 END),
				count(CASE WHEN state <> 'released' AND ends <= $3 THEN 1 END),
				count(CASE WHEN state = 'owned' AND ended IS NOT NULL AND (ends IS NULL OR ends > $3) THEN 1 END)
			FROM billbridge_owners WHERE partner >= $1 AND partner < $2 AND upstream <> ''
			GROUP BY partner, upstream ORDER BY partner, upstream`, in.From, in.Before, now)
}
