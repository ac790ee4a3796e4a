package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
)

// A movePage is the data of the page move: what a change of the rollout would do, before it is confirmed.
type movePage struct {
	Do       string // next, set, unset, stop or resume
	Partner  string // as in the address; "" for stop and resume
	Stages   []rollout.Stage
	Stage    string // that the visitor chose, with set
	Percent  string
	Preview  *operate.Change // nil while there is nothing to show
	Problem  string          // why the change is not possible, or was not made
	Changed  bool            // the state is no longer the one that the visitor has seen
	NotYet   bool            // there are reasons, and the visitor has not confirmed that they do not matter
	Unstored string          // a stop that is in effect on this gateway alone
}

// move shows what a change would do, and makes it. Both ask for a preview first: a change is made only if it is still
// the one that the visitor has seen.
func (c *Console) move(do string) handler {
	return func(r *http.Request) (answer, error) {
		page := movePage{
			Do: do, Partner: r.PathValue("partner"), Stages: c.stages(),
			Stage: r.FormValue("stage"), Percent: r.FormValue("percent"),
		}
		if page.Stage != string(rollout.StageCanary) {
			page.Percent = ""
		}
		if do == "set" && page.Stage == "" {
			return show("move", page)
		}
		m := operate.Move{
			PartnerRef: operate.PartnerRef{Partner: page.Partner}, Do: do, Switch: operate.Switch{Preview: true},
		}
		switch do {
		case "set":
			m.Stage = rollout.Stage(page.Stage)
			if percent, err := strconv.Atoi(page.Percent); err == nil {
				m.Percent = &percent
			}
		case "unset":
			m.Stage = operate.Unset
		}
		preview, err := c.change(r, m)
		if err == nil {
			if page.Preview = &preview; r.Method == http.MethodPost && !preview.Already {
				return c.confirmMove(r, page, m)
			}
		}
		return withProblem(r, answer{page: "move", data: &page}, &page.Problem, err)
	}
}

// change makes a change, or shows it.
func (c *Console) change(r *http.Request, m operate.Move) (operate.Change, error) {
	switch m.Do {
	case "stop":
		return ask(r, c.Operator.Stop, m.Switch)
	case "resume":
		return ask(r, c.Operator.Resume, m.Switch)
	}
	return ask(r, c.Operator.Move, m)
}

// stages are those that the page offers.
func (c *Console) stages() []rollout.Stage {
	return rollout.StagesWith(c.Operator.Rollout.Settings().Config.Bills)
}

// Kinds are the kinds of the reasons against the change. The visitor confirms each.
func (p movePage) Kinds() []rollout.ReasonKind { return rollout.KindsOf(p.Preview.Reasons) }

// confirmMove makes the change that the visitor has seen.
func (c *Console) confirmMove(r *http.Request, page movePage, m operate.Move) (answer, error) {
	page.Changed = isChanged(*page.Preview, r.PostFormValue("from"), r.PostFormValue("to"))
	page.NotYet = slices.ContainsFunc(page.Kinds(), func(kind rollout.ReasonKind) bool {
		return !slices.Contains(r.PostForm["force"], string(kind))
	})
	if page.Changed || page.NotYet {
		return answer{page: "move", data: page, status: http.StatusConflict}, nil
	}
	m.Switch = operate.Switch{Decision: operate.Decision{Author: operate.Author{By: by(r)}, Force: page.Kinds()}}
	if page.Do == "next" {
		m = onlyTo(m, *page.Preview)
	}
	changed, err := c.change(r, m)
	if err != nil {
		return withProblem(r, answer{page: "move", data: &page}, &page.Problem, err)
	}
	if page.Unstored = changed.Unstored; page.Unstored != "" {
		return show("move", page)
	}
	to := "/partners"
	if page.Partner != "" && page.Partner != operate.Default {
		to += "/" + url.PathEscape(page.Partner)
	}
	return goTo(to + "?done=" + page.Do)
}

// isChanged reports whether a preview is not the change that the visitor has seen, in words.
func isChanged(preview operate.Change, from, to string) bool {
	return preview.Old() != from || preview.New() != to
}

// onlyTo returns the move to the next stage that the preview has, and to no other one.
func onlyTo(m operate.Move, preview operate.Change) operate.Move {
	m.Stage, m.Percent = rollout.Stage(preview.To), preview.ToPercent
	return m
}

// A movesPage is the data of the page moves: the next stages of several partners, and then what became of them.
type movesPage struct {
	Moves []oneMove
	Free  int // of them: nothing is against the change, or it was made
	Done  bool
}

// A oneMove is the change of one partner, or its preview.
type oneMove struct {
	operate.Change
	Changed bool  // the state is no longer the one that the visitor has seen
	Failed  error // why there is no change
}

// Problem is the text of Failed, "" if that is in the log alone.
func (m oneMove) Problem() string {
	text, _ := problemOf(m.Failed, operate.NotFound)
	return text
}

// Free reports whether nothing is against the change.
func (m oneMove) Free() bool { return !m.Changed && m.Failed == nil && len(m.Reasons) == 0 }

// moveChosen shows the next stages of several partners, and moves each as move does, but not against a reason.
func (c *Console) moveChosen(r *http.Request) (a answer, err error) {
	err = r.ParseForm()
	isWrong := func(named string) bool { _, ok := partner.Parse(named); return !ok } // it may be a key
	if chosen := r.Form["partner"]; err != nil || len(chosen) > partnersOnPage || slices.ContainsFunc(chosen, isWrong) {
		return a, errForm
	}
	page := movesPage{Done: r.Method == http.MethodPost}
	for i, named := range r.Form["partner"] {
		one := c.moveOne(r, named, i, page.Done)
		if one.Failed != nil && one.Problem() == "" {
			c.Logger.Error("a partner could not be moved", "partner", one.Partner, "error", one.Failed.Error())
		}
		if one.Free() {
			page.Free++
		}
		page.Moves = append(page.Moves, one)
	}
	return show("moves", page)
}

// moveOne shows the change of one partner, and makes it if the visitor has seen this change without a reason against
// it: in the form it is at a place of from and to, which are empty otherwise.
func (c *Console) moveOne(r *http.Request, named string, at int, confirmed bool) (one oneMove) {
	m := operate.Move{
		PartnerRef: operate.PartnerRef{Partner: named}, Do: operate.Next, Switch: operate.Switch{Preview: true},
	}
	one.Change, one.Failed = ask(r, c.Operator.Move, m)
	one.Partner = partner.ID(named).Short() // also if there is no change
	if !confirmed || one.Failed != nil {
		return one
	}
	from, to := r.PostForm["from"], r.PostForm["to"]
	if at >= min(len(from), len(to)) {
		one.Changed = true
		return one
	}
	one.Changed = isChanged(one.Change, from[at], to[at]) && (from[at] != "" || one.Free())
	if one.Free() {
		m = onlyTo(m, one.Change)
		m.Switch = operate.Switch{Decision: operate.Decision{Author: operate.Author{By: by(r)}}}
		if changed, err := ask(r, c.Operator.Move, m); err != nil {
			one.Failed = err
		} else {
			one.Change = changed
		}
	}
	return one
}
