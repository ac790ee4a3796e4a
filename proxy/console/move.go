package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"billbridge/proxy/operate"
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
	Changed  bool            // the state is another than the visitor has seen
	NotYet   bool            // there are reasons, and the visitor has not confirmed that they do not matter
	Unstored string          // a stop that is in effect on this gateway alone
}

// move shows what a change would do, and makes it. Both ask for a preview first: a change is made only if it is still
// the one that the visitor has seen.
func (c *Console) move(do string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := movePage{
			Do: do, Partner: r.PathValue("partner"), Stages: c.stages(),
			Stage: r.FormValue("stage"), Percent: r.FormValue("percent"),
		}
		if page.Stage != string(rollout.StageCanary) {
			page.Percent = ""
		}
		if do == "set" && page.Stage == "" {
			c.page(w, r, "move", page)
			return
		}
		m := operate.Move{PartnerRef: operate.PartnerRef{Partner: page.Partner}, Switch: operate.Switch{Preview: true}}
		if do == "set" {
			m.Stage = rollout.Stage(page.Stage)
			if percent, err := strconv.Atoi(page.Percent); err == nil {
				m.Percent = &percent
			}
		}
		preview, err := c.change(r, do, m)
		if err != nil {
			c.moveFailed(w, r, page, err)
			return
		}
		page.Preview = &preview
		if r.Method == http.MethodPost && !preview.Already {
			c.confirmMove(w, r, page, m)
			return
		}
		c.page(w, r, "move", page)
	}
}

// change makes a change, or shows it.
func (c *Console) change(r *http.Request, do string, m operate.Move) (operate.Change, error) {
	o := c.options.Operator
	switch do {
	case "set":
		return ask(r, o.Move, m)
	case "next":
		return ask(r, o.Next, m)
	case "unset":
		return ask(r, o.Unset, operate.Unset{Switch: m.Switch, PartnerRef: m.PartnerRef})
	case "stop":
		return ask(r, o.Stop, m.Switch)
	}
	return ask(r, o.Resume, m.Switch)
}

// stages are those that the page offers: shadow only if it can compare anything.
func (c *Console) stages() []rollout.Stage {
	return slices.DeleteFunc(slices.Clone(rollout.Stages), func(s rollout.Stage) bool {
		section := c.options.Config().Rollout
		return s == rollout.StageShadow && section != nil && !section.Comparable()
	})
}

// Kinds are the kinds of the reasons against the change. The visitor confirms each.
func (p movePage) Kinds() []rollout.ReasonKind { return rollout.KindsOf(p.Preview.Reasons) }

// confirmMove makes the change that the visitor has seen.
func (c *Console) confirmMove(w http.ResponseWriter, r *http.Request, page movePage, m operate.Move) {
	page.Changed = r.PostFormValue("from") != page.Preview.Old() || r.PostFormValue("to") != page.Preview.New()
	page.NotYet = slices.ContainsFunc(page.Kinds(), func(kind rollout.ReasonKind) bool {
		return !slices.Contains(r.PostForm["force"], string(kind))
	})
	if page.Changed || page.NotYet {
		c.pageWithStatus(w, r, http.StatusConflict, "move", page)
		return
	}
	m.Switch = operate.Switch{Decision: operate.Decision{Author: operate.Author{By: by(r)}, Force: page.Kinds()}}
	if page.Do == "next" { // the step that the visitor has seen, and no other one
		m.Stage, m.Percent = rollout.Stage(page.Preview.To), page.Preview.ToPercent
	}
	changed, err := c.change(r, page.Do, m)
	if err != nil {
		c.moveFailed(w, r, page, err)
		return
	}
	if page.Unstored = changed.Unstored; page.Unstored != "" {
		c.page(w, r, "move", page)
		return
	}
	to := "/partners"
	if page.Partner != "" && page.Partner != operate.Default {
		to += "/" + url.PathEscape(page.Partner)
	}
	http.Redirect(w, r, to+"?done="+page.Do, http.StatusSeeOther)
}

// moveFailed shows an error on the page, if it is about what the visitor asked for.
func (c *Console) moveFailed(w http.ResponseWriter, r *http.Request, page movePage, err error) {
	problem, ok := problemOf(err)
	if !ok {
		c.fail(w, r, err)
		return
	}
	page.Problem = problem
	status := http.StatusOK
	if r.Method == http.MethodPost {
		status = http.StatusConflict
	}
	c.pageWithStatus(w, r, status, "move", page)
}

// moveRoutes are the routes of all changes of the rollout.
func (c *Console) moveRoutes() (all []route) {
	for _, do := range slices.Concat(partnerChanges, []string{"stop", "resume"}) {
		path := "/partners/" + do
		if slices.Contains(partnerChanges, do) {
			path = "/partners/{partner}/" + do
		}
		for _, method := range []string{"GET ", "POST "} {
			all = append(all, route{pattern: method + path, serve: c.move(do)})
		}
	}
	return all
}
