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

// OpenBillsIn counts the bills in the ledger of the partners of a range, sorted by partner and upstream. A bill whose
// end is before now is over. It reads all rows of these partners: an index for it would halve the rate of Own.
func (s *Store) OpenBillsIn(ctx context.Context, in Range, now time.Time) ([]Bills, error) {
	return read(ctx, s, "counting bills", func(q tx) []Bills {
		return list[Bills](q, `
			SELECT partner, upstream, count(CASE state WHEN 'pending' THEN 1 END),
				count(CASE state WHEN 'owned' THEN 1 END), count(CASE state WHEN 'released' THEN 1 END),
				count(CASE WHEN state <> 'released' AND ends <= $3 THEN 1 END),
				count(CASE WHEN state = 'owned' AND ended IS NOT NULL AND (ends IS NULL OR ends > $3) THEN 1 END)
			FROM billbridge_owners WHERE partner >= $1 AND partner < $2 AND upstream <> ''
			GROUP BY partner, upstream ORDER BY partner, upstream`, in.From, in.Before, now)
	})
}
