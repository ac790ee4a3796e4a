package store

import (
	"context"
	"database/sql"
	"time"

	"billbridge/proxy/partner"
)

// Bills are how many bills of a partner the ledger has at an upstream, by their ownership.
type Bills struct {
	Partner                  partner.ID
	Upstream                 string
	Pending, Owned, Released int
	Over                     int // of Pending and Owned, those whose end has passed
	Ended                    int // of the others of these two, those that were seen destroyed or cancelled
}

// OpenBills counts the bills that the ledger has, by partner and upstream in this order. prefix is "" for all
// partners, or as in Filter; now is when a bill is over. It reads all their rows, and no others: an index for it would halve the rate of Own.
func (s *Store) OpenBills(ctx context.Context, prefix partner.ID, now time.Time) ([]Bills, error) {
	if prefix != "" {
		if err := checkPrefix(prefix); err != nil {
			return nil, err
		}
	}
	return read(ctx, s, "counting bills", func(ctx context.Context, q queries) (all []Bills, err error) {
		if err := onePartner(ctx, q, "billbridge_owners", prefix); err != nil {
			return nil, err
		}
		rows, err := q.QueryContext(ctx, `
			SELECT partner, upstream, state, count(*), count(CASE WHEN ends <= $3 THEN 1 END),
				count(CASE WHEN ended IS NOT NULL AND (ends IS NULL OR ends > $3) THEN 1 END) FROM billbridge_owners WHERE partner >= $1 AND partner < $2 AND upstream <> ''
			GROUP BY partner, upstream, state ORDER BY partner, upstream, state`, prefix, beyond(prefix), now.UnixMilli())
		err = each(rows, err, func(row *sql.Rows) error {
			var partner partner.ID
			var upstream string
			var state Ownership
			var n, over, ended int
			if err := row.Scan(&partner, &upstream, &state, &n, &over, &ended); err != nil {
				return err
			}
			if len(all) == 0 || all[len(all)-1].Partner != partner || all[len(all)-1].Upstream != upstream {
				all = append(all, Bills{Partner: partner, Upstream: upstream})
			}
			b := &all[len(all)-1]
			switch state {
			case Pending:
				b.Pending, b.Over = n, b.Over+over
			case Owned:
				b.Owned, b.Over, b.Ended = n, b.Over+over, b.Ended+ended
			case Released:
				b.Released = n
			}
			return nil
		})
		return all, err
	})
}
