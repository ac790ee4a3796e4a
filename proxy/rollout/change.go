package rollout

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate/wording"
)

// A changeQuery is the query of a change.
type changeQuery struct {
	params
	force   force
	preview bool
}

// parseChange reads the query of a change that may be forced.
func (r *Router) parseChange(query string, action store.Action, keys ...string) (q changeQuery, c Changed, err error) {
	if q.params, err = parseQuery(query, append(keys, "by", "force")...); err != nil {
		return q, c, err
	}
	c = Changed{Action: string(action), At: r.now()}
	if q.preview, err = q.flag("preview"); err != nil {
		return q, c, err
	}
	if c.Preview = q.preview; !c.Preview || q.params["by"] != "" {
		if c.By, err = q.by(); err != nil {
			return q, c, err
		}
	}
	if q.force, err = q.params.force(); err != nil {
		return q, c, err
	}
	return q, c, r.requireStore()
}

// A BlockingReason is a reason against a change. Its kind is for programs, its text for people.
type BlockingReason struct {
	Kind  ReasonKind   `json:"kind"`
	Text  string       `json:"text"`
	Parts wording.Text `json:"parts,omitempty"` // the parts of Text, for translations; none if Text has an error
}

// A ReasonKind says what kind of reason speaks against a change.
type ReasonKind string

// The kinds of reasons. README.md describes them.
const (
	Unsettled      ReasonKind = "settling"        // the settling period of the partner is not over
	Unproven       ReasonKind = "verdict"         // a verdict that the stage needs is not PASS
	Unpaid         ReasonKind = "paid"            // too few of the bills that were compared are paid
	Uncarried      ReasonKind = "calls"           // the backend cannot carry calls that the partner makes
	Undrained      ReasonKind = "open_bills"      // bills at the old backend may be open
	WrongClock     ReasonKind = "clock"           // the clock differs from that of the store
	MoneyElsewhere ReasonKind = "money_elsewhere" // an exact field of another partner differs at the same backend
	FromStore      ReasonKind = "restored"        // the store was restored from a backup
	AtNew          ReasonKind = "bills_at_new"    // the ledger of a new store has bills at the new backend
	NotAtBoth      ReasonKind = "not_at_both"     // a backend does not have the bill that gets an owner, or cannot be read
	Unchecked      ReasonKind = "unchecked"       // a precondition could not be checked
)

// ReasonKinds are all of them.
var ReasonKinds = []ReasonKind{Unsettled, Unproven, Unpaid, MoneyElsewhere, Uncarried, Undrained, WrongClock, FromStore, AtNew, NotAtBoth, Unchecked}

// AllReasons names all kinds of reasons, as --force does.
func AllReasons() string { return joined(ReasonKinds) }

func joined(kinds []ReasonKind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
	}
	return strings.Join(names, ",")
}

// reasonsOf are texts of one kind.
func reasonsOf(kind ReasonKind, texts []wording.Text) (all []BlockingReason) {
	for _, text := range texts {
		all = append(all, BlockingReason{kind, text.String(), text})
	}
	return all
}

// A force names the reasons that an operator overrides.
type force struct {
	names []ReasonKind
	bare  bool // force=true, which names none
}

// unlessForced refuses a change that has blocking reasons unless force names the kinds of all of them. It returns these kinds. A force
// without names is refused: the operator would also override reasons that nobody has read.
func unlessForced(reasons []BlockingReason, f force) (overridden []ReasonKind, err error) {
	overridden, lines := listed(reasons)
	named := !slices.ContainsFunc(overridden, func(kind ReasonKind) bool { return !slices.Contains(f.names, kind) })
	switch {
	case f.bare && len(reasons) == 0:
		return nil, &operatorError{http.StatusConflict, "Not changed. --force must name the reasons that it overrides, and there are none: leave --force out."}
	case !named || f.bare:
		return nil, &operatorError{http.StatusConflict, "Not changed. To change it anyway, add --force " + joined(overridden) + ". Reasons:" + lines}
	}
	return overridden, nil
}

// listed are the kinds of reasons, and their texts with the kinds, a line each.
func listed(reasons []BlockingReason) (kinds []ReasonKind, lines string) {
	for _, reason := range reasons {
		lines += fmt.Sprintf("\n  %s [%s]", reason.Text, reason.Kind)
		if !slices.Contains(kinds, reason.Kind) {
			kinds = append(kinds, reason.Kind)
		}
	}
	return kinds, lines
}

// override records the reasons that were overridden in the answer.
func (c *Changed) override(reasons []BlockingReason, f force) (err error) {
	c.Overridden, err = unlessForced(reasons, f)
	c.Forced = len(c.Overridden) > 0
	return err
}

// stage puts a partner, or the default, into a stage.
func (r *Router) stage(ctx context.Context, query string) (c Changed, err error) {
	q, c, err := r.parseChange(query, store.Staged, "partner", "stage", "percent", "preview")
	if err != nil {
		return c, err
	}
	to, err := q.position()
	if err != nil {
		return c, err
	}
	partner, err := r.named(ctx, q.params["partner"])
	if err != nil {
		return c, err
	}
	return r.moveStage(ctx, q, c, partner, func(position) (position, error) { return to, nil })
}

// next puts a partner into the stage after its own. With a stage in the query, which the operator has seen, it does so only if that is the
// next one: a second request for the same step does not make another step.
func (r *Router) next(ctx context.Context, query string) (c Changed, err error) {
	q, c, err := r.parseChange(query, store.Staged, "partner", "stage", "percent", "preview")
	if err != nil {
		return c, err
	}
	var want *position
	if _, given := q.params["stage"]; given || q.params["percent"] != "" {
		to, err := q.position()
		if err != nil {
			return c, err
		}
		want = &to
	}
	partner, err := r.named(ctx, q.params["partner"])
	if err != nil {
		return c, err
	}
	if partner == "" {
		return c, badRequest("partner cannot be default here: set the default to a stage")
	}
	return r.moveStage(ctx, q, c, partner, func(from position) (position, error) {
		to, ok := from.next(r.current.Load().config.Comparable())
		switch {
		case !ok:
			return to, &operatorError{http.StatusConflict, fmt.Sprintf("Not changed: the stage is %s, which is the last one.", from)}
		case want != nil && *want != to:
			return to, &operatorError{http.StatusConflict, fmt.Sprintf("Not changed: the stage is %s, so the next one is %s and not %s.", from, to, *want)}
		}
		return to, nil
	})
}

// moveStage changes the stage of a partner, or of the default for "", or shows the change. target returns the new stage.
func (r *Router) moveStage(ctx context.Context, q changeQuery, c Changed, partner partner.ID, target func(from position) (position, error)) (Changed, error) {
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return c, err
	}
	from, _ := stageOf(r.current.Load().stages(decided), partner)
	to, err := target(from.position())
	if err != nil {
		return c, err
	}
	return r.move(ctx, q, c, decided, move{partner, from.position(), to}, func(ctx context.Context, overridden string) error {
		stage := store.Stage{Partner: partner, Stage: string(to.stage), Percent: to.percent, By: c.By, At: c.At, Forced: overridden != ""}
		return r.store.SetStage(ctx, stage, overridden)
	})
}

// unset removes a partner's own stage.
func (r *Router) unset(ctx context.Context, query string) (c Changed, err error) {
	q, c, err := r.parseChange(query, store.Staged, "partner", "preview")
	if err != nil {
		return c, err
	}
	partner, err := r.named(ctx, q.params["partner"])
	if err != nil {
		return c, err
	}
	decided, err := r.store.Rollout(ctx)
	if err != nil {
		return c, err
	}
	stages := r.current.Load().stages(decided)
	from, own := stages[partner]
	to := stages[""]
	if partner == "" { // the default goes back to that of the config
		own, to = to.At != nil, r.current.Load().stages(store.Rollout{})[""]
	}
	if !own {
		return c, &operatorError{http.StatusNotFound, map[bool]string{false: "the partner has no stage of its own: the default applies to it", true: "no default was set: the default of the config applies"}[partner == ""]}
	}
	return r.move(ctx, q, c, decided, move{partner, from.position(), to.position()}, func(ctx context.Context, overridden string) error {
		return r.store.UnsetStage(ctx, partner, c.By, c.At, overridden)
	})
}

// move makes a move, or shows it.
func (r *Router) move(ctx context.Context, q changeQuery, c Changed, decided store.Rollout, m move, change func(ctx context.Context, overridden string) error) (_ Changed, err error) {
	reasons := r.blockingReasons(ctx, decided, m)
	if !q.preview {
		if err := c.override(reasons, q.force); err != nil {
			return c, err
		}
		var cancel context.CancelFunc
		ctx, cancel = withNewTimeout(ctx)
		defer cancel()
		if err := change(ctx, joined(c.Overridden)); err != nil {
			return c, err
		}
	}
	if c.Partner = forDefault; m.partner != "" {
		c.Partner, c.Name = m.partner.Short(), r.name(m.partner)
	}
	c.From, c.FromPercent = string(m.from.stage), percentOf(m.from.stage, m.from.percent)
	c.To, c.ToPercent = string(m.to.stage), percentOf(m.to.stage, m.to.percent)
	c.Effect, c.WarningParts = r.effect(ctx, decided, m), r.warning(m)
	c.Warning = c.WarningParts.String()
	if q.preview {
		c.Reasons = append([]BlockingReason{}, reasons...) // a list in JSON, also when it is empty
		return c, nil
	}
	return c, r.changed(ctx, &c)
}

// name is the name of a partner, "" if it has none.
func (r *Router) name(id partner.ID) string { return r.current.Load().names.Name(string(id)) }

// label is a partner for people: the first digits of its ID, and its name.
func (r *Router) label(id partner.ID) string { return Label(id.Short(), r.name(id)) }

// Label is a partner for people.
func Label(short, name string) string {
	if name == "" {
		return short
	}
	return short + " (" + name + ")"
}
