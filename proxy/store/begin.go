package store

import (
	"context"
	"time"

	"billbridge/proxy/partner"
)

// Start records that a rollout with bill ownership runs on this store. Until [Store.Begin] is called, the ledger may be
// incomplete: a new store may have replaced one that was lost.
func (s *Store) Start(ctx context.Context, now time.Time) error {
	return s.update(ctx, "starting the rollout", func(q tx) {
		if q.exec("UPDATE billbridge_rollout SET started = $1 WHERE begun IS NULL AND started IS NULL", now) > 0 {
			nextRevision(q, now)
		}
	})
}

// Begin declares that the new upstream has no bills of partners except those in the ledger: from now on a bill that
// the ledger does not know was not made there. A second call changes nothing and returns ErrState.
func (s *Store) Begin(ctx context.Context, by string, at time.Time, overridden ...string) error {
	return s.change(ctx, Change{Action: Begun, By: by, At: at, Overridden: reasons(overridden)}, oneRow(ErrState,
		"UPDATE billbridge_rollout SET begun = $1, begun_by = $2, started = NULL WHERE begun IS NULL", at, by))
}

// SetConfigDefault records the default stage of the running config, so that the next start sees whether it has changed.
func (s *Store) SetConfigDefault(ctx context.Context, stage string) error {
	return s.exec(ctx, "recording the default stage of the config",
		"UPDATE billbridge_rollout SET config_default = $1 WHERE config_default <> $1", stage)
}

// Assign makes an upstream the owner of a bill, whatever its row says: an operator has decided. Creates of the bill
// that are still under way do not change that.
func (s *Store) Assign(
	ctx context.Context, partner partner.ID, bill, upstream, by string, at time.Time, forced bool,
) error {
	if err := ownable(partner, bill, at, upstream); err != nil {
		return err
	}
	end := s.estimatedEnd(at)
	c := Change{Action: Assigned, By: by, At: at, Partner: partner, Subject: bill, To: upstream, Forced: forced}
	return s.change(ctx, c, func(q tx, c *Change) {
		was, _ := owner(q, partner, bill)
		c.From = was.Upstream
		q.exec("DELETE FROM billbridge_doubled WHERE partner = $1 AND bill = $2", partner, bill)
		q.exec(`
			INSERT INTO billbridge_owners AS was (partner, bill, upstream, state, creates, uncertain, changed,
				tried, ends, estimated)
			VALUES ($1, $2, $3, 'owned', '', 0, $4, $4, $5, 1)
			ON CONFLICT (partner, bill) DO UPDATE SET upstream = excluded.upstream, state = 'owned',
				changed = excluded.changed,
				ends = CASE WHEN was.ends < excluded.ends THEN excluded.ends ELSE was.ends END,
				estimated = CASE WHEN was.ends < excluded.ends THEN 1 ELSE was.estimated END,
				ended = CASE WHEN was.upstream = excluded.upstream THEN was.ended END`,
			partner, bill, upstream, at, end)
	})
}
