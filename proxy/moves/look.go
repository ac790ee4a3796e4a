package moves

import (
	"cmp"
	"slices"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A View is a wave with what each of its partners waits for.
type View struct {
	store.Wave
	Plan Plan
	Rows []Row
	// why no step forward is made now; it ends by itself, at Until if that is known
	Hold  evidence.Note
	Until time.Time
	Pause evidence.Note // why the wave must pause; zero if it need not

	Revision int64 // of the rollout by which the view was made
	Facts    *Facts
}

// A Row is a partner of a wave.
type Row struct {
	store.WavePartner
	At      routing.Position
	Next    routing.Position // At after the last step
	Done    bool             // there is no step after At
	Changed store.Stage      // that it has of its own; zero if it has none
	// why only a person lets it go on; zero if the wave moves it
	Waits  evidence.Note
	Ruling evidence.Ruling    // of the verdicts that the next step needs; "" if it needs none
	Failed []evidence.Verdict // that are FAIL
	Unread error              // why there may be more: no step forward is made
	Stays  time.Time          // until when it stays in its stage
	Blocks []BlockingReason   // against the next step; none of a partner that waits for a person
}

// Positions returns where the partners of a wave are, without what depends on evidence.
func Positions(plan Plan, w store.Wave, partners []store.WavePartner, facts *Facts) View {
	v := View{Wave: w, Plan: plan, Rows: make([]Row, len(partners))}
	at, own := facts.Settings.Positions(facts.Decided), map[partner.ID]store.Stage{}
	for _, s := range facts.Decided.Stages {
		own[s.Partner] = s
	}
	for i, p := range partners {
		row := Row{WavePartner: p, At: at(p.Partner), Changed: own[p.Partner]}
		next, more := plan.Next(row.At, facts.Settings.Config.Bills)
		row.Next, row.Done, row.Waits = next, !more, row.waits(w.Name)
		if row.Changed.Partner != "" {
			row.Stays = row.Changed.At.Add(time.Duration(plan.Stay))
		}
		v.Rows[i] = row
	}
	return v
}

// Look returns what the partners of a wave wait for. What cannot be read of one holds up that one.
func Look(plan Plan, w store.Wave, partners []store.WavePartner, facts *Facts) View {
	v := Positions(plan, w, partners, facts)
	v.Revision, v.Facts = facts.Decided.Revision, facts
	for i := range v.Rows {
		row := &v.Rows[i]
		looks := facts.Of == nil || facts.Of[row.Partner]
		if looks {
			row.Failed, row.Unread = facts.Failed(row.Partner)
		}
		if len(row.Failed) > 0 && row.Waits.Kind == "" {
			row.Waits = evidence.Say("wave_failed", row.Failed)
		}
		if row.Done || row.Waits.Kind != "" {
			continue
		}
		if looks {
			row.Blocks = facts.Against(v.move(*row, row.Next))
			if row.Unread != nil && len(row.Blocks) == 0 { // as before shadow, which needs no verdict
				row.Blocks = []BlockingReason{{Kind: Unchecked, Text: evidence.Say("unchecked", row.Unread)}}
			}
			row.Ruling = facts.Ruling(v.move(*row, row.Next), row.Blocks)
		}
	}
	v.hold()
	v.pause()
	return v
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
func (v *View) move(r Row, to routing.Position) Move {
	return Move{Partner: r.Partner, From: r.At, To: to}
}

// hold sets why no step forward is made now.
func (v *View) hold() {
	pace := v.Stepped.Add(v.Plan.Each.gap())
	switch {
	case v.Facts.Clock.Stepped():
		v.Hold = evidence.Say("wave_clock")
	case pace.After(v.Facts.Now):
		v.Hold, v.Until = evidence.Say("wave_pace", v.Plan.Each.String()), pace
	}
}

// pause sets why the wave must pause until a person resumes it.
func (v *View) pause() {
	d, s, money := v.Facts.Decided, v.Facts.Settings, v.Facts.money("")
	failed := slices.IndexFunc(v.Rows, func(r Row) bool {
		return r.Held != "" && r.Moved.After(v.Since) || len(r.Failed) > 0 && v.behind(r).Before(r.At)
	})
	open := slices.Index(v.Facts.Open[:], true)
	switch {
	case !d.Stopped.At.IsZero():
		v.Pause = evidence.Say("wave_stopped", d.Stopped.By)
	case d.Restored.At.After(v.Since):
		v.Pause = evidence.Say("wave_restored", d.Restored.By, d.Restored.At)
	case len(money) > 0:
		v.Pause = evidence.Say("wave_money", money[0])
	case failed >= 0:
		v.Pause = evidence.Say("wave_back", s.Label(v.Rows[failed].Partner))
	case open >= 0:
		v.Pause = evidence.Say("wave_breaker", s.Backends[open])
	}
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
// with a verdict FAIL, so that their new bills are created at the old backend. A step with Blocks is not made: it would
// need to be forced.
func (v *View) Back() (steps []Row) {
	for _, r := range v.Rows {
		if v.State != store.WaveBack && len(r.Failed) == 0 {
			continue
		}
		if r.Next = v.behind(r); r.Next.Before(r.At) {
			r.Done, r.Waits, r.Stays, r.Ruling = false, evidence.Note{}, time.Time{}, ""
			r.Blocks = v.Facts.Against(v.move(r, r.Next))
			steps = append(steps, r)
		}
	}
	return steps
}

// behind is where a step back leads: At if there is none. A FAIL also takes back a partner that somebody else has
// moved, but not one that somebody moved after the wave had taken it back: that person knows of the FAIL.
func (v *View) behind(r Row) routing.Position {
	elsewhere, bills := r.elsewhere(v.Name), v.Facts.Settings.Config.Bills
	switch {
	case elsewhere && (v.State == store.WaveBack || r.Held != ""), v.State == store.WaveBack && r.Moved.IsZero():
		return r.At
	case v.State != store.WaveBack && bills == config.Shared:
		return routing.Position{Stage: routing.StageShadow}
	case r.From == "" && v.State == store.WaveBack:
		return v.Facts.Settings.Positions(v.Facts.Decided)("")
	case v.State != store.WaveBack, !slices.Contains(routing.StagesWith(bills), routing.Stage(r.From)):
		return routing.Position{Stage: routing.StageOld}
	}
	return routing.At(r.From, r.FromPercent)
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
