package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
)

// A Stage is the stage of a partner in the rollout. Only the caller knows the meaning of the names.
type Stage struct {
	Partner partner.ID // full; "" for all that have no stage of their own
	Stage   string
	Percent int // of a stage that has one; 0 to 100
	By      string
	At      time.Time
	Forced  bool // set in spite of blocking reasons
}

// A Declaration is who declared something, and when. It is zero if nobody did.
type Declaration struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"` // of the kill switch
}

// An Author makes a decision, and may say why.
type Author struct{ Name, Reason string }

// A Rollout is what the store has of the rollout at one moment: its revision, the kill switch and the last restore.
type Rollout struct {
	Revision int64
	Stopped  Declaration // the kill switch; zero while it is off
	Restored Declaration // the last restore from a backup
	Started  time.Time   // when a rollout first ran on this store; zero once it has begun
	Begun    Declaration // see Begun; zero before
	Stages   []Stage     // sorted by partner, the default first

	// ConfigDefault is the default stage of the config that ran last, "" if none did.
	ConfigDefault string
}

// An Action is the kind of a Change.
type Action string

// The actions.
const (
	Staged         Action = "stage"
	Stopped        Action = "stop"
	Resumed        Action = "resume"
	Restored       Action = "restored"
	Reset          Action = "reset"  // of counts
	Begun          Action = "begin"  // of the rollout, on this store
	Moved          Action = "moved"  // an upstream may get another address
	Assigned       Action = "assign" // a bill to an upstream
	ClockConfirmed Action = "clock"

	OutcomeDismissed Action = "dismiss" // the unknown outcomes of a bill

	WaveChanged Action = "wave" // Subject is its name, From and To its states; with a partner: that may go on

	CallbackReplayed Action = "replay" // of one callback, or of several
	CallbackDropped  Action = "drop"
	AddressAssigned  Action = "address" // the partner's, for a callback address whose row was lost

	KeyAdded      Action = "key_add" // a further key of the partner
	Reloaded      Action = "reload"  // of the config
	TokensChanged Action = "tokens"  // by a reload: From are those that are gone, To those that are new
	SignedIn      Action = "sign_in" // a visitor of the console, by a token
	BackedUp      Action = "backup"  // of the store
)

// A Change is one entry of the audit log. Entries are never removed.
type Change struct {
	Revision int64 // that it made; they grow
	Action   Action
	By       string
	At       time.Time
	// the partner of the stage ("" for the default), of the counts ("" for all) or of the bill; else ""
	Partner partner.ID
	// the bill that was assigned, the upstream that may move, the callback or how many and which; else ""
	Subject string
	// stages, a bill's upstreams, or a callback's states; From is "" if there was none, To if there is none any more
	From, To               string
	FromPercent, ToPercent int
	Forced                 bool
	Overridden             string // the reasons that were overridden, if Forced
	Evidence               string // at that time, or why a wave came into its state
	Reason                 string // that By gave; "" if none

	// the stages of Partner and of the default by which Staged was decided; nil if they do not matter. Not in the log
	Decided []Stage
}

// Change makes a decision about the rollout, and records it in the audit log. Another action is only recorded.
//
//   - Staged puts Partner, or the default, into the stage To; "" removes its stage. Neither the kill switch nor another
//     partner changes. ErrNotFound: there is no stage to remove. ErrState: the partner is not where Decided has it.
//   - Stopped turns the kill switch on; the stages stay. [*AlreadyStopped]: it is on, and the first declaration stays.
//   - Resumed turns it off. ErrState: it is off.
//   - Restored declares that the store was restored from a backup. From then on only owned bills are certain: a bill
//     that the ledger does not know may have been made after the backup, and one that was pending or released may be at
//     another upstream.
//   - Begun declares that the new upstream has no bills of partners except those in the ledger: a bill that the ledger
//     does not know was not made there. ErrState: it was declared before.
//   - Moved declares that the upstream Subject will get another address and is the same backend with the same bills,
//     for one change within 24 hours. ErrNotFound: the store does not know it.
//   - Reset removes what was counted of Partner, or of all for "", by any version of the table. What replicas have
//     counted and not added yet is added later.
//   - Assigned makes the upstream To the owner of the bill Subject, whatever its row says. Creates of the bill that are
//     still under way do not change that.
func (s *Store) Change(ctx context.Context, c Change) error {
	return s.change(ctx, c, func(q tx, c *Change) {
		switch c.Action {
		case Staged:
			if c.Decided != nil && standing(q, c.Partner) != standingIn(c.Decided, c.Partner) {
				q.fail(ErrState)
			}
			if setStage(q, c); c.From == "" && c.To == "" {
				q.fail(ErrNotFound)
			}
		case Stopped:
			is := value[Declaration](q, "SELECT stopped_by, stopped, stopped_reason FROM billbridge_rollout")
			if !is.At.IsZero() {
				q.fail(&AlreadyStopped{is})
			}
			q.exec("UPDATE billbridge_rollout SET stopped = $1, stopped_by = $2, stopped_reason = $3",
				c.At, c.By, c.Reason)
		case Resumed:
			oneRow(q, ErrState, `
				UPDATE billbridge_rollout SET stopped = NULL, stopped_by = '', stopped_reason = ''
					WHERE stopped IS NOT NULL`)
		case Restored:
			restored(q, c)
		case Begun:
			oneRow(q, ErrState, `
				UPDATE billbridge_rollout SET begun = $1, begun_by = $2, started = NULL WHERE begun IS NULL`,
				c.At, c.By)
		case Moved:
			oneRow(q, ErrNotFound, `
				UPDATE billbridge_upstreams SET may_move = $2, may_move_by = $3 WHERE name = $1`, c.Subject, c.At, c.By)
		case Reset:
			s.lock(q, exclusive, counts)
			q.exec("DELETE FROM billbridge_counts WHERE partner = $1 OR $1 = ''", c.Partner)
		case Assigned:
			q.fail(ownable(c.Partner, c.Subject, c.At, c.To))
			known := storedBill(q, c.Partner, c.Subject)
			c.From = known.Upstream
			s.apply(q, known, []ledger.Event{{Call: ledger.Call{At: c.At, Upstream: c.To}, What: ledger.Assigned{}}})
		default:
		}
	})
}

// setStage puts the partner of a change into its stage, or into the default if that has no name.
func setStage(q tx, c *Change) {
	was, _ := find[position](q, "SELECT stage, percent FROM billbridge_stages WHERE partner = $1", c.Partner)
	c.From, c.FromPercent = was.Stage, was.Percent
	if c.ToPercent < 0 || c.ToPercent > 100 {
		q.fail(fmt.Errorf("a stage needs 0 to 100 percent, not %d", c.ToPercent))
	}
	if c.To == "" {
		q.exec("DELETE FROM billbridge_stages WHERE partner = $1", c.Partner)
		return
	}
	q.exec("INSERT INTO billbridge_stages ("+stageColumns+`) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (partner) DO UPDATE SET stage = excluded.stage, percent = excluded.percent,
			set_by = excluded.set_by, set_at = excluded.set_at, forced = excluded.forced`,
		c.Partner, c.To, c.ToPercent, c.By, c.At, c.Forced)
}

// stageColumns are the columns of a Stage.
const stageColumns = "partner, stage, percent, set_by, set_at, forced"

// A position is a stage with its percentage.
type position struct {
	Stage   string
	Percent int
}

// standing is where a partner is: in its own stage, or else in the default, which is zero if that is the config's.
func standing(q tx, id partner.ID) [2]position {
	return standingIn(
		list[Stage](q, "SELECT "+stageColumns+" FROM billbridge_stages WHERE partner IN ('', $1)", id), id)
}

func standingIn(stages []Stage, id partner.ID) (own [2]position) {
	for _, s := range stages {
		switch s.Partner {
		case id:
			return [2]position{{s.Stage, s.Percent}}
		case "":
			own[1] = position{s.Stage, s.Percent}
		}
	}
	return own
}

// AlreadyStopped is the ErrState of a kill switch that is on already: by whom, and since when.
type AlreadyStopped struct{ Declaration }

func (*AlreadyStopped) Error() string { return "store: the kill switch is on already" }

func (*AlreadyStopped) Unwrap() error { return ErrState }

func restored(q tx, c *Change) {
	q.exec("UPDATE billbridge_rollout SET restored = $1, restored_by = $2", c.At, c.By)
}

// oneRow changes one row by a statement. If there is no such row, the change is undone with the error otherwise.
func oneRow(q tx, otherwise error, statement string, args ...any) {
	if q.exec(statement, args...) == 0 {
		q.fail(otherwise)
	}
}

// change makes a change and records it in the audit log.
func (s *db) change(ctx context.Context, c Change, do func(tx, *Change)) error {
	if err := checkDecision(c.author(), c.At); err != nil {
		return err
	}
	if c.Partner != "" && !c.Partner.IsFull() {
		return fmt.Errorf("store: a change needs the full hash of a partner, or none for all, not %q", c.Partner)
	}
	c.Forced = c.Forced || c.Overridden != ""
	return s.update(ctx, "changing the rollout", func(q tx) { changed(q, c, do) })
}

func (c Change) author() Author { return Author{c.By, c.Reason} }

// checkDecision refuses a decision that the audit log cannot record.
func checkDecision(by Author, at time.Time) error {
	if by.Name == "" || at.IsZero() {
		return errors.New("store: a change needs who made it, and when")
	}
	return columnValues([]any{by.Name, by.Reason})
}

// changed makes and records a change in the caller's transaction. It works on a copy of c, because the transaction
// may run again. It returns the revision of the change.
func changed(q tx, c Change, do func(tx, *Change)) (revision int64) {
	// First, to lock the row: other replicas wait until this commits, and then see the change.
	c.Revision = nextRevision(q, c.At)
	do(q, &c)
	q.exec("INSERT INTO billbridge_audit ("+auditColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		c.Revision, string(c.Action), c.By, c.At, c.Partner, c.Subject, c.From, c.To, c.FromPercent, c.ToPercent,
		c.Forced, c.Overridden, c.Evidence, c.Reason)
	return c.Revision
}

// auditColumns are the columns of a Change.
const auditColumns = "revision, action, done_by, done_at, partner, subject, from_stage, to_stage, from_percent, " +
	"to_percent, forced, overridden, evidence, reason"

// audited records a change in the audit log, in the transaction that makes it.
func audited(q tx, c Change) { changed(q, c, func(tx, *Change) {}) }

// nextRevision gives the rollout a new revision, by which replicas see that it has changed. It is at least the time,
// so that changes after the restore of an old backup do not repeat a revision that a replica has. It locks the row
// until the transaction ends: revisions are committed in their order.
func nextRevision(q tx, at time.Time) (revision int64) {
	return value[int64](q, `
		UPDATE billbridge_rollout SET revision = CASE WHEN revision < $1 THEN $1 ELSE revision + 1 END
			RETURNING revision`, at)
}

// Revision changes with every change of the rollout, and is cheap to read. A replica reads the Rollout when the
// revision is not the one that it has, also when it is lower: that of a restored backup is.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	return readOne[int64](ctx, s.db, "reading the revision of the rollout", "SELECT revision FROM billbridge_rollout")
}

// A knownStages are the stages as last read.
type knownStages struct {
	revision, generation int64 // in an older database another decision can have the same revision
	stages               []Stage
}

// Rollout returns the state of the rollout. The caller must not change the stages: calls share them while the
// revision is the same.
func (s *Store) Rollout(ctx context.Context) (Rollout, error) {
	generation := s.Generation() // before: what is read is of this one, or of a later one
	return read(ctx, s.db, "reading the rollout", func(q tx) Rollout {
		const state = `SELECT r.revision, r.stopped_by, r.stopped, r.stopped_reason, r.restored_by, r.restored, '',
			r.started, r.begun_by, r.begun, '', r.config_default`
		r := value[Rollout](q, state+" FROM billbridge_rollout r")
		if known := s.stages.Load(); known != nil && known.revision == r.Revision && known.generation == generation {
			r.Stages = known.stages
			return r
		}
		// One at a time, so that what was read first does not replace what was read later.
		s.deciding.Lock()
		defer s.deciding.Unlock()
		// One statement, so that all of it is from one moment. Without any stage it has one row, with no name of a
		// stage.
		for _, row := range list[struct {
			Rollout Rollout
			Stage   Stage
		}](q, state+`,
				coalesce(s.partner, ''), coalesce(s.stage, ''), coalesce(s.percent, 0), coalesce(s.set_by, ''),
				s.set_at, coalesce(s.forced, 0)
			FROM billbridge_rollout r LEFT JOIN billbridge_stages s ON true ORDER BY s.partner`) {
			row.Rollout.Stages = r.Stages
			if r = row.Rollout; row.Stage.Stage != "" {
				r.Stages = append(r.Stages, row.Stage)
			}
		}
		s.readKeys(q)
		if q.err == nil {
			s.stages.Store(&knownStages{r.Revision, generation, r.Stages})
		}
		return r
	})
}

// Start records that a rollout with bill ownership runs on this store. Until [Begun] is called, the ledger may be
// incomplete: a new store may have replaced one that was lost.
func (s *Store) Start(ctx context.Context, now time.Time) error {
	return s.update(ctx, "starting the rollout", func(q tx) {
		if q.exec("UPDATE billbridge_rollout SET started = $1 WHERE begun IS NULL AND started IS NULL", now) > 0 {
			nextRevision(q, now)
		}
	})
}

// SetConfigDefault records the default stage of the running config, so that the next start sees whether it has changed.
// Another one moves all partners without a stage of their own, unless a default was set: that is in the audit log, by
// [ByConfig].
func (s *Store) SetConfigDefault(ctx context.Context, stage string, at time.Time) error {
	return s.update(ctx, "recording the default stage of the config", func(q tx) {
		was := value[string](q, "SELECT config_default FROM billbridge_rollout")
		if was == stage || q.exec("UPDATE billbridge_rollout SET config_default = $1 WHERE config_default = $2",
			stage, was) == 0 { // another replica was faster
			return
		}
		if _, set := find[string](q, "SELECT stage FROM billbridge_stages WHERE partner = ''"); was != "" && !set {
			audited(q, Change{Action: Staged, By: ByConfig, At: at, From: was, To: stage})
		}
	})
}
