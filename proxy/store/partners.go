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
	if err := needs(partner, at); err != nil {
		return err
	}
	if _, err := s.FirstSeen(ctx, partner); !errors.Is(err, ErrNotFound) {
		return err
	}
	return s.exec(ctx, "recording a partner",
		"INSERT INTO billbridge_seen (partner, seen) VALUES ("+ofPartner("$1")+", $2) ON CONFLICT (partner) DO NOTHING",
		partner, at)
}

// FirstSeen returns when a partner was first seen, or ErrNotFound.
func (s *Store) FirstSeen(ctx context.Context, partner partner.ID) (time.Time, error) {
	return read(ctx, s, "reading when a partner was first seen", func(q tx) time.Time {
		return value[time.Time](q, "SELECT seen FROM billbridge_seen WHERE partner = $1", string(partner))
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

// PartnersIn returns the first partners of a range that were seen, have a stage or are in the ledger, sorted, at most
// limit. It reads one entry of an index for each.
func (s *Store) PartnersIn(ctx context.Context, in Range, limit int) ([]partner.ID, error) {
	return read(ctx, s, "reading partners", func(q tx) (all []partner.ID) {
		const known = " WHERE partner >= $1 AND partner < $2 AND partner <> '' ORDER BY partner"
		for _, query := range []string{
			"SELECT partner FROM billbridge_seen" + known, "SELECT partner FROM billbridge_stages" + known,
			partnersOf("billbridge_owners", "$1", "$2"),
		} {
			all = append(all, list[partner.ID](q, query+" LIMIT $3", in.From, in.Before, limit)...)
		}
		slices.Sort(all)
		all = slices.Compact(all)
		return all[:min(limit, len(all))]
	})
}

// partnersOf is a query for the partners of the rows of a table, in their order.
func partnersOf(table, from, before string) string {
	return fmt.Sprintf(`WITH RECURSIVE known (partner) AS (
			SELECT min(partner) FROM %[1]s WHERE partner >= %[2]s AND partner < %[3]s AND partner <> ''
			UNION ALL
			SELECT (SELECT min(o.partner) FROM %[1]s o WHERE o.partner > known.partner AND o.partner < %[3]s)
			FROM known WHERE known.partner IS NOT NULL
		) SELECT partner FROM known WHERE partner IS NOT NULL`, table, from, before)
}

// SeenPartners returns the partners of a range that were seen, sorted by partner.
func (s *Store) SeenPartners(ctx context.Context, in Range) ([]SeenPartner, error) {
	return read(ctx, s, "reading which partners were seen", func(q tx) []SeenPartner {
		return list[SeenPartner](q,
			"SELECT partner, seen FROM billbridge_seen WHERE partner >= $1 AND partner < $2 ORDER BY partner",
			in.From, in.Before)
	})
}

// Partner returns the full ID of the one partner of the rollout whose ID begins with prefix: of those that were seen,
// have a stage or are in the ledger. The digits of a further key name its partner.
// It returns ErrNotFound if there is none, and ErrAmbiguous if there are two.
func (s *Store) Partner(ctx context.Context, prefix partner.ID) (partner.ID, error) {
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	return read(ctx, s, "looking up a partner", func(q tx) (full partner.ID) {
		for _, table := range []string{"billbridge_seen", "billbridge_stages", "billbridge_owners"} {
			found := onePartner(q, table, prefix)
			if full != "" && found != "" && full != found {
				q.fail(ErrAmbiguous)
			}
			full = cmp.Or(full, found)
		}
		for _, k := range list[PartnerKey](q, "SELECT key_hash, partner FROM billbridge_partner_keys "+
			"WHERE key_hash >= $1 AND key_hash < $2", prefix, beyond(prefix)) {
			if full != "" && full != k.Partner {
				q.fail(ErrAmbiguous)
			}
			full = k.Partner
		}
		if full == "" {
			q.fail(ErrNotFound)
		}
		return full
	})
}
