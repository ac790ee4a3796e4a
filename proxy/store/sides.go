package store

import (
	"context"
	"database/sql"
	"fmt"
)

// A StrangerError: bills are at an upstream that is on neither side of the rollout. Nothing would be sent there any
// more, to read or to cancel them.
type StrangerError struct {
	Upstream string // of several, the first by name
	Old, New string // the sides that were asked for
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("store: rollout.old is %q and rollout.new is %q in the config, but bills in the ledger are at upstream %q: "+
		"rollout.old or rollout.new must name it as long as they are there", e.Old, e.New, e.Upstream)
}

// A SwappedError: the sides of the rollout have changed places. What was decided of a partner would mean the opposite.
type SwappedError struct {
	Old, New string // the sides that were asked for
}

func (e *SwappedError) Error() string {
	return fmt.Sprintf("store: rollout.old is %[1]q and rollout.new is %[2]q in the config, the other way round than before, but bills or stages from before are still there, "+
		"and every partner's creates would go to the other side: name %[2]q as rollout.old and %[1]q as rollout.new again, and give partners that are to go back another stage",
		e.Old, e.New)
}

// Sides holds the two upstreams between which partners move to those that the store knows, and from then on knows
// these. It is called at a start, and before a reload takes effect, as the last thing that may refuse it: what the
// store knows is not taken back.
//
// If a bill that was not released is at neither of them, Sides changes nothing and returns a [*StrangerError]. If they
// are those that it knows in each other's places, and a bill that was not released or a stage is there, of a partner or
// by default, it changes nothing and returns a [*SwappedError]. Of a replica that still runs with other sides it knows
// nothing.
func (s *Store) Sides(ctx context.Context, oldSide, newSide string) error {
	if oldSide == "" || newSide == "" || oldSide == newSide {
		return fmt.Errorf("store: a rollout needs two sides, not %q and %q", oldSide, newSide)
	}
	if err := storable(map[string]string{"the old side": oldSide, "the new side": newSide}); err != nil {
		return err
	}
	asked := sides{oldSide, newSide}
	// Nearly always nothing has changed: then nobody waits for a look at all bills.
	known, err := read(ctx, s, "reading the sides of the rollout", func(ctx context.Context, q queries) (sides, error) {
		return scanSides(q.QueryRowContext(ctx, "SELECT old_side, new_side FROM billbridge_rollout"))
	})
	if err != nil || known == asked {
		return err
	}
	// A value: an error would undo what others wrote in the same transaction.
	refusal, err := write(ctx, s, "changing the sides of the rollout", func(ctx context.Context, q queries) (refusal, err error) {
		// It changes nothing, but until it commits, other replicas wait here with their sides, and with their stages.
		known, err := scanSides(q.QueryRowContext(ctx, "UPDATE billbridge_rollout SET old_side = old_side RETURNING old_side, new_side"))
		if err != nil {
			return nil, err
		}
		if refusal, err := asked.refused(ctx, q, known); err != nil || refusal != nil {
			return refusal, err
		}
		_, err = q.ExecContext(ctx, "UPDATE billbridge_rollout SET old_side = $1, new_side = $2", asked.old, asked.new)
		return nil, err
	})
	if err == nil {
		err = refusal
	}
	return err
}

// sides are the names of two upstreams, "" before there were any.
type sides struct{ old, new string }

func scanSides(row *sql.Row) (known sides, err error) {
	err = row.Scan(&known.old, &known.new)
	return known, err
}

// refused is why sides cannot follow those that are known, nil if they can.
func (asked sides) refused(ctx context.Context, q queries, known sides) (refusal, err error) {
	if asked == (sides{known.new, known.old}) {
		var decided bool
		if err := q.QueryRowContext(ctx, `
			SELECT EXISTS (SELECT 1 FROM billbridge_stages)
			OR EXISTS (SELECT 1 FROM billbridge_owners WHERE state <> 'released')`).Scan(&decided); err != nil {
			return nil, err
		}
		if decided {
			return &SwappedError{asked.old, asked.new}, nil
		}
	}
	var stranger sql.NullString // NULL if there is none
	if err := q.QueryRowContext(ctx, `
		SELECT min(upstream) FROM billbridge_owners WHERE upstream NOT IN ($1, $2) AND state <> 'released'`,
		asked.old, asked.new).Scan(&stranger); err != nil {
		return nil, err
	}
	if stranger.Valid {
		return &StrangerError{stranger.String, asked.old, asked.new}, nil
	}
	return nil, nil
}
