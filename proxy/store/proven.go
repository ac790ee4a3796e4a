package store

import (
	"context"
	"fmt"

	"billbridge/proxy/partner"
)

// UnprovenRows is the most rows that a key can hold before its first success. Calls that are under way at the same
// time can add some.
const UnprovenRows = 1000

// Prove records that a call of a partner succeeded, so that its key is valid. The row is never removed.
func (s *Store) Prove(ctx context.Context, partner partner.ID) error {
	if !partner.IsFull() {
		return fmt.Errorf("store: a valid key is recorded by its full hash, not %q", partner)
	}
	if s.KnownProven(partner) {
		return nil
	}
	generation := s.Generation()
	err := s.exec(ctx, "recording a valid key",
		"INSERT INTO billbridge_proven (partner) VALUES ("+ofPartner("$1")+") ON CONFLICT (partner) DO NOTHING", partner)
	if err == nil {
		s.proven.Store(partner, generation)
	}
	return err
}

// KnownProven reports whether this process knows that Prove was called for a partner. It reads no database.
func (s *Store) KnownProven(partner partner.ID) bool {
	generation, known := s.proven.Load(partner)
	return known && generation == s.Generation() // another server can lack the row
}

// MayHold reports whether a call of a partner may add rows. Before the first success of its key, a partner can hold
// UnprovenRows of them: otherwise anybody could fill the store. It reads at most so many entries of an index in each
// table, and nothing for a partner that this process knows.
func (s *Store) MayHold(ctx context.Context, partner partner.ID) (bool, error) {
	if s.KnownProven(partner) {
		return true, nil
	}
	generation := s.Generation()
	return read(ctx, s, "counting the rows of a key", func(q tx) bool {
		held := value[struct {
			Proven bool
			Rows   int
		}](q, `
			SELECT EXISTS (SELECT 1 FROM billbridge_proven WHERE partner = $1),
				(SELECT count(*) FROM (SELECT 1 FROM billbridge_addresses WHERE unproven = $1 LIMIT 0 + $2) AS addresses)
				+ (SELECT count(*) FROM (SELECT 1 FROM billbridge_owners WHERE partner = $1 LIMIT 0 + $2) AS owners)
				+ (SELECT count(*) FROM (SELECT 1 FROM billbridge_unknown WHERE partner = $1 LIMIT 0 + $2) AS writes)`,
			partner, UnprovenRows)
		if held.Proven {
			s.proven.Store(partner, generation)
		}
		return held.Proven || held.Rows < UnprovenRows
	})
}
