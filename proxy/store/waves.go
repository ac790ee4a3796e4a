package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"billbridge/proxy/partner"
)

// ErrInWave: a partner is in another wave that has not ended, or there is a wave with that name.
var ErrInWave error = sentinel("a wave with that name, or with one of the partners, is there already")

// A WaveState is what a wave does.
type WaveState string

// The states of waves.
const (
	WaveRunning WaveState = "running"
	WavePaused  WaveState = "paused"
	WaveBack    WaveState = "rolling_back" // its partners go back to where they were
	WaveEnded   WaveState = "ended"
)

// A Wave moves partners. Only the caller knows the meaning of Plan and Why.
type Wave struct {
	Name    string
	Plan    string // JSON
	State   WaveState
	Why     string // it came into its state; "" if a person wanted it
	By      string
	Reason  string    // that By gave for the state; "" if none
	Since   time.Time // when it came into its state
	Created time.Time
	Stepped time.Time // the last step forward; zero before
}

// A WavePartner is a partner of a wave.
type WavePartner struct {
	Partner     partner.ID
	From        string    // its own stage before the wave; "" if it had none
	FromPercent int       // of From
	Moved       time.Time // the last step of the wave; zero before
	Held        string    // why the wave took it back; "" if it did not
}

// CreateWave starts a wave. It returns ErrInWave, and has started nothing, if there is a wave with that name, or if one
// of the partners is in another one that has not ended.
func (s waves) CreateWave(ctx context.Context, w Wave, partners []WavePartner) error {
	for _, p := range partners {
		if err := needs(p.Partner, w.Created, w.Name, w.Plan); err != nil {
			return err
		}
	}
	c := Change{
		Action: WaveChanged, By: w.By, Reason: w.Reason, At: w.Created, Subject: w.Name, To: string(WaveRunning),
	}
	return s.change(ctx, c, func(q tx, c *Change) {
		if q.exec(`
			INSERT INTO billbridge_waves (name, plan, state, why, state_by, reason, since, created)
			VALUES ($1, $2, $3, '', $4, $6, $5, $5) ON CONFLICT (name) DO NOTHING`,
			w.Name, w.Plan, c.To, c.By, c.At, c.Reason) == 0 {
			q.fail(ErrInWave)
		}
		all, err := json.Marshal(partners) // one argument: there can be thousands
		q.fail(err)
		q.exec(`
			INSERT INTO billbridge_wave_partners (wave, partner, place, active, from_stage, from_percent, held)
			SELECT $1, `+s.waveRows, w.Name, string(all))
		if _, twice := find[string](q, `SELECT partner FROM billbridge_wave_partners WHERE active = 1
			GROUP BY partner HAVING count(*) > 1 LIMIT 1`); twice {
			q.fail(ErrInWave)
		}
	})
}

// The waves are those of a store.
type waves struct{ *db }

const waveColumns = "name, plan, state, why, state_by, reason, since, created, stepped"

// Waves returns the waves: those that have not ended, or all of them, the last that was created first.
func (s waves) Waves(ctx context.Context, ended bool) ([]Wave, error) {
	return readAll[Wave](ctx, s.db, "reading waves", `
		SELECT `+waveColumns+` FROM billbridge_waves
		WHERE state <> 'ended' OR $1 = 1 ORDER BY created DESC, name`, ended)
}

// WavePartners returns the partners of a wave in its order.
func (s waves) WavePartners(ctx context.Context, wave string) ([]WavePartner, error) {
	return readAll[WavePartner](ctx, s.db, "reading the partners of a wave", `
		SELECT partner, from_stage, from_percent, moved, held FROM billbridge_wave_partners
		WHERE wave = $1 ORDER BY place`, wave)
}

// InWaves returns the wave that has not ended of each partner that is in one.
func (s waves) InWaves(ctx context.Context) (map[partner.ID]string, error) {
	return read(ctx, s.db, "reading the partners of waves", func(q tx) map[partner.ID]string {
		return pairs[partner.ID, string](q, "SELECT partner, wave FROM billbridge_wave_partners WHERE active = 1")
	})
}

// SetWave changes the state of a wave to that of w, if it has one of the states from, and came into it at since; else
// it returns ErrState. A zero since is any time.
func (s waves) SetWave(ctx context.Context, w Wave, since time.Time, from ...WaveState) error {
	c := Change{
		Action: WaveChanged, By: w.By, Reason: w.Reason, At: w.Since, Subject: w.Name,
		To: string(w.State), Evidence: w.Why,
	}
	return s.change(ctx, c, func(q tx, c *Change) {
		was := value[Wave](q, "SELECT "+waveColumns+" FROM billbridge_waves WHERE name = $1", c.Subject)
		c.From = string(was.State)
		if !slices.Contains(from, was.State) || !since.IsZero() && !since.Equal(was.Since) {
			q.fail(ErrState)
		}
		q.exec("UPDATE billbridge_waves SET state = $1, why = $2, state_by = $3, reason = $6, since = $4 "+
			"WHERE name = $5", c.To, w.Why, c.By, c.At, c.Subject, c.Reason)
		if w.State == WaveEnded {
			q.exec("UPDATE billbridge_wave_partners SET active = 0 WHERE wave = $1", c.Subject)
		}
	})
}

// ReleasePartner lets a wave move a partner on that it took back, or that somebody else has moved: where that one is
// now counts as where it was before the wave. mover is who makes the steps of the wave. It returns ErrNotFound if the
// partner is not in the wave, or if that has ended.
func (s waves) ReleasePartner(
	ctx context.Context, wave string, id partner.ID, mover string, by Author, at time.Time,
) error {
	c := Change{Action: WaveChanged, By: by.Name, Reason: by.Reason, At: at, Subject: wave, Partner: id}
	const (
		own  = " FROM billbridge_stages WHERE partner = $2"
		ours = "WHEN EXISTS (SELECT 1" + own + " AND set_by = $3) THEN "
	)
	return s.change(ctx, c, func(q tx, _ *Change) {
		oneRow(q, ErrNotFound, `
			UPDATE billbridge_wave_partners SET held = '', moved = CASE `+ours+`moved END,
				from_stage = CASE `+ours+"from_stage ELSE coalesce((SELECT stage"+own+`), '') END,
				from_percent = CASE `+ours+"from_percent ELSE coalesce((SELECT percent"+own+`), 0) END
			WHERE wave = $1 AND partner = $2 AND active = 1`, wave, id, mover)
	})
}

// A WaveStep moves a partner of a wave.
type WaveStep struct {
	Wave     string
	Stage    Stage // its By is the wave; without a name the partner gets the default
	Revision int64 // of the rollout by which the step was decided
	Forward  bool
	Stepped  time.Time // when a step forward counts as made, for the pace
	Held     string    // why the partner was taken back; "" for other steps
	Evidence string    // for the audit log
}

// StepWave makes a step of a wave. ErrState: since it was decided, another gateway has made a step or a person has
// changed the rollout or a wave, or the kill switch is on and the step is forward; nothing was changed then. The result
// is the new revision.
func (s waves) StepWave(ctx context.Context, step WaveStep) (revision int64, err error) {
	to := step.Stage
	if err := errors.Join(checkDecision(Author{Name: to.By}, to.At), needs(to.Partner, to.At, step.Wave)); err != nil {
		return 0, err
	}
	c := Change{
		Action: Staged, By: to.By, At: to.At, Partner: to.Partner, To: to.Stage, ToPercent: to.Percent,
		Evidence: step.Evidence,
	}
	return write(ctx, s.db, "making a step of a wave", func(q tx) int64 {
		// The row is locked until the transaction ends: no other change of the rollout or of a wave comes between.
		if q.exec(`
			UPDATE billbridge_rollout SET revision = revision WHERE revision = $1 AND (stopped IS NULL OR $2 = 0)`,
			step.Revision, step.Forward) == 0 {
			q.refuse(ErrState)
		}
		return changed(q, c, func(q tx, c *Change) {
			if setStage(q, c); step.Forward {
				q.exec("UPDATE billbridge_waves SET stepped = $1 WHERE name = $2", step.Stepped, step.Wave)
			}
			q.exec("UPDATE billbridge_wave_partners SET moved = $1, held = $2 WHERE wave = $3 AND partner = $4",
				c.At, step.Held, step.Wave, c.Partner)
		})
	})
}
