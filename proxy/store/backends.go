package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// errShared: bills: shared is configured, but the ledger has bills with an owner.
var errShared = errors.New("store: rollout.bills is shared in the config, but bills in the ledger are each at " +
	"one upstream, " +
	"and with shared bills a bill could be created at both: rollout.bills must be separate as long as they are there")

// compared refuses separate bills: the answers of backends with bills of their own cannot be compared.
func compared(stage string) error {
	return fmt.Errorf("store: rollout.bills is separate in the config, but a partner that has a stage, or the default "+
		"if it was set, is in %s, a stage of shared bills: rollout.bills must be shared until each is in another one",
		stage)
}

// unconfigured refuses a config because bills are at an upstream that would get no calls any more, so that they could
// not be read or cancelled. Without a rollout next is "", and old gets all calls.
func unconfigured(upstream, old, next string) error {
	if next == "" {
		return fmt.Errorf("store: there is no rollout in the config, and all calls would go to upstream %q, "+
			"but bills in the ledger are at upstream %q: "+
			"the rollout section must stay as long as they are there; bills are removed two years after "+
			"their last day", old, upstream)
	}
	return fmt.Errorf("store: rollout.old is %q and rollout.new is %q in the config, but bills in the ledger "+
		"are at upstream %q: "+
		"rollout.old or rollout.new must name it as long as they are there", old, next, upstream)
}

// renamed refuses backends that are not those of before: the stages of partners would mean something else.
func renamed(asked Backends, oldWas, newWas string) error {
	if asked.Old == newWas && asked.New == oldWas {
		return fmt.Errorf("store: rollout.old is %[1]q and rollout.new is %[2]q in the config, the other way "+
			"round than before, but bills or stages from before are still there, "+
			"and every partner's creates would go to the other backend: name %[2]q as rollout.old and %[1]q as "+
			"rollout.new again, and give partners that are to go back another stage",
			asked.Old, asked.New)
	}
	return fmt.Errorf("store: rollout.old is %q and rollout.new is %q in the config, but they were %q and %q "+
		"before, and stages from before are still there, "+
		"which would send the creates of partners to another backend: name them as before until every partner "+
		"that has a stage, and the default if it was set, is in one of %v or has none any more",
		asked.Old, asked.New, oldWas, newWas, asked.Staying)
}

// Backends are the two upstreams between which partners move, or the one that all calls go to.
type Backends struct {
	Old, New string
	Shared   bool     // both see the same bills, which have no owner
	Staying  []string // the stages in which no bill of a partner is created at the new backend
	Compared string   // the stage that there is only with shared bills

	Alone  string // without a rollout: where all calls go
	DryRun bool   // change nothing: only report whether it would be refused
}

// SetBackends compares the backends of a config with those that the store knows, and then stores them. It is called
// at a start and before a reload takes effect, as the last check that may refuse the config: it is not undone. It
// does not know of replicas that still run with other backends.
//
// It changes nothing and returns an error
//
//   - if a bill that was not released is at neither backend, or without a rollout not at the upstream of all calls,
//   - if the names differ from those of before and a partner or the default has a stage that is not in Staying; if
//     the two names were exchanged, also if there is any stage or any bill that was not released,
//   - if bills are to be shared and there is a bill that was not released,
//   - if bills are to be separate and a partner or the default is in the stage Compared.
//
// The ledger does not have the bills that were made while bills were shared, without a rollout, or before the gateway
// was there. If an upstream with such bills becomes the new backend of separate bills, that is recorded like
// [Restored], by "config". If it becomes the old backend directly after a time without a rollout, the settling
// period of every partner starts again, also of partners whose stage was forced. Without a rollout the names are not
// in force, but the stages still refer to them: other names are refused as long as a stage outside Staying is there.
func (s *Store) SetBackends(ctx context.Context, asked Backends, now time.Time) error {
	alone := asked.Alone != "" && asked.Old == "" && asked.New == ""
	if !alone && (asked.Alone != "" || asked.Old == "" || asked.New == "" || asked.Old == asked.New) || now.IsZero() {
		return fmt.Errorf("store: a rollout needs two backends and a time, and calls without one an upstream, "+
			"not %q, %q, %q and %s", asked.Old, asked.New, asked.Alone, now.Format(time.RFC3339))
	}
	asked.Staying = slices.Clone(asked.Staying) // it must not change while the writer reads it
	// Nearly always nothing has changed: then the bills need not be read.
	known, err := readOne[knownBackends](ctx, s.db, "reading the backends of the rollout",
		"SELECT "+backendColumns+" FROM billbridge_rollout")
	// With shared bills the ledger must be looked at: a replica that still runs with separate bills may have recorded
	// one.
	if err != nil || known == asked.follow(known) && !asked.Shared {
		return err
	}
	return s.update(ctx, "changing the backends of the rollout", func(q tx) {
		// It changes nothing, but locks the row: other replicas wait with their backends and stages until this commits.
		was := value[knownBackends](q, "UPDATE billbridge_rollout SET shared = shared RETURNING "+backendColumns)
		to := asked.follow(was)
		if asked.check(q, was); q.err != nil || asked.DryRun || to == was {
			return
		}
		owned := to.Shared.Valid && !to.Shared.Bool
		if off := was.Shared.Valid && !to.Shared.Valid; off || owned && to.has(asked.New) {
			changed(q, Change{Action: Restored, By: ByConfig, At: now}, restored)
		}
		if owned && was.Alone == asked.Old {
			settleAgain(q, now)
		}
		shared := any(nil)
		if to.Shared.Valid {
			shared = to.Shared.Bool
		}
		q.exec(`
			UPDATE billbridge_rollout SET old_upstream = $1, new_upstream = $2, shared = $3, alone = $4, past = $5`,
			to.Old, to.New, shared, to.Alone, to.Past)
	})
}

// settleAgain begins the settling period of every partner anew: until now the old backend got creates that no ledger
// has, and one of them may still be on its way.
func settleAgain(q tx, now time.Time) {
	q.exec("UPDATE billbridge_seen SET seen = $1 WHERE seen < $1", now)
	// An operator who forced a stage was warned of the calls under way then, not of these.
	if q.exec("UPDATE billbridge_stages SET forced = 0 WHERE forced = 1") > 0 {
		nextRevision(q, now)
	}
}

// knownBackends are the backends as the store has them.
type knownBackends struct {
	Old, New string       // "" before there were any
	Shared   sql.NullBool // not valid without a rollout
	Alone    string       // the upstream of all calls, if the last config had no rollout
	Past     string       // upstreams that may have bills which the ledger never had, each followed by a line break
}

const backendColumns = "old_upstream, new_upstream, shared, alone, past"

// follow is what the store has after the asked backends took the place of those before.
func (asked Backends) follow(was knownBackends) knownBackends {
	to := was
	if asked.Alone != "" {
		to.Shared, to.Alone = sql.NullBool{}, asked.Alone
		to.add(was.Old)
		to.add(asked.Alone)
		return to
	}
	to.Old, to.New, to.Shared, to.Alone = asked.Old, asked.New, sql.NullBool{Bool: asked.Shared, Valid: true}, ""
	if was.Old != asked.Old {
		to.add(was.Old)
	}
	if asked.Shared {
		to.add(asked.New)
	}
	return to
}

func (s *knownBackends) add(past string) {
	if past != "" && !s.has(past) {
		s.Past += past + "\n"
	}
}

func (s *knownBackends) has(upstream string) bool {
	return strings.Contains("\n"+s.Past, "\n"+upstream+"\n")
}

// check refuses the asked backends if they cannot take the place of those before.
func (asked Backends) check(q tx, was knownBackends) {
	// The upstreams with a bill that was not released.
	owners := list[string](q, `
		SELECT upstream FROM billbridge_bills WHERE state IN ('pending', 'owned')
		UNION SELECT also_at FROM billbridge_bills WHERE state IN ('pending', 'owned') AND also_at <> ''
		ORDER BY upstream`)
	// Of partners and of the default.
	stages := list[string](q, "SELECT DISTINCT stage FROM billbridge_stages")
	if asked.Alone == "" && was.Old != "" && (asked.Old != was.Old || asked.New != was.New) {
		// While no rollout is in force the names may be exchanged: calls go where the config says anyway.
		swapped := was.Shared.Valid && asked.Old == was.New && asked.New == was.Old
		moving := slices.ContainsFunc(stages, func(stage string) bool {
			return swapped || !slices.Contains(asked.Staying, stage)
		})
		if moving || swapped && len(owners) > 0 {
			q.refuse(renamed(asked, was.Old, was.New))
		}
	}
	for _, owner := range owners {
		if !slices.Contains([]string{asked.Old, asked.New, asked.Alone}, owner) {
			q.refuse(unconfigured(owner, cmp.Or(asked.Alone, asked.Old), asked.New))
		}
	}
	if asked.Shared && len(owners) > 0 {
		q.refuse(errShared)
	}
	if asked.Alone == "" && !asked.Shared && slices.Contains(stages, asked.Compared) {
		q.refuse(compared(asked.Compared))
	}
}
