package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// Force names the kinds of the reasons that a change overrides. The word true names none, and is refused.
type Force []moves.ReasonKind

// UnmarshalText reads kinds, separated by commas.
func (f *Force) UnmarshalText(text []byte) error {
	*f = nil
	for name := range strings.SplitSeq(string(text), ",") {
		if name = strings.TrimSpace(name); name != "false" {
			*f = append(*f, moves.ReasonKind(name))
		}
	}
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (f Force) MarshalText() ([]byte, error) { return []byte(moves.JoinKinds(f)), nil }

// bare is Force without the names of reasons: the operator would also override reasons that nobody has read.
func (f Force) bare() bool { return slices.Equal(f, Force{"true"}) }

// A Decision is made by somebody, who may override reasons against it.
type Decision struct {
	Author
	Force Force `json:"force,omitempty"`
}

// A Switch turns something on or off. With Preview nothing is changed, and By can be left out.
type Switch struct {
	Decision
	Preview bool `json:"preview,omitzero,string"`
}

// begin checks a decision, and returns the change that it will make.
func (o *core) begin(d Decision, action store.Action, preview bool) (c Change, err error) {
	c = Change{Action: string(action), At: o.Now(), By: d.By, Reason: d.Reason, Preview: preview}
	if !preview || d.By != "" {
		if err := d.check(); err != nil {
			return c, err
		}
	}
	for _, kind := range d.Force {
		if !d.Force.bare() && !slices.Contains(moves.ReasonKinds, kind) {
			return c, badRequest("force must name reasons: some of %s, separated by commas, but has %q",
				moves.JoinKinds(moves.ReasonKinds), string(kind))
		}
	}
	return c, o.needStore()
}

// A Change is a decision that was made, or its preview.
type Change struct {
	Revision int64     `json:"revision"`
	Action   string    `json:"action"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Partner  string    `json:"partner,omitempty"` // "default" for all without a stage of their own
	Name     string    `json:"name,omitempty"`    // of the partner
	Moved
	// nothing was changed: this is the earlier change
	Already bool          `json:"already,omitempty"`
	Warning evidence.Note `json:"warning,omitzero"` // what the operator should know of the change
	// the bill that was assigned, the upstream that may move
	Subject string                 `json:"subject,omitempty"`
	Preview bool                   `json:"preview,omitempty"` // nothing was changed: this is what would change
	Reasons []moves.BlockingReason `json:"reasons,omitzero"`  // against the change, of a preview
	// why a stop could not be stored: it is in effect on this gateway alone
	Unstored string `json:"unstored,omitempty"`
	Reason   string `json:"reason,omitempty"`   // that By gave
	Evidence string `json:"evidence,omitempty"` // at that time, or why a wave came into its state
}

// Moved is a change of a stage.
type Moved struct {
	// in the audit log, left out if the partner had no stage of its own
	From        string `json:"from,omitempty"`
	FromPercent *int   `json:"from_percent,omitempty"`
	To          string `json:"to,omitempty"`
	ToPercent   *int   `json:"to_percent,omitempty"`
	Forced      bool   `json:"forced,omitempty"`
	// the kinds of the reasons that were overridden, if Forced
	Overridden []moves.ReasonKind `json:"overridden,omitempty"`
}

// Old returns the stage before the change, for people.
func (c Change) Old() string { return InWords(c.From, c.FromPercent) }

// New returns the stage after the change, for people.
func (c Change) New() string { return InWords(c.To, c.ToPercent) }

// either returns states for people.
func either[S ~string](states []S) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = InWords(string(s), nil)
	}
	return strings.Join(words, " or ")
}

// InWords returns a stage and its percentage, if it has one, or the state of a callback or a wave, for people.
func InWords(stage string, percent *int) string {
	if percent == nil {
		return strings.ReplaceAll(stage, "_", " ")
	}
	return fmt.Sprintf("%s %d %%", stage, *percent)
}

// override refuses a change that has blocking reasons unless force names the kinds of all of them, and records these
// kinds.
func (c *Change) override(reasons []moves.BlockingReason, force Force) error {
	kinds := moves.KindsOf(reasons)
	unnamed := slices.ContainsFunc(kinds, func(kind moves.ReasonKind) bool { return !slices.Contains(force, kind) })
	switch {
	case force.bare() && len(reasons) == 0:
		return conflict("Not changed. force must name the reasons that it overrides, and there are none: leave it out.")
	case unnamed:
		return &Error{Refusal: Conflict, Text: "Not changed.", Reasons: reasons}
	}
	c.Overridden, c.Forced = kinds, len(kinds) > 0
	return nil
}

// commit makes a change, unless there are reasons against it that force does not name. of says what it is about, as the
// store has it. It has a timeout of its own: the checks before may have used up the first one, and the kill switch must
// work then, too.
func (o *core) commit(
	ctx context.Context, c Change, reasons []moves.BlockingReason, force Force, of store.Change,
) (Change, error) {
	if err := c.override(reasons, force); err != nil {
		return c, err
	}
	ctx, cancel := withNewTimeout(ctx)
	defer cancel()
	if err := o.Rollout.Decide(ctx, c.inStore(of)); err != nil {
		return c, err
	}
	return o.changed(ctx, c)
}

// inStore completes a change for the store: who made it, and in spite of what.
func (c Change) inStore(of store.Change) store.Change {
	of.Action, of.By, of.Reason, of.At, of.Forced = store.Action(c.Action), c.By, c.Reason, c.At, c.Forced
	if of.Action != store.Assigned { // it has one kind of reason, and the log has the bill in its place
		of.Overridden = moves.JoinKinds(c.Overridden)
	}
	return of
}

// changed logs a stored change, and applies it to this replica.
func (o *core) changed(ctx context.Context, c Change) (Change, error) {
	what := []any{"action", c.Action, "by", c.By}
	if c.Partner != "" {
		what = append(what, "partner", c.Partner)
	}
	if c.Action == string(store.Staged) {
		what = append(what, "from", c.Old(), "to", c.New(), "forced", c.Forced)
	}
	if c.Reason != "" {
		what = append(what, "reason", c.Reason)
	}
	if c.Forced {
		what = append(what, "overridden", moves.JoinKinds(c.Overridden))
	}
	o.Logger.Warn("the rollout was changed", what...)
	if err := o.Rollout.Follow(context.WithoutCancel(ctx)); err != nil {
		return c, fmt.Errorf(
			"the change is stored, but not yet in effect on this gateway, which could not read it: %w", err,
		)
	}
	c.Revision = o.Rollout.Revision()
	return c, nil
}

// A Move changes the stage of a partner, or of the default.
type Move struct {
	Switch
	PartnerRef               // Default for all without a stage of their own
	Do         string        `json:"do,omitzero"`             // Next, or else into Stage; a part of the path
	Stage      routing.Stage `json:"stage,omitzero"`          // or Unset
	Percent    *int          `json:"percent,omitzero,string"` // of canary
}

// Next is the Do of a Move into the stage after that of the partner.
const Next = "next"

// Unset in place of a stage removes the partner's own one, or the default that was set.
const Unset routing.Stage = Default

// position returns the stage that is wanted.
func (m Move) position(bills config.Bills) (p routing.Position, err error) {
	stages := routing.StagesWith(bills)
	switch canary := m.Stage == routing.StageCanary; {
	case m.Stage == routing.StageShadow && bills == config.Separate:
		return p, badRequest("with bills: separate there is no stage shadow: stage must be one of %v", stages)
	case !slices.Contains(stages, m.Stage):
		return p, badRequest("stage must be one of %v, or default, but is %q", stages, m.Stage)
	case canary != (m.Percent != nil):
		return p, badRequest("percent is required with stage canary, and not allowed with other stages")
	case canary && (*m.Percent < 0 || *m.Percent > 100):
		return p, badRequest("percent must be 0 to 100, but is %d", *m.Percent)
	case canary:
		p.Percent = *m.Percent
	}
	p.Stage = m.Stage
	return p, nil
}

// Move makes a move, or shows it. With a stage in m, which the operator has seen, Next does so only if that is the next
// one: a second request for the same step does not make another step. If somebody else changes the stage meanwhile, the
// move is decided again, as if it had been asked for after that: unless it was meant for the stage before, as a next
// step without its stage is, and one that overrides reasons.
func (o *Operator) Move(ctx context.Context, m Move) (c Change, err error) {
	for range 3 {
		if c, err = o.moveOnce(ctx, m); !errors.Is(err, store.ErrState) {
			return c, err
		}
		if m.Do == Next && m.Stage == "" || len(m.Force) > 0 || ctx.Err() != nil {
			break
		}
	}
	return c, conflict("Not changed: others change the stage at the same time.")
}

func (o *Operator) moveOnce(ctx context.Context, m Move) (c Change, err error) {
	if c, err = o.begin(m.Decision, store.Staged, m.Preview); err != nil {
		return c, err
	}
	settings := o.Rollout.Settings()
	bills := settings.Config.Bills
	var own routing.Position // the stage that the partner has of its own afterwards
	switch given := m.Stage != "" || m.Percent != nil; {
	case m.Do == Next && m.Partner == Default:
		err = badRequest("partner cannot be default here: set the default to a stage")
	case m.Stage == Unset && m.Do != Next && m.Percent == nil: // own stays empty
	case given, m.Do != Next:
		own, err = m.position(bills)
	}
	if err != nil {
		return c, err
	}
	partner, err := o.named(ctx, m.Partner)
	if err != nil {
		return c, err
	}
	decided, err := o.Store.Rollout(ctx)
	if err != nil {
		return c, err
	}
	move := moves.Move{Partner: partner, From: settings.Positions(decided)(partner), To: own}
	switch {
	case m.Do == Next:
		to, more := move.From.Next(bills)
		switch {
		case !more:
			return c, conflict("Not changed: the stage is %s, which is the last one.", move.From)
		case own.Stage != "" && own != to:
			return c, conflict("Not changed: the stage is %s, so the next one is %s and not %s.", move.From, to, own)
		}
		own, move.To = to, to
	case m.Stage == Unset:
		left := decided
		left.Stages = slices.DeleteFunc(slices.Clone(decided.Stages), func(s store.Stage) bool {
			return s.Partner == partner
		})
		switch {
		case len(left.Stages) < len(decided.Stages): // now the default holds, or that of the config
			move.To = settings.Positions(left)(partner)
		case partner == "":
			return c, notFound("no default was set: the default of the config applies")
		default:
			return c, notFound("the partner has no stage of its own: the default applies to it")
		}
	}
	return o.move(ctx, m.Switch, c, decided, move, own)
}

// move makes a move that was checked, or shows it. own is the stage that the partner has of its own afterwards.
func (o *Operator) move(
	ctx context.Context, s Switch, c Change, decided store.Rollout, m moves.Move, own routing.Position,
) (Change, error) {
	facts := o.factsOf(ctx, decided, m)
	reasons := facts.Against(m)
	c.about(o.core, m.Partner, Default)
	c.From, c.FromPercent = string(m.From.Stage), percentOf(m.From)
	c.To, c.ToPercent = string(m.To.Stage), percentOf(m.To)
	if own.Stage != "" && m.Partner != "" {
		switch _, err := o.Store.FirstSeen(ctx, m.Partner); {
		case errors.Is(err, store.ErrNotFound):
			c.Warning = evidence.Say("never_seen", partner.Label(c.Partner, c.Name))
		case err != nil:
			return c, err
		}
	}
	if s.Preview {
		c.Reasons = list(reasons)
		return c, nil
	}
	by := []store.Stage{} // not nil: it may be that there was none
	for _, stage := range decided.Stages {
		if stage.Partner == m.Partner || stage.Partner == "" {
			by = append(by, stage)
		}
	}
	return o.commit(ctx, c, reasons, s.Force, store.Change{
		Partner: m.Partner, To: string(own.Stage), ToPercent: own.Percent, Decided: by,
		Evidence: evidenceOn(m.Partner, facts),
	})
}

// about sets the partner of a change; all is the word for no single one.
func (c *Change) about(o *core, id partner.ID, all string) {
	if c.Partner = all; id != "" {
		c.Partner, c.Name = id.Short(), o.who(id).Name
	}
}
