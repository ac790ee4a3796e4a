package store

import (
	"context"
	"database/sql"
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

// OpenBills counts the bills in the ledger, sorted by partner and upstream. prefix is "" for all partners, or as in Filter; a
// bill whose end is before now is over. It reads all rows of these partners: an index for it would halve the rate of Own.
func (s *Store) OpenBills(ctx context.Context, prefix partner.ID, now time.Time) ([]Bills, error) {
	if prefix != "" {
		if err := checkPrefix(prefix); err != nil {
			return nil, err
		}
	}
	if prefix != "" {
		if _, err := read(ctx, s, "counting bills", func(ctx context.Context, q queries) (none struct{}, err error) {
			return none, onePartner(ctx, q, "billbridge_owners", prefix)
		}); err != nil {
			return nil, err
		}
	}
	return s.OpenBillsIn(ctx, Range{prefix, beyond(prefix)}, now)
}

// OpenBillsIn is OpenBills for the partners of a range.
func (s *Store) OpenBillsIn(ctx context.Context, in Range, now time.Time) ([]Bills, error) {
	return read(ctx, s, "counting bills", func(ctx context.Context, q queries) (all []Bills, err error) {
		rows, err := q.QueryContext(ctx, `
			SELECT partner, upstream, state, count(*), count(CASE WHEN ends <= $3 THEN 1 END),
				count(CASE WHEN ended IS NOT NULL AND (ends IS NULL OR ends > $3) THEN 1 END) FROM billbridge_owners WHERE partner >= $1 AND partner < $2 AND upstream <> ''
			GROUP BY partner, upstream, state ORDER BY partner, upstream, state`, in.From, in.Before, now.UnixMilli())
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
