package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrShared: bills that have an owner would be made ones that nobody owns.
var ErrShared = errors.New("store: rollout.bills is shared in the config, but bills in the ledger are each at one upstream, " +
	"and nobody would be asked at which before one is made: rollout.bills must be separate as long as they are there")

// A StrangerError: bills are at an upstream to which nothing would be sent any more, to read or to cancel them.
type StrangerError struct {
	Upstream string // of several, the first by name
	Old, New string // the sides that were asked for; New is "" where there would be none, and Old gets all calls
}

func (e *StrangerError) Error() string {
	if e.New == "" {
		return fmt.Sprintf("store: there is no rollout in the config, and all calls would go to upstream %q, but bills in the ledger are at upstream %q: "+
			"the rollout section must stay as long as they are there; bills whose last day has passed are swept after rollout.keep", e.Old, e.Upstream)
	}
	return fmt.Sprintf("store: rollout.old is %q and rollout.new is %q in the config, but bills in the ledger are at upstream %q: "+
		"rollout.old or rollout.new must name it as long as they are there", e.Old, e.New, e.Upstream)
}

// A RenamedError: the sides of the rollout are others than before. What was decided of partners would mean something
// else.
type RenamedError struct {
	Old, New       string // the sides that were asked for
	OldWas, NewWas string
	Staying        []string // as it was asked for
}

func (e *RenamedError) Error() string {
	if e.swapped() {
		return fmt.Sprintf("store: rollout.old is %[1]q and rollout.new is %[2]q in the config, the other way round than before, but bills or stages from before are still there, "+
			"and every partner's creates would go to the other side: name %[2]q as rollout.old and %[1]q as rollout.new again, and give partners that are to go back another stage",
			e.Old, e.New)
	}
	return fmt.Sprintf("store: rollout.old is %q and rollout.new is %q in the config, but they were %q and %q before, and stages from before are still there, "+
		"by which partners' creates would go elsewhere at once: name them as before until every partner that has a stage, and the default if it was set, is in one of %v",
		e.Old, e.New, e.OldWas, e.NewWas, e.Staying)
}

func (e *RenamedError) swapped() bool { return e.Old == e.NewWas && e.New == e.OldWas }

// Sides are the two upstreams between which partners move.
type Sides struct {
	Old, New string
	Shared   bool     // both see the same bills: nobody owns one
	Staying  []string // the stages in which nothing of a partner is made at the new side
}

// Sides holds the sides of a rollout to those that the store knows, and from then on knows these. It is called at a
// start, and before a reload takes effect, as the last thing that may refuse it: what the store knows is not taken
// back. Of a replica that still runs with other sides it knows nothing.
//
// It changes nothing and returns
//
//   - a [*StrangerError] if a bill that was not released is at neither side,
//   - a [*RenamedError] if the names are others than before, and a stage that is not one of those that stay is there, of
//     a partner or the default; if they have changed places, for any stage, and for a bill that was not released,
//   - [ErrShared] if a bill that was not released is there, and from now on nobody would own one.
//
// What was made while nobody owned a bill is not in the ledger. When each has an owner again, that is declared as
// [Store.Restored] does it, by "config"; and so it is when the new side is the one that was the old one.
func (s *Store) Sides(ctx context.Context, asked Sides, now time.Time) error {
	if asked.Old == "" || asked.New == "" || asked.Old == asked.New || now.IsZero() {
		return fmt.Errorf("store: a rollout needs two sides and a time, not %q, %q and %s", asked.Old, asked.New, now)
	}
	if err := storable(map[string]string{"the old side": asked.Old, "the new side": asked.New}); err != nil {
		return err
	}
	asked.Staying = slices.Clone(asked.Staying) // it must not change while the writer is at it
	next := func(sides) sides {
		return sides{asked.Old, asked.New, sql.NullBool{Bool: asked.Shared, Valid: true}}
	}
	return s.become(ctx, next, asked.refused, now)
}

// NoSides is Sides for a config without a rollout, whose calls all go to one upstream. If no sides are known, it does
// nothing. If a bill that was not released is at another upstream, it changes nothing and returns a [*StrangerError].
//
// What is made from now on is not in the ledger: that is declared as Sides does it. The names of the sides are no longer
// in force, but the stages still mean them: Sides holds others to them as long as a stage is there that does not stay.
func (s *Store) NoSides(ctx context.Context, upstream string, now time.Time) error {
	if upstream == "" || now.IsZero() {
		return fmt.Errorf("store: without a rollout calls need an upstream, and that a time, not %q and %s", upstream, now)
	}
	if err := storable(map[string]string{"the upstream": upstream}); err != nil {
		return err
	}
	next := func(was sides) sides { return sides{old: was.old, new: was.new} }
	return s.become(ctx, next, func(ctx context.Context, q queries, _ sides) (refusal, err error) {
		stranger, err := billBeside(ctx, q, upstream, upstream)
		if err == nil && stranger != "" {
			refusal = &StrangerError{Upstream: stranger, Old: upstream}
		}
		return refusal, err
	}, now)
}

// sides are what the store knows of them.
type sides struct {
	old, new string       // "" before there were any
	shared   sql.NullBool // not valid where none are in force
}

func scanSides(row *sql.Row) (known sides, err error) {
	err = row.Scan(&known.old, &known.new, &known.shared)
	return known, err
}

// become has the next sides follow those that are known, unless they are refused.
func (s *Store) become(ctx context.Context, next func(was sides) sides, refused func(context.Context, queries, sides) (refusal, err error), now time.Time) error {
	// Nearly always nothing has changed: then nobody waits for a look at all bills.
	known, err := read(ctx, s, "reading the sides of the rollout", func(ctx context.Context, q queries) (sides, error) {
		return scanSides(q.QueryRowContext(ctx, "SELECT old_side, new_side, shared FROM billbridge_rollout"))
	})
	if err != nil || known == next(known) {
		return err
	}
	// A value: an error would undo what others wrote in the same transaction.
	refusal, err := write(ctx, s, "changing the sides of the rollout", func(ctx context.Context, q queries) (refusal, err error) {
		// It changes nothing, but until it commits, other replicas wait here with their sides, and with their stages.
		was, err := scanSides(q.QueryRowContext(ctx, "UPDATE billbridge_rollout SET old_side = old_side RETURNING old_side, new_side, shared"))
		if err != nil {
			return nil, err
		}
		to := next(was)
		if refusal, err := refused(ctx, q, was); err != nil || refusal != nil {
			return refusal, err
		}
		// Nothing is noted while nobody owns a bill, nor while there are no sides; and a new side that was the old one has
		// bills from before.
		if was.shared.Valid && !to.shared.Valid || was.shared.Bool && !to.shared.Bool || was.old != "" && to.new == was.old {
			if err := changed(ctx, q, Change{Action: Restored, By: "config", At: now}, restored); err != nil {
				return nil, err
			}
		}
		shared := any(nil)
		if to.shared.Valid {
			shared = bit(to.shared.Bool)
		}
		_, err = q.ExecContext(ctx, "UPDATE billbridge_rollout SET old_side = $1, new_side = $2, shared = $3", to.old, to.new, shared)
		return nil, err
	})
	if err == nil {
		err = refusal
	}
	return err
}

// refused is why sides cannot follow those that are known, nil if they can.
func (asked Sides) refused(ctx context.Context, q queries, was sides) (refusal, err error) {
	bill, err := billBeside(ctx, q, "", "") // of any upstream
	if err != nil {
		return nil, err
	}
	if was.old != "" && (asked.Old != was.old || asked.New != was.new) {
		renamed := &RenamedError{asked.Old, asked.New, was.old, was.new, asked.Staying}
		// Out of force they may change places: calls go where the config says as it is.
		swapped := was.shared.Valid && renamed.swapped()
		stages, err := stagesInUse(ctx, q)
		if err != nil {
			return nil, err
		}
		moving := slices.ContainsFunc(stages, func(stage string) bool { return swapped || !slices.Contains(asked.Staying, stage) })
		if moving || swapped && bill != "" {
			return renamed, nil
		}
	}
	stranger, err := billBeside(ctx, q, asked.Old, asked.New)
	switch {
	case err != nil:
		return nil, err
	case stranger != "":
		return &StrangerError{stranger, asked.Old, asked.New}, nil
	case asked.Shared && bill != "":
		return ErrShared, nil
	}
	return nil, nil
}

// billBeside is an upstream other than those two at which there is a bill that was not released, of several the first by
// name, and "" if there is none.
func billBeside(ctx context.Context, q queries, one, other string) (string, error) {
	var upstream sql.NullString // NULL if there is none
	err := q.QueryRowContext(ctx, `
		SELECT min(upstream) FROM billbridge_owners WHERE upstream NOT IN ($1, $2) AND state <> 'released'`, one, other).Scan(&upstream)
	return upstream.String, err
}

// stagesInUse are those that partners have, or the default.
func stagesInUse(ctx context.Context, q queries) (all []string, err error) {
	rows, err := q.QueryContext(ctx, "SELECT DISTINCT stage FROM billbridge_stages")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var stage string
		if err := rows.Scan(&stage); err != nil {
			return nil, err
		}
		all = append(all, stage)
	}
	return all, rows.Err()
}
