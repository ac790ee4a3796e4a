package store

import (
	"context"
	"fmt"
	"time"
)

// Sweep removes rows that have been over for longer than retention, and returns their number:
//
//   - callbacks, from when they were delivered, dropped or superseded, or from the end of the bill of their address if
//     that is later: else the callback would look like a lost one. Failed ones stay until an operator decides;
//   - addresses of bills without a callback, from the end of the bill, or from when the address was made if that is
//     later or the end is not known. Addresses of registrations stay: the upstream may use them for years.
//
// It works in batches with pauses, so that other writes do not wait long: after an error, n rows have been removed.
// Replicas may sweep at the same time.
func (s *Store) Sweep(ctx context.Context, now time.Time, retention time.Duration) (n int, err error) {
	before := now.Add(-retention)
	n, err = s.sweep(ctx, `
		DELETE FROM billbridge_callbacks WHERE seq IN (
			SELECT seq FROM billbridge_callbacks c WHERE done < $1 AND NOT EXISTS (
				SELECT 1 FROM billbridge_addresses a WHERE a.id = c.address AND a.ends >= $1)
			ORDER BY done`, before)
	if err != nil {
		return n, err
	}
	// Callbacks that are left are waiting or failed, or have been over for less than retention.
	addresses, err := s.sweep(ctx, `
		DELETE FROM billbridge_addresses WHERE id IN (
			SELECT a.id FROM billbridge_addresses a WHERE a.ends < $1
			AND NOT EXISTS (SELECT 1 FROM billbridge_callbacks c WHERE c.address = a.id)
			ORDER BY a.ends`, before)
	return n + addresses, err
}

// SweepBodies deletes the bodies of callbacks that were delivered, dropped or superseded more than keep ago, and
// returns their number. The rows stay until Sweep removes them. Failed callbacks keep their bodies until an operator
// decides.
func (s *Store) SweepBodies(ctx context.Context, now time.Time, keep time.Duration) (n int, err error) {
	return s.sweep(ctx, `
		UPDATE billbridge_callbacks SET body = $1, erased = $2 WHERE seq IN (
			SELECT seq FROM billbridge_callbacks WHERE done < $3 AND erased IS NULL ORDER BY done`,
		[]byte{}, now, now.Add(-keep))
}

// SweepOwners removes released rows and the rows of bills that have been over for longer than retention, by the
// store's clock, in batches as Sweep does, and returns their number. The owner of a removed bill is not known any
// more, so retention must be longer than calls about a bill can come. Rows with a denial stay for deniedFor, by the
// machine's clock.
func (s *Store) SweepOwners(ctx context.Context, storeTime, now time.Time, retention time.Duration) (n int, err error) {
	return s.sweep(ctx, `
		DELETE FROM billbridge_owners WHERE (partner, bill) IN (
			SELECT partner, bill FROM billbridge_owners WHERE ends < $1 AND (denied IS NULL OR denied < $2
				OR denied > $3)
			ORDER BY ends`,
		storeTime.Add(-retention), s.stamp(now).Add(-deniedFor), s.stamp(now).Add(deniedFor))
}

// pause is how long a removal of old rows leaves the disk to other writes, and to standbys, after each batch.
const pause = 100 * time.Millisecond

// sweep runs a statement in batches. The statement ends in the query for the rows to change, to which sweep adds the
// limit.
func (s *Store) sweep(ctx context.Context, statement string, args ...any) (n int, err error) {
	return s.repeat(ctx, pause, fmt.Sprintf("%s LIMIT $%d %s)", statement, len(args)+1, s.passOver), args...)
}

// repeat runs a statement, whose last argument is the most rows to change at once, until it finds fewer. It pauses
// after each batch.
func (s *Store) repeat(ctx context.Context, pause time.Duration, statement string, args ...any) (n int, err error) {
	args = append(args, s.batch)
	for {
		removed, err := write(ctx, s, "sweeping", func(q tx) int64 {
			removed := q.exec(statement, args...)
			if removed > 0 && !s.postgres {
				q.exec("PRAGMA incremental_vacuum(2000)") // gives free pages back; PostgreSQL does so itself
			}
			return removed
		})
		n += int(removed)
		if err != nil || removed < int64(s.batch) {
			return n, err
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(pause):
		}
	}
}
