package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/proxy/partner"
)

// The partners are those of a store.
type partners struct {
	*db
	// those whose key is known to be valid, each with the Generation of that time: partner.ID
	proven sync.Map
	// the partner of each further key, as last read
	keys atomic.Pointer[map[partner.ID]partner.ID]
}

// Seen records when a partner was first seen. For a partner that has been recorded before it only reads.
//
// The row is never removed. The caller must be sure that the partner exists, so that nobody can fill the store with
// made-up ones.
func (s *partners) Seen(ctx context.Context, partner partner.ID, at time.Time) error {
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
func (s *partners) FirstSeen(ctx context.Context, partner partner.ID) (time.Time, error) {
	return readOne[time.Time](ctx, s.db, "reading when a partner was first seen",
		"SELECT seen FROM billbridge_seen WHERE partner = $1", string(partner))
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
func (s *partners) PartnersIn(ctx context.Context, in Range, limit int) ([]partner.ID, error) {
	var of []string
	for _, table := range []string{"seen", "stages", "bills"} {
		of = append(of, "SELECT partner FROM ("+partnersOf("billbridge_"+table, "$1", "$2")+" LIMIT $3) AS "+table)
	}
	return readAll[partner.ID](ctx, s.db, "reading partners",
		strings.Join(of, " UNION ")+" ORDER BY partner LIMIT $3", in.From, in.Before, limit)
}

// partnersOf is a query for the partners of the rows of a table, in their order.
func partnersOf(table, from, before string) string {
	return fmt.Sprintf(`WITH RECURSIVE known (partner) AS (
			SELECT (SELECT o.partner FROM %[1]s o WHERE o.partner >= %[2]s AND o.partner < %[3]s AND o.partner <> ''
				ORDER BY o.partner LIMIT 1)
			UNION ALL
			SELECT (SELECT o.partner FROM %[1]s o WHERE o.partner > known.partner AND o.partner < %[3]s
				ORDER BY o.partner LIMIT 1)
			FROM known WHERE known.partner IS NOT NULL
		) SELECT partner FROM known WHERE partner IS NOT NULL`, table, from, before)
}

// SeenPartners returns the partners of a range that were seen, sorted by partner.
func (s *partners) SeenPartners(ctx context.Context, in Range) ([]SeenPartner, error) {
	return readAll[SeenPartner](ctx, s.db, "reading which partners were seen",
		"SELECT partner, seen FROM billbridge_seen WHERE partner >= $1 AND partner < $2 ORDER BY partner",
		in.From, in.Before)
}

// Partner returns the full ID of the one partner of the rollout whose ID begins with prefix: of those that were seen,
// have a stage or are in the ledger. The digits of a further key name its partner.
// It returns ErrNotFound if there is none, and ErrAmbiguous if there are two.
func (s *partners) Partner(ctx context.Context, prefix partner.ID) (partner.ID, error) {
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	return read(ctx, s.db, "looking up a partner", func(q tx) partner.ID {
		full := onePartner(q, prefix, fitting("billbridge_seen"), fitting("billbridge_stages"),
			fitting("billbridge_bills"),
			"SELECT partner FROM billbridge_partner_keys WHERE key_hash >= $1 AND key_hash < $2")
		if full == "" {
			q.fail(ErrNotFound)
		}
		return full
	})
}

// UnprovenRows is the most rows that a key can hold before its first success. Calls that are under way at the same
// time can add some.
const UnprovenRows = 1000

// Prove records that a call of a partner succeeded, so that its key is valid. The row is never removed.
func (s *partners) Prove(ctx context.Context, partner partner.ID) error {
	if !partner.IsFull() {
		return fmt.Errorf("store: a valid key is recorded by its full hash, not %q", partner)
	}
	if s.KnownProven(partner) {
		return nil
	}
	generation := s.Generation()
	err := s.exec(ctx, "recording a valid key",
		"INSERT INTO billbridge_proven (partner) VALUES ("+ofPartner("$1")+
			") ON CONFLICT (partner) DO NOTHING", partner)
	if err == nil {
		s.proven.Store(partner, generation)
	}
	return err
}

// KnownProven reports whether this process knows that Prove was called for a partner. It reads no database.
func (s *partners) KnownProven(partner partner.ID) bool {
	generation, known := s.proven.Load(partner)
	return known && generation == s.Generation() // another server can lack the row
}

// MayHold reports whether a call of a partner may add rows. Before the first success of its key, a partner can hold
// UnprovenRows of them: otherwise anybody could fill the store. It reads at most so many entries of an index in each
// table, and nothing for a partner that this process knows.
func (s *partners) MayHold(ctx context.Context, partner partner.ID) (bool, error) {
	if s.KnownProven(partner) {
		return true, nil
	}
	generation := s.Generation()
	return read(ctx, s.db, "counting the rows of a key", func(q tx) bool {
		held := value[struct {
			Proven bool
			Rows   int
		}](q, `
			SELECT EXISTS (SELECT 1 FROM billbridge_proven WHERE partner = $1),
				(SELECT count(*) FROM (SELECT 1 FROM billbridge_addresses
					WHERE unproven = $1 LIMIT 0 + $2) AS addresses)
				+ (SELECT count(*) FROM (SELECT 1 FROM billbridge_bills WHERE partner = $1 LIMIT 0 + $2) AS bills)`,
			partner, UnprovenRows)
		if held.Proven {
			s.proven.Store(partner, generation)
		}
		return held.Proven || held.Rows < UnprovenRows
	})
}

// Bills are the numbers of bills that the ledger has of a partner at an upstream, by ownership. They lack those that
// were created before the gateway was in use.
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

// OpenBillsIn counts the bills in the ledger of the partners of a range, sorted by partner and upstream. A bill whose
// end is before now is over. A bill that another merchant has at another upstream than the row's is owned there. It
// reads all rows of these partners: an index for it would halve the rate of Own.
func (s *partners) OpenBillsIn(ctx context.Context, in Range, now time.Time) ([]Bills, error) {
	const counted = `
		SELECT partner, upstream, count(CASE state WHEN 'pending' THEN 1 END),
			count(CASE state WHEN 'owned' THEN 1 END),
			count(CASE WHEN state IN ('pending', 'owned') AND ends <= $4 THEN 1 END),
			count(CASE WHEN state = 'owned' AND ended IS NOT NULL AND ends > $4 THEN 1 END),
			count(CASE state WHEN 'released' THEN 1 END)
		FROM (
			SELECT partner, upstream, state, ends, ended FROM %s WHERE upstream <> ''
			UNION ALL SELECT partner, also_at, 'owned', ends, NULL FROM %s
			WHERE also_at NOT IN ('', upstream) AND state IN ('pending', 'owned')
		) AS bills
		GROUP BY partner, upstream ORDER BY partner, upstream`
	sums := map[Bills]Bills{}
	err := inParts(ctx, s.db, "counting bills", in, counted, func(b Bills) error { // a partner can be in several parts
		key := Bills{Partner: b.Partner, Upstream: b.Upstream}
		sum := sums[key]
		sums[key] = Bills{
			b.Partner, b.Upstream, sum.Pending + b.Pending, sum.Owned + b.Owned, sum.Over + b.Over,
			sum.Ended + b.Ended, sum.Released + b.Released,
		}
		return nil
	}, now)
	return slices.SortedFunc(maps.Values(sums), func(a, b Bills) int {
		return cmp.Or(cmp.Compare(a.Partner, b.Partner), cmp.Compare(a.Upstream, b.Upstream))
	}), err
}
