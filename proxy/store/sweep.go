package store

import (
	"context"
	"time"
)

// Sweep removes what has been over for longer than retention, and returns how many rows that were:
//
//   - callbacks that were delivered or dropped, counted from then on. A dead callback is never removed: somebody decides;
//   - addresses of bills that no callback refers to, counted from when the bill is over (from when the address was made,
//     if that is not known or was before). That of a registration is never removed: the upstream may use it for years;
//   - owners of bills, counted from when the bill is over, or was released. An end that is not known never comes.
//
// It works in batches, so that others are not kept waiting: after an error, n rows have been removed already. Replicas
// may sweep at the same time.
func (s *Store) Sweep(ctx context.Context, now time.Time, retention time.Duration) (n int, err error) {
	before := now.Add(-retention).UnixMilli()
	for _, statement := range []string{
		`DELETE FROM billbridge_callbacks WHERE seq IN (
			SELECT seq FROM billbridge_callbacks WHERE done < $1 ORDER BY done LIMIT $2 ` + s.passOver() + `)`,
		// A callback that is still there is waiting, dead, or was over less than retention ago.
		`DELETE FROM billbridge_addresses WHERE id IN (
			SELECT a.id FROM billbridge_addresses a WHERE a.ends < $1
			AND NOT EXISTS (SELECT 1 FROM billbridge_callbacks c WHERE c.address = a.id)
			ORDER BY a.ends LIMIT $2 ` + s.passOver() + `)`,
		`DELETE FROM billbridge_owners WHERE (partner, bill) IN (
			SELECT partner, bill FROM billbridge_owners WHERE ends < $1 ORDER BY ends LIMIT $2 ` + s.passOver() + `)`,
	} {
		for {
			removed, err := write(ctx, s, "sweeping", func(ctx context.Context, q queries) (int64, error) {
				result, err := q.ExecContext(ctx, statement, before, s.batch)
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
			if err != nil {
				return n, err
			}
			if removed < int64(s.batch) {
				break
			}
		}
	}
	return n, nil
}
