package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"billbridge/proxy/rollout"
)

// A movePage is the data of the page move: what a change of the rollout would do, before it is confirmed.
type movePage struct {
	Do       string // next, set, unset, stop or resume
	Partner  string // as in the address; "" for stop and resume
	Stages   []rollout.Stage
	Stage    string // that the visitor chose, with set
	Percent  string
	Preview  *rollout.Changed // nil while there is nothing to show
	Problem  string           // why the change is not possible, or was not made
	Changed  bool             // the state is another than the visitor has seen
	NotYet   bool             // there are reasons, and the visitor has not confirmed that they do not matter
	Unstored string           // a stop that is in effect on this gateway alone
}

// move shows what a change would do, and makes it. Both ask the API for a preview first: a change is made only if it is still the one that
// the visitor has seen.
func (c *Console) move(do string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := movePage{Do: do, Partner: r.PathValue("partner"), Stages: c.stages(), Stage: r.FormValue("stage"), Percent: r.FormValue("percent")}
		if page.Stage != string(rollout.StageCanary) {
			page.Percent = ""
		}
		if do == "set" && page.Stage == "" {
			c.page(w, r, "move", page)
			return
		}
		var preview rollout.Changed
		if err := c.call(r, c.options.Rollout, http.MethodPost, page.target(url.Values{"preview": {"true"}}), nil, &preview); err != nil {
			c.moveFailed(w, r, page, err)
			return
		}
		page.Preview = &preview
		if r.Method == http.MethodPost && !preview.Already {
			c.confirmMove(w, r, page)
			return
		}
		c.page(w, r, "move", page)
	}
}

// stages are those that the page offers: shadow only if it can compare anything.
func (c *Console) stages() []rollout.Stage {
	return slices.DeleteFunc(slices.Clone(rollout.Stages), func(s rollout.Stage) bool {
		section := c.options.Config().Rollout
		return s == rollout.StageShadow && section != nil && !section.Comparable()
	})
}

// target is the address of the change in the API.
func (p movePage) target(q url.Values) string {
	path := p.Do
	if p.Do == "set" {
		path = "stage"
		q.Set("stage", p.Stage)
		if p.Percent != "" {
			q.Set("percent", p.Percent)
		}
	}
	if p.Partner != "" {
		q.Set("partner", p.Partner)
	}
	return "/rollout/" + path + "?" + q.Encode()
}

// From and To are the stages of the preview, for the form and the page.
func (p movePage) From() string { return rollout.InWords(p.Preview.From, p.Preview.FromPercent) }

// To is the new stage.
func (p movePage) To() string { return rollout.InWords(p.Preview.To, p.Preview.ToPercent) }

// Kinds are the kinds of the reasons against the change. The visitor confirms each.
func (p movePage) Kinds() (kinds []string) {
	for _, reason := range p.Preview.Reasons {
		if kind := string(reason.Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// confirmMove makes the change that the visitor has seen.
func (c *Console) confirmMove(w http.ResponseWriter, r *http.Request, page movePage) {
	page.Changed = r.PostFormValue("from") != page.From() || r.PostFormValue("to") != page.To()
	page.NotYet = slices.ContainsFunc(page.Kinds(), func(kind string) bool { return !slices.Contains(r.PostForm["force"], kind) })
	if page.Changed || page.NotYet {
		c.pageWithStatus(w, r, http.StatusConflict, "move", page)
		return
	}
	q := url.Values{"by": {by(r)}}
	if kinds := page.Kinds(); len(kinds) > 0 {
		q.Set("force", strings.Join(kinds, ","))
	}
	if page.Do == "next" { // the step that the visitor has seen, and no other one
		q.Set("stage", page.Preview.To)
		if page.Preview.ToPercent != nil {
			q.Set("percent", strconv.Itoa(*page.Preview.ToPercent))
		}
	}
	var changed rollout.Changed
	if err := c.call(r, c.options.Rollout, http.MethodPost, page.target(q), nil, &changed); err != nil {
		c.moveFailed(w, r, page, err)
		return
	}
	if page.Unstored = changed.Unstored; page.Unstored != "" {
		c.page(w, r, "move", page)
		return
	}
	to := "/partners"
	if page.Partner != "" && page.Partner != "default" {
		to += "/" + url.PathEscape(page.Partner)
	}
	http.Redirect(w, r, to+"?done="+page.Do, http.StatusSeeOther)
}

// moveFailed shows an error of the API on the page, if it is about what the visitor asked for.
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
		all = append(all, route{pattern: "GET " + path, serve: c.move(do)}, route{pattern: "POST " + path, serve: c.move(do)})
	}
	return all
}
