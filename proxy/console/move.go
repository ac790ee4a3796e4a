package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/routing"
)

// A movePage is the data of the page move: what a change of the rollout would do, before it is confirmed.
type movePage struct {
	Do       string // next, set, unset, stop or resume
	Partner  string // as in the address; "" for stop and resume
	Stages   []routing.Stage
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
		if page.Stage != string(routing.StageCanary) {
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
			m.Stage = routing.Stage(page.Stage)
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
func (c *Console) stages() []routing.Stage {
	return routing.StagesWith(c.Operator.Rollout.Settings().Config.Bills)
}

// Kinds are the kinds of the reasons against the change. The visitor confirms each.
func (p movePage) Kinds() []moves.ReasonKind { return moves.KindsOf(p.Preview.Reasons) }

// confirmMove makes the change that the visitor has seen.
func (c *Console) confirmMove(r *http.Request, page movePage, m operate.Move) (answer, error) {
	page.Changed = page.Preview.Old() != r.PostFormValue("from") || page.Preview.New() != r.PostFormValue("to")
	page.NotYet = slices.ContainsFunc(page.Kinds(), func(kind moves.ReasonKind) bool {
		return !slices.Contains(r.PostForm["force"], string(kind))
	})
	if page.Changed || page.NotYet {
		return answer{page: "move", data: page, status: http.StatusConflict}, nil
	}
	m.Switch = operate.Switch{Decision: operate.Decision{Author: operate.Author{By: by(r)}, Force: page.Kinds()}}
	if page.Do == "next" { // to the stage that the visitor has seen, and to no other one
		m.Stage, m.Percent = routing.Stage(page.Preview.To), page.Preview.ToPercent
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
