package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

const (
	waveEvery = time.Second // how often waves are looked at
	wavePart  = 0.25        // of the time that looking at a wave may take: with many partners it needs CPU time
)

// waves makes the steps of waves. Each gateway does so: a step is stored only if nothing was changed since it was
// decided, so that it is made once, and none is made after a person's pause.
type waves struct {
	waveVerbs
	next map[string]time.Time // by wave: when it is looked at again
	// of the rollout, from before the waves were read, or after the last step of this gateway
	revision int64
}

// RunWaves makes the steps of waves until ctx ends.
func (o waveVerbs) RunWaves(ctx context.Context) {
	if o.Store == nil || o.Rollout == nil {
		return
	}
	w := &waves{waveVerbs: o, next: map[string]time.Time{}}
	routing.Every(ctx, waveEvery, o.Logger, "waves are not at work; the gateway tries again", w.step)
}

// step makes the steps that can be made now.
func (w *waves) step(ctx context.Context) (err error) {
	defer routing.Recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	if w.revision, err = w.Store.Revision(ctx); err != nil {
		return err
	}
	all, err := w.Store.Waves(ctx, false)
	if err != nil || len(all) == 0 {
		return err
	}
	for _, one := range all {
		began := time.Now()
		if began.Before(w.next[one.Name]) {
			continue
		}
		if failed := w.stepOne(ctx, one); failed != nil { // the other waves go on
			err = errors.Join(err, fmt.Errorf("wave %s: %w", one.Name, failed))
		}
		w.next[one.Name] = began.Add(time.Duration(float64(time.Since(began)) / wavePart))
	}
	return err
}

// stepOne looks at a wave, and makes the steps that can be made now: those back, then one forward.
func (w *waves) stepOne(ctx context.Context, one store.Wave) (err error) {
	defer routing.Recovered(&err)
	view, err := w.lookAt(ctx, one, 0, listedMost)
	if err != nil {
		return err
	}
	current := view.Revision == w.revision // else one and partners may be of before a change, such as a person's pause
	moved := false
	if current {
		for _, r := range view.Back() {
			if len(r.Blocks) == 0 { // an error of one partner holds up no other
				err, moved = errors.Join(err, w.make(ctx, &view, r, false)), true
			}
		}
	}
	if view.Pause.Kind != "" && one.State == store.WaveRunning {
		return errors.Join(err, w.end(ctx, one, store.WavePaused, view.Pause))
	}
	if !current || moved { // what is left depends on what has changed
		return err
	}
	if view.Finished() {
		why := evidence.Say("wave_done")
		if one.State == store.WaveBack {
			why = evidence.Say("wave_rolled_back")
		}
		return w.end(ctx, one, store.WaveEnded, why)
	}
	if forward, ok := view.Forward(); ok {
		return w.make(ctx, &view, forward, true)
	}
	return nil
}

// end pauses or ends a wave, unless it has come into another state meanwhile, or into the same again.
func (w *waves) end(ctx context.Context, one store.Wave, state store.WaveState, why evidence.Note) error {
	to := store.Wave{Name: one.Name, State: state, By: moves.ByWave(one.Name), Why: why.Stored()}
	return ignoreState(w.setWave(ctx, to, one.Since, one.State))
}

// make makes a step. If the rollout has changed since it was decided, nothing is done: the wave is looked at again.
func (w *waves) make(ctx context.Context, v *moves.View, r moves.Row, forward bool) error {
	now := w.Now()
	step := store.WaveStep{
		Wave: v.Name, Revision: v.Revision, Forward: forward, Stepped: v.Due(now, 2*waveEvery),
		Stage: store.Stage{
			Partner: r.Partner, Stage: string(r.Next.Stage), Percent: r.Next.Percent, By: moves.ByWave(v.Name), At: now,
		},
		Evidence: evidenceOn(r.Partner, v.Facts),
	}
	switch {
	case v.State == store.WaveBack && r.From == "":
		step.Stage.Stage, step.Stage.Percent = "", 0
	case v.State != store.WaveBack && !forward:
		step.Held = evidence.Say("wave_failed", r.Failed).Stored()
	}
	revision, err := w.Store.StepWave(ctx, step)
	if err != nil {
		return ignoreState(err)
	}
	v.Revision, w.revision = revision, revision
	w.Logger.Warn("a wave moved a partner", "wave", v.Name, "partner", r.Partner.Short(), "from", r.At.String(),
		"to", r.Next.String(), "forward", forward, "evidence", step.Evidence)
	return w.Rollout.Follow(context.WithoutCancel(ctx))
}

// ignoreState is an error, but for that of a decision that something else has overtaken.
func ignoreState(err error) error {
	if errors.Is(err, store.ErrState) {
		return nil
	}
	return err
}
