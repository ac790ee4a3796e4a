package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// A WaveOrder starts a wave, or with Preview shows what it would do.
type WaveOrder struct {
	Author
	Preview bool `json:"preview,omitzero,string"`
	WaveName
	moves.Plan
	Partners string `json:"partners,omitzero"` // references, separated by commas or lines
}

// WaveName names a wave.
type WaveName struct {
	Name string `json:"name,omitzero"`
}

// WaveChange changes what a wave does.
type WaveChange struct {
	Author
	WaveName
	Do      string `json:"do,omitzero"`             // one of WaveChanges; a part of the path
	Preview bool   `json:"preview,omitzero,string"` // of rollback: show the steps back, and change nothing
}

// WaveQuery selects a wave, and a page of its partners.
type WaveQuery struct {
	WaveName
	After int `json:"after,omitzero,string"` // the next of the page before
	Limit
}

// A WaveInfo is a wave, as the operator sees it.
type WaveInfo struct {
	Name    string          `json:"name"`
	State   store.WaveState `json:"state"`
	Why     evidence.Note   `json:"why,omitzero"`     // it came into its state; empty if a person wanted it
	By      string          `json:"by"`               // who put it into its state
	Reason  string          `json:"reason,omitempty"` // that By gave
	Since   time.Time       `json:"since"`            // when
	Created time.Time       `json:"created"`
	moves.Plan
	Number int         `json:"number"` // of partners
	Done   int         `json:"done"`   // of these, those after the last step
	Waits  int         `json:"waits"`  // of these, those that wait for a person
	At     []WaveCount `json:"at"`     // how many partners are in each stage

	OneWave
	Next    int  `json:"next,omitempty"`    // there are more: the value of after for the next page
	Preview bool `json:"preview,omitempty"` // nothing was started or changed
}

// OneWave is what only the answer about one wave has.
type OneWave struct {
	Hold     evidence.Note `json:"hold,omitzero"`   // why no step forward is made now; it ends by itself
	Until    *time.Time    `json:"until,omitempty"` // when Hold ends, if that is known
	Partners []WaveRow     `json:"partners,omitempty"`
}

// A WaveCount is the number of partners in a stage.
type WaveCount struct {
	StageSetting
	Number int `json:"number"`
}

// A WaveRow is a partner of a wave.
type WaveRow struct {
	Who
	StageSetting
	Step  Step          `json:"next,omitzero"`   // zero after the last one
	Waits evidence.Note `json:"waits,omitzero"`  // why it waits for a person
	Stays *time.Time    `json:"stays,omitempty"` // until when it stays in its stage
}

var waveName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)

func (n WaveName) valid() error {
	if !waveName.MatchString(n.Name) || n.Name == "new" { // which is a page
		return badRequest("the name of a wave must be 1 to 40 characters of a-z, 0-9, '.', '_' and '-', begin with a "+
			"letter or a digit, and not be new, but is %q", n.Name)
	}
	return nil
}

// CreateWave starts a wave.
func (o waveVerbs) CreateWave(ctx context.Context, w WaveOrder) (info WaveInfo, err error) {
	if err := cmp.Or(o.needStore(), w.valid(), w.checkUnless(w.Preview)); err != nil {
		return info, err
	}
	settings := o.Rollout.Settings()
	if err := w.Complete(settings.Config.Bills == config.Shared); err != nil {
		return info, badRequest("%s", err)
	}
	decided, err := o.Store.Rollout(ctx)
	if err != nil {
		return info, err
	}
	partners, err := o.wavePartners(ctx, decided, w)
	if err != nil {
		return info, err
	}
	plan, err := json.Marshal(w.Plan)
	if err != nil {
		return info, err
	}
	now := o.Now().Truncate(time.Millisecond) // as the store keeps it
	one := store.Wave{
		Name: w.Name, Plan: string(plan), State: store.WaveRunning, By: w.By, Reason: w.Reason,
		Since: now, Created: now,
	}
	view, err := o.waveView(ctx, w.Plan, one, partners, 0, listedMost)
	if err != nil {
		return info, err
	}
	info = o.waveInfo(view, 0, listedMost)
	switch info.Preview = w.Preview; {
	case view.Pause.Kind != "":
		err = conflict("Not started: %s.", view.Pause)
	case !w.Preview:
		ctx, cancel := withNewTimeout(ctx)
		defer cancel()
		if err = o.Store.CreateWave(ctx, one, partners); errors.Is(err, store.ErrInWave) {
			err = conflict("Not started: there is a wave %q already, or one of the partners is in a wave "+
				"that has not ended.", w.Name)
		}
	}
	if err == nil && !w.Preview {
		o.Logger.Warn("a wave was started", "wave", w.Name, "by", w.By, "partners", len(partners),
			"steps", w.Steps.String())
	}
	return info, err
}

// wavePartners returns the partners of a new wave, in its order.
func (o waveVerbs) wavePartners(ctx context.Context, decided store.Rollout, w WaveOrder) ([]store.WavePartner, error) {
	refs := strings.FieldsFunc(w.Partners, func(c rune) bool { return c == ',' || c == '\n' })
	taken, err := o.Store.InWaves(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(refs) == 0:
		return nil, badRequest("name the partners of the wave")
	case len(refs) > listedMost:
		return nil, badRequest("a wave has at most %d partners, but %d are given", listedMost, len(refs))
	}
	var ids []partner.ID
	for i, ref := range refs {
		id, err := o.named(ctx, strings.TrimSpace(ref))
		switch {
		case err != nil:
		case id == "":
			err = badRequest("a wave cannot move the default: name partners")
		case taken[id] != "":
			err = conflict("%s is in wave %s already.", o.who(id).Label(), taken[id])
		case slices.Contains(ids, id):
			err = badRequest("%s is given twice", o.who(id).Label())
		}
		if wrong := (*Error)(nil); errors.As(err, &wrong) {
			wrong.Text = fmt.Sprintf("partner %d: %s", i+1, wrong.Text)
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	stages, at := o.stages(decided), o.Rollout.Settings().Positions(decided)
	partners := make([]store.WavePartner, len(ids))
	for i, id := range ids {
		partners[i].Partner = id
		if own, has := stages[id]; has {
			partners[i].From, partners[i].FromPercent = string(own.Stage), at(id).Percent
		}
	}
	return partners, nil
}

// A WaveFilter selects waves.
type WaveFilter struct {
	Active bool `json:"active,omitzero,string"` // only those that have not ended
}

// Waves returns the waves of a filter, the last one first, without their partners.
func (o waveVerbs) Waves(ctx context.Context, f WaveFilter) ([]WaveInfo, error) {
	if err := o.needStore(); err != nil {
		return nil, err
	}
	all, err := o.Store.Waves(ctx, !f.Active)
	if err != nil {
		return nil, err
	}
	return o.summaries(ctx, all...)
}

// summaries returns waves without their partners, also those whose plan cannot be read: they can be stopped.
func (o waveVerbs) summaries(ctx context.Context, all ...store.Wave) ([]WaveInfo, error) {
	decided, err := o.Store.Rollout(ctx)
	infos, facts := []WaveInfo{}, o.facts(ctx, decided, "", 0, moves.Needs{})
	for _, w := range all {
		partners, failed := o.Store.WavePartners(ctx, w.Name)
		err = cmp.Or(err, failed)
		plan, unread := moves.Read(w.Plan)
		if unread != nil {
			w.Why = evidence.Say("unchecked", unread).Stored()
		}
		info := o.waveInfo(moves.Positions(plan, w, partners, facts), 0, 0)
		if unread != nil { // the last step is not known
			info.Done = 0
		}
		infos = append(infos, info)
	}
	return infos, err
}

// waveAnswer returns a wave with a page of its partners, or its summary if its plan cannot be read.
func (o waveVerbs) waveAnswer(ctx context.Context, w store.Wave, after, limit int) (info WaveInfo, err error) {
	if _, unread := moves.Read(w.Plan); unread != nil {
		infos, err := o.summaries(ctx, w)
		return infos[0], err
	}
	view, err := o.lookAt(ctx, w, after, limit)
	return o.waveInfo(view, after, limit), err
}

// Wave returns a wave with a page of its partners: first those that wait for a person, then those with reasons
// against their next step.
func (o waveVerbs) Wave(ctx context.Context, q WaveQuery) (info WaveInfo, err error) {
	limit, err := q.get()
	if err := cmp.Or(err, o.needStore()); err != nil {
		return info, err
	}
	if q.After < 0 {
		return info, badRequest("after must be next of the previous page")
	}
	w, err := o.wave(ctx, q.WaveName)
	if err != nil {
		return info, err
	}
	return o.waveAnswer(ctx, w, q.After, limit)
}

// wave returns a wave from the store.
func (o waveVerbs) wave(ctx context.Context, n WaveName) (store.Wave, error) {
	all, err := o.Store.Waves(ctx, true)
	for _, w := range all {
		if w.Name == n.Name {
			return w, nil
		}
	}
	return store.Wave{}, cmp.Or(err, notFound("there is no wave %q", n.Name))
}

// WaveChanges are the states into which each change brings a wave, and from which:
//
//	pause     stops the steps forward until a person resumes it. Partners whose verdict is FAIL are still taken back
//	resume    lets a wave that was paused go on, unless the reason for a pause is still there
//	stop      ends a wave. Its partners stay where they are
//	rollback  takes the partners of a wave back to the stages that they had before it, and ends it. Nothing is forced:
//	          a partner whose step back is blocked stays, and the wave goes on until it is not, or is stopped
var WaveChanges = map[string][]store.WaveState{
	"pause":    {store.WavePaused, store.WaveRunning},
	"resume":   {store.WaveRunning, store.WavePaused},
	"stop":     {store.WaveEnded, store.WaveRunning, store.WavePaused, store.WaveBack},
	"rollback": {store.WaveBack, store.WaveRunning, store.WavePaused},
}

// ChangeWave makes one of WaveChanges.
func (o waveVerbs) ChangeWave(ctx context.Context, c WaveChange) (info WaveInfo, err error) {
	if err := cmp.Or(o.needStore(), c.checkUnless(c.Preview)); err != nil {
		return info, err
	}
	w, err := o.wave(ctx, c.WaveName)
	if err != nil {
		return info, err
	}
	to, from := WaveChanges[c.Do][0], WaveChanges[c.Do][1:]
	switch {
	case !c.Preview:
	case to != store.WaveBack:
		return info, badRequest("only a rollback has a preview")
	case !slices.Contains(from, w.State):
		return info, conflict("The wave %s is not %s.", c.Name, either(from))
	default:
		w.State = to
		view, err := o.lookAt(ctx, w, 0, listedMost)
		if err == nil {
			view.Rows = view.Back()
		}
		info = o.waveInfo(view, 0, listedMost)
		info.Preview = true
		return info, err
	}
	if to == store.WaveRunning {
		w.Since = o.Now()
		view, err := o.lookAt(ctx, w, 0, listedMost)
		switch {
		case err != nil:
			return info, err
		case view.Pause.Kind != "":
			return info, conflict("Not resumed: %s.", view.Pause)
		}
	}
	ctx, cancel := withNewTimeout(ctx)
	defer cancel()
	err = o.setWave(ctx, store.Wave{Name: c.Name, State: to, By: c.By, Reason: c.Reason}, time.Time{}, from...)
	switch {
	case errors.Is(err, store.ErrState):
		return info, conflict("Not changed: the wave %s is not %s.", c.Name, either(from))
	case err != nil:
		return info, err
	}
	if w, err = o.wave(ctx, c.WaveName); err != nil {
		return info, err
	}
	return o.waveAnswer(ctx, w, 0, 0)
}

// setWave changes the state of a wave, and logs that.
func (o waveVerbs) setWave(ctx context.Context, w store.Wave, since time.Time, from ...store.WaveState) error {
	w.Since = o.Now()
	if err := o.Store.SetWave(ctx, w, since, from...); err != nil {
		return err
	}
	o.Logger.Warn("a wave has changed", "wave", w.Name, "state", string(w.State), "by", w.By,
		"why", evidence.ReadNote(w.Why).String())
	return nil
}

// WavePartner lets a wave move a partner on that it took back, or that somebody else has moved.
type WavePartner struct {
	Author
	WaveName
	PartnerRef
}

// ReleasePartner lets a wave move a partner on that it took back, or that somebody else has moved.
func (o waveVerbs) ReleasePartner(ctx context.Context, c WavePartner) (Change, error) {
	change, err := o.begin(Decision{Author: c.Author}, store.WaveChanged, false)
	if err := cmp.Or(err, c.valid()); err != nil {
		return change, err
	}
	change.Subject = c.Name
	id, err := o.named(ctx, c.Partner)
	if err != nil {
		return change, err
	}
	change.about(o.core, id, Default)
	err = o.Store.ReleasePartner(ctx, c.Name, id, moves.ByWave(c.Name), c.author(), change.At)
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("the partner is not in wave %s, or that has ended", c.Name)
	}
	if err == nil {
		o.Logger.Warn("a wave may move a partner on", "wave", c.Name, "partner", change.Partner, "by", c.By)
	}
	return change, err
}
