package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
)

// A decision is the data of the page decision: what a verb would do and the reasons against it, before the visitor
// confirms it.
type decision struct {
	Of, Do      string                 // whose texts the page has: move, waves or callbacks; and the verb
	At, Back    string                 // the addresses of this page, and of that behind it: by default the one above
	Head, About any                    // what it is about, and what would change; About is nil if that is not possible
	Seen        url.Values             // fields of the form for the state that the visitor decides about
	Fields      url.Values             // further ones
	Reasons     []moves.BlockingReason // each of which the visitor confirms
	Nothing     bool                   // there is nothing to confirm
	Result      any                    // of a change that is shown on this page
	Problem     string                 // why it is not possible, or was not done
	Changed     bool                   // the state is no longer the one that the visitor has seen
	NotYet      bool                   // there are reasons that the visitor has not confirmed
}

// Kinds are the kinds of the reasons.
func (d decision) Kinds() []moves.ReasonKind { return moves.KindsOf(d.Reasons) }

// Danger reports whether the button warns: of reasons, or of what cannot be undone or concerns many.
func (d decision) Danger() bool {
	dangers := []string{"move.stop", "waves.stop", "waves.rollback", "callbacks.drop"}
	return len(d.Reasons) > 0 || slices.Contains(dangers, d.Of+"."+d.Do)
}

// decide shows a decision, and with POST carries it out. Both look first: it is carried out only if it is still what
// the visitor has seen, and each reason is confirmed.
func (d *decision) decide(
	r *http.Request, look func() error, carryOut func(operate.Decision) error,
) (answer, error) {
	d.At, d.Do = r.URL.EscapedPath(), path.Base(r.URL.Path)
	d.Back = cmp.Or(d.Back, path.Dir(d.At))
	a := answer{page: "decision", data: d}
	if err := r.ParseForm(); err != nil { // a part of a filter would select too many
		return a, errForm
	}
	err := look()
	if refused, ok := errors.AsType[*operate.Error](err); ok && refused.Reasons != nil {
		d.Reasons, err = refused.Reasons, nil
	}
	if err != nil {
		d.About = nil
	}
	if err != nil || r.Method != http.MethodPost {
		return withProblem(r, a, &d.Problem, err)
	}
	for key := range d.Seen {
		d.Changed = d.Changed || d.Seen.Get(key) != r.PostForm.Get(key)
	}
	d.NotYet = slices.ContainsFunc(d.Kinds(), func(kind moves.ReasonKind) bool {
		return !slices.Contains(r.PostForm["force"], string(kind))
	})
	if d.Changed || d.NotYet {
		a.status = http.StatusConflict
	}
	if d.Changed || d.NotYet || d.Nothing {
		return a, nil
	}
	err = carryOut(operate.Decision{Author: by(r), Force: d.Kinds()})
	if err == nil && d.Result == nil {
		return goTo(d.Back + "?done=" + d.Do)
	}
	return withProblem(r, a, &d.Problem, err, operate.NotFound)
}
