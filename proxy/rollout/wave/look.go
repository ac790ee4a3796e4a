package wave

import (
	"cmp"
	"slices"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// Facts are what the steps of a wave depend on, at one moment.
type Facts struct {
	*rollout.Facts
	Now   time.Time
	Clock bool              // it can be trusted
	Open  func(string) bool // whether the breaker of an upstream is open
	Calls [2]store.Sums     // of the partners of the wave: at the old backend in a day, at the new one in some minutes
	// writes of these partners at the new backend whose outcome is unknown, since the wave began
	Unknown int
	Of      map[partner.ID]bool // whose evidence is looked at; nil for all
}

// A View is a wave with what each of its partners waits for.
type View struct {
	store.Wave
	Plan Plan
	Rows []Row
	// why no step forward is made now; it ends by itself, at Until if that is known
	Hold  evidence.Note
	Until time.Time
	Pause evidence.Note // why the wave must pause; zero if it need not
	Ends  time.Time     // when the wave can end at the earliest

	Revision int64 // of the rollout by which the view was made
	Facts    Facts
}

// A Row is a partner of a wave.
type Row struct {
	store.WavePartner
	At      rollout.Position
	Next    rollout.Position // At after the last step
	Done    bool             // there is no step after At
	Changed store.Stage      // that it has of its own; zero if it has none
	// why only a person lets it go on; zero if the wave moves it
	Waits  evidence.Note
	Ruling evidence.Ruling          // of the verdicts that the next step needs; "" if it needs none
	Failed []evidence.Verdict       // that are FAIL
	Stays  time.Time                // until when it stays in its stage
	Blocks []rollout.BlockingReason // against the next step; none of a partner that waits for a person
}

// Positions returns where the partners of a wave are, without what depends on evidence.
func Positions(plan Plan, w store.Wave, partners []store.WavePartner, facts *rollout.Facts) View {
	v := View{Wave: w, Plan: plan, Rows: make([]Row, len(partners))}
	at, own := facts.Settings.Positions(facts.Decided), map[partner.ID]store.Stage{}
	for _, s := range facts.Decided.Stages {
		own[s.Partner] = s
	}
	for i, p := range partners {
		row := Row{WavePartner: p, At: at(p.Partner), Changed: own[p.Partner]}
		next, more := plan.Next(row.At)
		row.Next, row.Done, row.Waits = next, !more, row.waits(w.Name)
		if row.Changed.Partner != "" {
			row.Stays = row.Changed.At.Add(time.Duration(plan.Stay))
		}
		v.Rows[i] = row
	}
	return v
}

// Look returns what the partners of a wave wait for.
func Look(plan Plan, w store.Wave, partners []store.WavePartner, facts Facts) (v View, err error) {
	v = Positions(plan, w, partners, facts.Facts)
	v.Revision, v.Facts = facts.Decided.Revision, facts
	var left []waiting
	for i := range v.Rows {
		row := &v.Rows[i]
		looks := facts.Of == nil || facts.Of[row.Partner]
		if looks {
			if row.Failed, err = facts.Failed(row.Partner); err != nil {
				return v, err
			}
		}
		if len(row.Failed) > 0 && row.Waits.Kind == "" {
			row.Waits = evidence.Say("wave_failed", row.Failed)
		}
		if row.Done || row.Waits.Kind != "" {
			continue
		}
		left = append(left, waiting{len(plan.Steps) - slices.Index(plan.Steps, row.Next), row.Stays})
		if looks {
			row.Blocks = facts.Against(v.move(*row, row.Next))
			row.Ruling = facts.Ruling(v.move(*row, row.Next), row.Blocks)
		}
	}
	v.Ends = plan.best(facts.Now, w.Stepped, left)
	v.hold()
	err = v.pause()
	return v, err
}

// ByWave is who makes the steps of a wave, in the audit log.
func ByWave(name string) string { return "wave " + name }

// elsewhere reports whether somebody else has moved the partner: from then on the wave makes no step forward with it.
func (r Row) elsewhere(wave string) bool {
	if r.Moved.IsZero() {
		return r.Changed.Stage != r.From || r.Changed.Percent != r.FromPercent
	}
	return r.Changed.By != ByWave(wave)
}

// waits is why the partner needs a person.
func (r Row) waits(wave string) evidence.Note {
	switch {
	case r.elsewhere(wave) && r.Changed.Partner == "":
		return evidence.Say("wave_unset")
	case r.elsewhere(wave):
		return evidence.Say("wave_moved", r.Changed.By, r.Changed.At)
	case r.Held != "":
		return evidence.Say("wave_held", evidence.ReadNote(r.Held))
	}
	return evidence.Note{}
}

// move is a move of a partner of the wave.
func (v *View) move(r Row, to rollout.Position) rollout.Move {
	return rollout.Move{Partner: r.Partner, From: r.At, To: to}
}

// hold sets why no step forward is made now.
func (v *View) hold() {
	now, backends := v.Facts.Now, v.Facts.Settings.Backends
	pace := v.Stepped.Add(v.Plan.Each.gap())
	opens := v.Plan.Window.Opens(now)
	switch {
	case !v.Facts.Clock:
		v.Hold = evidence.Say("wave_clock")
	case v.Facts.Open(backends[evidence.New]):
		v.Hold = evidence.Say("wave_breaker", backends[evidence.New])
	case v.Facts.Open(backends[evidence.Old]):
		v.Hold = evidence.Say("wave_breaker", backends[evidence.Old])
	case opens.After(now):
		v.Hold, v.Until = evidence.Say("wave_window", v.Plan.Window.String()), opens
	case pace.After(now):
		v.Hold, v.Until = evidence.Say("wave_pace", v.Plan.Each.String()), pace
	}
}

const (
	guardCalls = 50                     // the fewest calls at each backend by which they are compared
	guardP99   = 500 * time.Millisecond // a backend whose p99 is not above this is not slow
)

// failed is the rate of failed calls.
func failed(s store.Sums) float64 { return float64(s.Failed) / float64(max(s.Calls, 1)) }

// pause sets why the wave must pause until a person resumes it.
func (v *View) pause() error {
	money, err := v.Facts.Money()
	if err != nil {
		return err
	}
	d, before, after := v.Facts.Decided, v.Facts.Calls[evidence.Old], v.Facts.Calls[evidence.New]
	comparable := before.Calls >= guardCalls && after.Calls >= guardCalls
	held := 0
	for _, r := range v.Rows {
		if r.Held != "" && r.Moved.After(v.Since) {
			held++
		}
	}
	switch {
	case !d.Stopped.At.IsZero():
		v.Pause = evidence.Say("wave_stopped", d.Stopped.By)
	case d.Restored.At.After(v.Since) && d.Restored.By == store.ByFailOver:
		v.Pause = evidence.Say("wave_failover", d.Restored.At)
	case d.Restored.At.After(v.Since):
		v.Pause = evidence.Say("wave_restored", d.Restored.By)
	case len(money) > 0:
		v.Pause = evidence.Say("wave_money", money[0])
	case held > *v.Plan.Held:
		v.Pause = evidence.Say("wave_many_held", held, *v.Plan.Held)
	case v.Facts.Unknown > *v.Plan.Unknown:
		v.Pause = evidence.Say("wave_unknown", v.Facts.Unknown, *v.Plan.Unknown)
	case comparable && failed(after) > failed(before)+*v.Plan.Failures/100:
		v.Pause = evidence.Say("wave_failures", evidence.Percent(failed(after)), evidence.Percent(failed(before)))
	case comparable && after.P99() > max(guardP99, time.Duration(float64(before.P99())**v.Plan.Slower)):
		v.Pause = evidence.Say("wave_slower", after.P99(), before.P99())
	}
	return nil
}

// Due returns when a step forward that is made now counts as made: when the pace allowed it, if that is not longer ago
// than late. Counted from when it is made, a pace of 60/m would be 30/m, because a wave is looked at once a second.
func (v *View) Due(now time.Time, late time.Duration) time.Time {
	if due := v.Stepped.Add(v.Plan.Each.gap()); now.Sub(due) <= late {
		return due
	}
	return now
}

// Forward returns the next step forward. Partners that are further come first, so that few partners meet a mistake that
// only a later stage shows.
func (v *View) Forward() (step Row, ok bool) {
	if v.Hold.Kind != "" || v.Pause.Kind != "" || v.State != store.WaveRunning {
		return step, false
	}
	ready := slices.DeleteFunc(slices.Clone(v.Rows), func(r Row) bool {
		return r.Done || r.Waits.Kind != "" || r.Stays.After(v.Facts.Now) || len(r.Blocks) > 0
	})
	slices.SortStableFunc(ready, func(a, b Row) int {
		return -cmp.Compare(slices.Index(v.Plan.Steps, a.Next), slices.Index(v.Plan.Steps, b.Next))
	})
	if len(ready) == 0 {
		return step, false
	}
	return ready[0], true
}

// Back returns the steps back: of a wave that goes back those to where its partners were, and else those of partners
// with a verdict FAIL, so that their new bills are created at the old backend. A step that something blocks is left
// out: it would need to be forced.
func (v *View) Back() (steps []Row) {
	for _, r := range v.Rows {
		if v.State != store.WaveBack && len(r.Failed) == 0 {
			continue
		}
		r.Next = v.behind(r)
		if r.Next.Before(r.At) && len(v.Facts.Against(v.move(r, r.Next))) == 0 {
			steps = append(steps, r)
		}
	}
	return steps
}

// behind is where a step back leads: At if there is none. A FAIL also takes back a partner that somebody else has
// moved, but not one that somebody moved after the wave had taken it back: that person knows of the FAIL.
func (v *View) behind(r Row) rollout.Position {
	elsewhere := r.elsewhere(v.Name)
	switch {
	case elsewhere && (v.State == store.WaveBack || r.Held != ""), v.State == store.WaveBack && r.Moved.IsZero():
		return r.At
	case v.State != store.WaveBack && v.Facts.Settings.Config.Bills == config.Shared:
		return rollout.Position{Stage: rollout.StageShadow}
	case v.State != store.WaveBack:
		return rollout.Position{Stage: rollout.StageOld}
	case r.From == "":
		return v.Facts.Settings.Positions(v.Facts.Decided)("")
	}
	return rollout.At(r.From, r.FromPercent)
}

// Finished reports whether nothing is left to do.
func (v *View) Finished() bool {
	return !slices.ContainsFunc(v.Rows, func(r Row) bool {
		if v.State == store.WaveBack {
			return v.behind(r).Before(r.At)
		}
		return !r.Done
	})
}
