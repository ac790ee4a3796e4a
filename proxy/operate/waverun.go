package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/rollout/wave"
	"billbridge/proxy/store"
)

const (
	leadEvery  = time.Second     // how often the gateway that makes the steps of waves renews that
	leadWithin = 4 * time.Second // after so long without a beat another gateway takes over
	markEvery  = 10 * time.Minute
	wavePart   = 0.25 // of the time that looking at a wave may take: with many partners it needs CPU time
)

// waves makes the steps of waves on one gateway at a time. Also without that no step would be made twice: a step is
// stored only if the rollout has not changed since it was decided.
type waves struct {
	*Operator
	gateway string
	lead    store.Lead
	changed time.Time            // when the lead was seen to change
	next    map[string]time.Time // by wave: when it is looked at again
	marks   map[string]marks     // by wave
	unread  map[string]string    // by wave: the last line of the log about partners whose evidence cannot be read
	// of the rollout, from before the waves were read, or after the last step of this gateway
	revision int64
}

// marks are moments from which the calls at the new backend count: since the wave came into its state, or else for ten
// to twenty minutes.
type marks struct {
	since         time.Time // as that of the wave
	first, second mark
}

// A mark has the sums of the hours from that of its moment on, as they were then.
type mark struct {
	at   time.Time
	sums store.Sums
}

// RunWaves makes the steps of waves until ctx ends.
func (o *Operator) RunWaves(ctx context.Context) {
	if o.Store == nil || o.Rollout == nil {
		return
	}
	w := &waves{Operator: o, gateway: rand.Text(), next: map[string]time.Time{}, marks: map[string]marks{}, unread: map[string]string{}}
	rollout.Every(ctx, leadEvery, o.Logger, "waves are not at work; the gateway tries again", w.step)
	if w.lead.Holder == w.gateway {
		end, cancel := withNewTimeout(ctx)
		defer cancel()
		_ = o.Store.EndLead(end, w.gateway) // if it fails, another gateway takes over some seconds later
	}
}

// step makes the steps that can be made now.
func (w *waves) step(ctx context.Context) (err error) {
	defer rollout.Recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	if w.revision, err = w.Store.Revision(ctx); err != nil {
		return err
	}
	all, err := w.Store.Waves(ctx, false)
	if err == nil {
		w.Rollout.SetWaves(all)
	}
	if err != nil || len(all) == 0 {
		return err
	}
	if leads, err := w.leads(ctx); err != nil || !leads {
		return err
	}
	ctx, stop := w.keepLead(ctx)
	defer stop()
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

// leads renews the lead of this gateway, or takes it over from one that has ended. It reports whether this gateway has
// it. Only intervals of this machine's clock count.
func (w *waves) leads(ctx context.Context) (bool, error) {
	known := int64(-1)
	if time.Since(w.changed) > leadWithin {
		known = w.lead.Beat
	}
	lead, err := w.Store.Lead(ctx, w.gateway, known)
	if err != nil {
		return false, err
	}
	if lead != w.lead {
		if lead.Holder == w.gateway && w.lead.Holder != w.gateway {
			w.Logger.Info("this gateway makes the steps of waves from now on")
		}
		w.lead, w.changed = lead, time.Now()
	}
	return lead.Holder == w.gateway, nil
}

// keepLead renews the lead until stop is called: with a slow store, or many partners, looking at the waves may take
// longer than another gateway waits for a beat. If the lead is lost, the context ends.
func (w *waves) keepLead(ctx context.Context) (leading context.Context, stop func()) {
	leading, end := context.WithCancelCause(ctx)
	var beats sync.WaitGroup
	beats.Go(func() {
		for tick := time.Tick(leadEvery); ; {
			select {
			case <-leading.Done():
				return
			case <-tick:
			}
			lead, err := w.Store.Lead(leading, w.gateway, -1)
			if err == nil && lead.Holder != w.gateway {
				end(errors.New("another gateway makes the steps of waves from now on"))
			}
		}
	})
	return leading, func() { end(nil); beats.Wait() }
}

// stepOne looks at a wave, and makes the steps that can be made now: those back, then one forward.
func (w *waves) stepOne(ctx context.Context, one store.Wave) (err error) {
	defer rollout.Recovered(&err)
	view, err := w.lookAt(ctx, one, 0, listedMost, w.calls)
	if err != nil {
		return err
	}
	w.tellUnread(view)
	if view.Pause.Kind != "" && one.State == store.WaveRunning {
		paused := store.Wave{
			Name: one.Name, State: store.WavePaused, By: wave.ByWave(one.Name), Why: view.Pause.Stored(),
		}
		if err := ignoreState(w.setWave(ctx, paused, store.WaveRunning)); err != nil {
			return err
		}
	}
	if view.Revision != w.revision { // one and partners may be of before a change, such as a person's pause
		return nil
	}
	back := view.Back()
	for _, r := range back { // an error of one partner holds up no other
		err = errors.Join(err, w.make(ctx, &view, r, false))
	}
	if len(back) > 0 { // what is left depends on the new stages
		return err
	}
	if view.Finished() {
		end := store.Wave{
			Name: one.Name, State: store.WaveEnded, By: wave.ByWave(one.Name), Why: evidence.Say("wave_done").Stored(),
		}
		return ignoreState(w.setWave(ctx, end, one.State))
	}
	if forward, ok := view.Forward(); ok {
		return w.make(ctx, &view, forward, true)
	}
	return nil
}

// tellUnread logs once which partners of a wave are held up because their evidence cannot be read.
func (w *waves) tellUnread(v wave.View) {
	var names []string
	var first error
	for _, r := range v.Rows {
		if r.Unread != nil {
			names, first = append(names, r.Partner.Short()), cmp.Or(first, r.Unread)
		}
	}
	is := fmt.Sprint(names)
	if is != w.unread[v.Name] && first != nil {
		w.Logger.Error("the evidence of partners of a wave cannot be read: it makes no step forward with them",
			"wave", v.Name, "partners", cut(is), "first", first.Error())
	}
	w.unread[v.Name] = is
}

// calls returns the calls of the partners of a wave: at the old backend of a day, and at the new one since a mark.
func (w *waves) calls(ctx context.Context, one store.Wave, partners []store.WavePartner) (of [2]store.Sums, err error) {
	ids, now, m := make([]partner.ID, len(partners)), w.Now(), w.marks[one.Name]
	for i, p := range partners {
		ids[i] = p.Partner
	}
	sums := func(from time.Time, backend evidence.Backend) (store.Sums, error) {
		both, err := w.Store.BackendSums(ctx, ids, from.Truncate(time.Hour))
		return both[backend], err
	}
	if of[evidence.Old], err = sums(now.Add(-24*time.Hour), evidence.Old); err != nil {
		return of, err
	}
	if again := !m.since.Equal(one.Since); again || now.Sub(m.second.at) >= markEvery {
		is := mark{at: now}
		if is.sums, err = sums(now, evidence.New); err != nil {
			return of, err
		}
		if m = (marks{one.Since, m.second, is}); again {
			m.first = is
		}
		w.marks[one.Name] = m
	}
	of[evidence.New], err = sums(m.first.at, evidence.New)
	of[evidence.New].Subtract(m.first.sums)
	return of, err
}

// make makes a step. If the rollout has changed since it was decided, nothing is done: the wave is looked at again.
func (w *waves) make(ctx context.Context, v *wave.View, r wave.Row, forward bool) error {
	now := w.Now()
	step := store.WaveStep{
		Wave: v.Name, Revision: v.Revision, Holder: w.gateway, Forward: forward,
		Stepped: v.Due(now, 2*leadEvery),
		Stage: store.Stage{
			Partner: r.Partner, Stage: string(r.Next.Stage), Percent: r.Next.Percent, By: wave.ByWave(v.Name), At: now,
		},
		Evidence: cut(evidence.Say("list", v.Facts.Evidence(r.Partner)).String()),
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

// cut bounds a text of the audit log.
func cut(text string) string {
	const most = 4000
	if len(text) > most {
		return text[:most] + " …"
	}
	return text
}
