package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Seen notes that a partner was seen. The first time that is noted stays, whatever comes after it. For a partner that
// is known it is no more than a read.
//
// The row is never removed: the caller must know that there is such a partner, or anyone fills the store with made-up
// ones.
func (s *Store) Seen(ctx context.Context, partner string, at time.Time) error {
	if !fullHash(partner) || at.IsZero() {
		return fmt.Errorf("store: that a partner was seen needs its full hash and a time, not %q and %s", partner, at)
	}
	if _, _, err := s.FirstSeen(ctx, partner); !errors.Is(err, ErrNotFound) {
		return err
	}
	_, err := write(ctx, s, "noting a partner", func(ctx context.Context, q queries) (none struct{}, err error) {
		_, err = q.ExecContext(ctx, `
			INSERT INTO billbridge_seen (partner, seen) VALUES ($1, $2) ON CONFLICT (partner) DO NOTHING`, partner, at.UnixMilli())
		return none, err
	})
	return err
}

// FirstSeen returns when a partner was first seen, or ErrNotFound. With either comes when the store was last declared
// restored from a backup: of a partner that was seen before, what it did between the backup and then is not known.
func (s *Store) FirstSeen(ctx context.Context, partner string) (first time.Time, restored Declaration, err error) {
	if storable(map[string]string{"partner": partner}) != nil {
		partner = "" // which nobody is
	}
	type sight struct {
		first    time.Time
		restored Declaration
	}
	seen, err := read(ctx, s, "reading when a partner was first seen", func(ctx context.Context, q queries) (n sight, err error) {
		err = q.QueryRowContext(ctx, `
			SELECT s.seen, r.restored, r.restored_by FROM billbridge_rollout r
			LEFT JOIN billbridge_seen s ON s.partner = $1`, partner).Scan(moment{&n.first}, moment{&n.restored.At}, &n.restored.By)
		return n, err
	})
	if err == nil && seen.first.IsZero() {
		err = ErrNotFound
	}
	return seen.first, seen.restored, err
}
