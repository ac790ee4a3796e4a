package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/relay"
	"billbridge/proxy/store"
)

// A Redelivery is a decision about callbacks that failed. With DryRun nothing is changed, and By can be left out.
type Redelivery struct {
	Author
	Do     string `json:"do,omitzero"` // replay or drop; a part of the path
	DryRun bool   `json:"dry_run,omitzero,string"`
}

// A Selection is a decision about all failed callbacks that a filter selects.
type Selection struct {
	Redelivery
	CallbackFilter
}

// A Choice is a decision about one callback. Force is for a replay.
type Choice struct {
	Redelivery
	CallbackRef
	Force Force `json:"force,omitempty"`
}

// Progress is how many callbacks of how many are done, after each batch of a decision. The last one has Over, and
// Error if not all are done. A dry run has one, with none done. LeftOut are those that a replay of many leaves out: a
// newer callback of the bill was delivered, or waits.
type Progress struct {
	Done    int    `json:"done"`
	Of      int    `json:"of"`
	LeftOut int    `json:"left_out,omitempty"`
	Over    bool   `json:"over,omitempty"`
	Error   string `json:"error,omitempty"`
}

// redeliveries are the decisions about callbacks, by Redelivery.Do, with what they are then.
var redeliveries = map[string]struct {
	store.Decision
	done string
}{"replay": {store.Replay, "replayed"}, "drop": {store.Drop, "dropped"}}

// DecideCallbacks delivers the failed callbacks of a selection again, or drops them. After the first progress it
// returns no error.
func (o callbackVerbs) DecideCallbacks(ctx context.Context, s Selection, progress func(Progress)) error {
	d := redeliveries[s.Do]
	f, err := s.inStore(ctx, o.core)
	switch err := cmp.Or(err, s.checkUnless(s.DryRun)); {
	case err != nil:
		return err
	case f.State != "" && f.State != store.Dead:
		return badRequest("only failed callbacks can be %s together, not %s ones", d.done, f.State)
	case f.After != 0:
		return badRequest("after is for lists")
	case f.Limit == 0 && s.Most != nil: // the store takes 0 for no limit
		return badRequest("the limit is 0: leave it out if all are meant")
	}
	f.State = store.Dead
	total, err := o.Store.Count(ctx, f)
	if err != nil {
		return refused(err)
	}
	inOrder := total
	if f.InOrder = d.To == store.Waiting; f.InOrder {
		if inOrder, err = o.Store.Count(ctx, f); err != nil {
			return refused(err)
		}
	}
	step := Progress{Of: inOrder, LeftOut: total - inOrder, Over: s.DryRun}
	progress(step)
	if s.DryRun {
		return nil
	}
	step.Done, err = o.Store.Decide(ctx, d.Decision, f, s.author(), o.Now(), func(done int) {
		step.Done = done
		progress(step)
		o.Relay.Wake()
	})
	step.Over = true
	if err != nil {
		step.Error = err.Error()
	}
	o.Logger.Warn(
		"callbacks "+d.done, "count", step.Done, "left_out", step.LeftOut, "by", s.By,
		"partner", f.PartnerPrefix.Short(), "bill", f.Bill, "upstream", f.Upstream,
	)
	o.Relay.Wake()
	progress(step)
	return nil
}

// DecideCallback delivers one failed, delivered or superseded callback again, or drops a failed one. A newer callback
// of the bill is a reason against a delivery.
func (o callbackVerbs) DecideCallback(ctx context.Context, choice Choice) (Progress, error) {
	d := redeliveries[choice.Do]
	if err := choice.checkUnless(choice.DryRun); err != nil {
		return Progress{}, err
	}
	c, err := o.Store.Get(ctx, choice.ID)
	switch {
	case err != nil:
	case !slices.Contains(d.From, c.State):
		err = conflict("%s is %s, and can be %s only if it is %s", c.ID, c.State, d.done, either(d.From))
	case !c.Erased.IsZero():
		err = store.ErrErased
	case d.To == store.Waiting:
		err = o.inOrder(ctx, c, choice.Force)
	}
	if err == nil && choice.DryRun {
		return Progress{Of: 1, Over: true}, nil
	}
	if err == nil {
		err = o.Store.DecideOne(ctx, d.Decision, choice.ID, choice.author(), o.Now())
	}
	if err != nil {
		return Progress{}, refused(err)
	}
	o.Logger.Warn("callback "+d.done, "callback", c.ID, "by", choice.By)
	o.Relay.Wake()
	return Progress{Done: 1, Of: 1, Over: true}, nil
}

// inOrder refuses to deliver a callback again if there is a newer one of its bill, unless force says so.
func (o callbackVerbs) inOrder(ctx context.Context, c store.Callback, force Force) error {
	newer, err := o.Store.Newer(ctx, c)
	var reasons []moves.BlockingReason
	if newer != "" {
		note := evidence.Say("newer_waiting")
		if newer == store.Delivered {
			note = evidence.Say("newer_delivered")
		}
		reasons = append(reasons, moves.BlockingReason{Kind: moves.Newer, Text: note})
	}
	return cmp.Or(err, new(Change).override(reasons, force))
}

// A LostAddress gets the address of a callback of its partner, or another one of that partner.
type LostAddress struct {
	Author
	PartnerRef
	Lost   string `json:"lost,omitzero"`           // as the log names it, beside the partner
	Like   string `json:"like,omitzero"`           // a callback of the partner, or else:
	URL    string `json:"url,omitzero"`            // of the partner; with Like another one than that of the callback
	Form   string `json:"form,omitzero"`           // of the partner
	From   string `json:"upstream,omitzero"`       // if Lost does not name it
	DryRun bool   `json:"dry_run,omitzero,string"` // check it, and change nothing
}

// AssignAddress stores the partner's address for a callback address that the store has lost. The result is a callback
// like those that will come.
func (o callbackVerbs) AssignAddress(ctx context.Context, a LostAddress) (Callback, error) {
	if err := a.checkUnless(a.DryRun); err != nil {
		return Callback{}, err
	}
	to, err := o.like(ctx, a)
	if err != nil {
		return Callback{}, refused(err)
	}
	to.URL = cmp.Or(a.URL, to.URL)
	one := o.callback(to)
	err = o.Relay.Assign(ctx, a.Lost, to, a.author(), one.Address, a.DryRun)
	if wrong := (*relay.Wrong)(nil); errors.As(err, &wrong) {
		err = badRequest("%s", wrong.Text)
	}
	return one, refused(err)
}

// like returns a callback like those that will come to a lost address.
func (o callbackVerbs) like(ctx context.Context, a LostAddress) (to store.Callback, err error) {
	if a.Like == "" {
		of, _, _ := strings.Cut(a.Lost, "/")
		to.Form, to.Upstream = a.Form, cmp.Or(a.From, of)
		if to.Partner, err = o.named(ctx, a.Partner); err == nil && to.Partner == "" {
			err = badRequest("partner cannot be default here: name the one in the log")
		}
		return to, err
	}
	if a.Form+a.From != "" {
		return to, badRequest("form and upstream are those of the callback: leave them out")
	}
	if to, err = o.Store.Get(ctx, a.Like); err != nil {
		return to, err
	}
	// The first digits, as the log has them: nothing else in the store need know the partner.
	if digits, ok := partner.Parse(a.Partner); ok && strings.HasPrefix(string(to.Partner), string(digits)) {
		return to, nil
	}
	id, err := o.named(ctx, a.Partner)
	if _, unknown := errors.AsType[*Error](err); unknown || err == nil && id != o.identity(to.Partner) {
		err = badRequest("the callback %s is one of another partner: %s", a.Like, o.who(to.Partner).Label())
	}
	return to, err
}
