package store

import (
	"context"
	"time"
)

// Sweep removes what has been over for longer than retention, and returns how many rows that were:
//
//   - callbacks that were delivered or dropped, counted from then on. A dead callback is never removed: somebody decides;
//   - addresses of bills that no callback refers to, counted from when the bill is over (from when the address was made,
//     if that is not known or was before). That of a registration is never removed: the upstream may use it for years.
//
// It works in batches, so that others are not kept waiting: after an error, n rows have been removed already. Replicas
// may sweep at the same time.
func (s *Store) Sweep(ctx context.Context, now time.Time, retention time.Duration) (n int, err error) {
	before := now.Add(-retention).UnixMilli()
	n, err = s.sweep(ctx, `
		DELETE FROM billbridge_callbacks WHERE seq IN (
			SELECT seq FROM billbridge_callbacks WHERE done < $1 ORDER BY done LIMIT $2 `+s.passOver()+`)`, before)
	if err != nil {
		return n, err
	}
	// A callback that is still there is waiting, dead, or was over less than retention ago.
	addresses, err := s.sweep(ctx, `
		DELETE FROM billbridge_addresses WHERE id IN (
			SELECT a.id FROM billbridge_addresses a WHERE a.ends < $1
			AND NOT EXISTS (SELECT 1 FROM billbridge_callbacks c WHERE c.address = a.id)
			ORDER BY a.ends LIMIT $2 `+s.passOver()+`)`, before)
	return n + addresses, err
}

// SweepOwners removes, by the time that the store vouches for, the owners of bills that have been over for longer than retention, and rows that were released, in
// batches as Sweep does, and returns how many those were. An end that is not known never comes. Of a bill without an
// owner nobody knows where it is: retention must outlast whatever is still asked of one. A denial stays for as long after it, by
// the machine's clock, as a create may be on its way to it.
func (s *Store) SweepOwners(ctx context.Context, vouched, now time.Time, retention time.Duration) (n int, err error) {
	return s.sweep(ctx, `
		DELETE FROM billbridge_owners WHERE (partner, bill) IN (
			SELECT partner, bill FROM billbridge_owners WHERE ends < $1 AND (denied IS NULL OR denied < $2 OR denied > $3)
			ORDER BY ends LIMIT $4 `+s.passOver()+`)`,
		vouched.Add(-retention).UnixMilli(), s.stamp(now).Add(-deniedFor).UnixMilli(), s.stamp(now).Add(deniedFor).UnixMilli())
}

// sweep runs a statement, whose last argument is how many rows it may remove at once, until it finds no more.
func (s *Store) sweep(ctx context.Context, statement string, args ...any) (n int, err error) {
	args = append(args, s.batch)
	for {
		removed, err := write(ctx, s, "sweeping", func(ctx context.Context, q queries) (int64, error) {
			result, err := q.ExecContext(ctx, statement, args...)
			if err != nil {
				return 0, err
			}
			removed, err := result.RowsAffected()
			if err == nil && removed > 0 && !s.postgres {
				_, err = q.ExecContext(ctx, "PRAGMA incremental_vacuum(2000)") // gives free pages back; PostgreSQL does so itself
			}
			return removed, err
		})
		n += int(removed)
		if err != nil || removed < int64(s.batch) {
			return n, err
		}
	}
}
