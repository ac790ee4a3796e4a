package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"billbridge/proxy/partner"
)

// Seen records when a partner was first seen. For a partner that has been recorded before it only reads.
//
// The row is never removed. The caller must be sure that the partner exists, so that nobody can fill the store with
// made-up ones.
func (s *Store) Seen(ctx context.Context, partner partner.ID, at time.Time) error {
	if !partner.IsFull() || at.IsZero() {
		return fmt.Errorf("store: that a partner was seen needs its full hash and a time, not %q and %s", partner,
			at.Format(time.RFC3339))
	}
	if _, err := s.FirstSeen(ctx, partner); !errors.Is(err, ErrNotFound) {
		return err
	}
	return s.exec(ctx, "recording a partner",
		"INSERT INTO billbridge_seen (partner, seen) VALUES ($1, $2) ON CONFLICT (partner) DO NOTHING", partner, at)
}

// FirstSeen returns when a partner was first seen, or ErrNotFound.
func (s *Store) FirstSeen(ctx context.Context, partner partner.ID) (time.Time, error) {
	if storable("partner", string(partner)) != nil {
		return time.Time{}, ErrNotFound
	}
	return read(ctx, s, "reading when a partner was first seen", func(q tx) (first time.Time, err error) {
		err = q.row("SELECT seen FROM billbridge_seen WHERE partner = $1", partner).Scan(&first)
		return first, err
	})
}

// A SeenPartner is a partner with the time when it was first seen.
type SeenPartner struct {
	Partner partner.ID
	First   time.Time
}

// A Range is a part of the partners in their order.
type Range struct{ From, Before partner.ID }

// AllPartners is the range of all partners.
var AllPartners = Range{"", beyond("")}

// After is the range of all partners whose ID comes after those that begin with prefix.
func After(prefix partner.ID) Range { return Range{beyond(prefix), beyond("")} }

// Through is the part of a range up to the partners whose ID begins with prefix.
func (r Range) Through(prefix partner.ID) Range { return Range{r.From, beyond(prefix)} }

// Of is the range of one partner; for "" it is the range itself.
func (r Range) Of(id partner.ID) Range {
	if id == "" {
		return r
	}
	return Range{id, beyond(id)}
}

// Has reports whether a partner is in the range.
func (r Range) Has(id partner.ID) bool { return id >= r.From && id < r.Before }

// PartnersIn returns the first partners of a range that were seen or are in the ledger, sorted, at most limit. It
// reads one entry of an index for each.
func (s *Store) PartnersIn(ctx context.Context, in Range, limit int) ([]partner.ID, error) {
	return read(ctx, s, "reading partners", func(q tx) (all []partner.ID, err error) {
		for _, query := range []string{
			"SELECT partner FROM billbridge_seen WHERE partner >= $1 AND partner < $2 AND partner <> '' ORDER " +
				"BY partner LIMIT $3",
			`WITH RECURSIVE found (partner) AS (
				SELECT min(partner) FROM billbridge_owners WHERE partner >= $1 AND partner < $2 AND partner <> ''
				UNION ALL
				SELECT (SELECT min(o.partner) FROM billbridge_owners o WHERE o.partner > found.partner
					AND o.partner < $2)
				FROM found WHERE found.partner IS NOT NULL
			) SELECT partner FROM found WHERE partner IS NOT NULL LIMIT $3`,
		} {
			found, err := list(q, column[partner.ID], query, in.From, in.Before, limit)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		slices.Sort(all)
		all = slices.Compact(all)
		return all[:min(limit, len(all))], nil
	})
}

// SeenPartners returns all partners that were seen, sorted by partner.
func (s *Store) SeenPartners(ctx context.Context) ([]SeenPartner, error) {
	return s.SeenPartnersIn(ctx, AllPartners)
}

// SeenPartnersIn is SeenPartners for the partners of a range.
func (s *Store) SeenPartnersIn(ctx context.Context, in Range) ([]SeenPartner, error) {
	return read(ctx, s, "reading which partners were seen", func(q tx) ([]SeenPartner, error) {
		return list(q, func(s *SeenPartner, row row) error { return row.Scan(&s.Partner, &s.First) },
			"SELECT partner, seen FROM billbridge_seen WHERE partner >= $1 AND partner < $2 ORDER BY partner",
			in.From, in.Before)
	})
}

// Partner returns the full ID of the one partner of the rollout whose ID begins with prefix: of those that were seen,
// have a stage or are in the ledger. It returns ErrNotFound if there is none, and ErrAmbiguous if there are two.
func (s *Store) Partner(ctx context.Context, prefix partner.ID) (partner.ID, error) {
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	return read(ctx, s, "looking up a partner", func(q tx) (full partner.ID, err error) {
		for _, table := range []string{"billbridge_seen", "billbridge_stages", "billbridge_owners"} {
			found, err := onePartner(q, table, prefix)
			switch {
			case err != nil:
				return "", err
			case full != "" && found != "" && full != found:
				return "", ErrAmbiguous
			}
			full = cmp.Or(full, found)
		}
		if full == "" {
			return "", ErrNotFound
		}
		return full, nil
	})
}
