package console

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/wave"
)

// planKeys are the fields of a plan, in the order of the form.
var planKeys = []string{"steps", "stay", "each", "window", "held", "failures", "slower", "unknown"}

// waves shows all waves.
func (c *Console) waves(w http.ResponseWriter, r *http.Request) {
	list, err := ask(r, c.options.Operator.Waves, operate.WaveFilter{})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.page(w, r, "waves", list)
}

// A newWavePage is the data of the page wave-new: a form, and then what the wave would do.
type newWavePage struct {
	Form     url.Values
	Keys     []string   // of the plan
	Defaults url.Values // of them
	Stages   []rollout.Stage
	Unnamed  []string         // the numbers of the lines that name no partner
	Problem  string           // why there is no wave
	Changed  bool             // the partners are others than the visitor has seen, or in other stages
	Preview  operate.WaveInfo // without partners while there is nothing to show
}

// Seen stands for the partners of the preview, where they are, and their next steps.
func (p newWavePage) Seen() string {
	var all []string
	for _, row := range p.Preview.Partners {
		all = append(all, fmt.Sprintln(row.ID, row.String(), row.Step.String()))
	}
	slices.Sort(all) // they are sorted by what they wait for
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(all, ""))))
}

// newWave shows what a wave would do, and starts it if that is what the visitor has seen.
func (c *Console) newWave(w http.ResponseWriter, r *http.Request) {
	isWrong := func(named string) bool { _, ok := partner.Parse(named); return !ok } // it may be a key
	if err := r.ParseForm(); err != nil || slices.ContainsFunc(r.Form["partner"], isWrong) {
		c.refuse(w, r, http.StatusBadRequest, "error.form")
		return
	}
	page := newWavePage{Form: url.Values{}, Keys: planKeys, Stages: rollout.Stages}
	var plan wave.Plan
	err := plan.Complete(slices.Contains(c.stages(), rollout.StageShadow)) // of an empty plan it never fails
	page.Defaults, _ = operate.Encode(plan)
	for _, key := range append([]string{"name", "stage", "max", "to"}, planKeys...) {
		page.Form.Set(key, strings.TrimSpace(r.Form.Get(key)))
	}
	order := operate.WaveOrder{Preview: true}
	var named, ids []string
	for i, line := range slices.Concat(strings.Split(r.Form.Get("partners"), "\n"), r.Form["partner"]) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case isWrong(c.partnerID(line)):
			page.Unnamed = append(page.Unnamed, strconv.Itoa(i+1))
		default:
			named, ids = append(named, line), append(ids, c.partnerID(line))
		}
	}
	if err == nil && r.Method == http.MethodPost && page.Unnamed == nil {
		order.Partners = strings.Join(ids, "\n")
		if err = operate.Decode(without(page.Form), &order); err == nil {
			page.Preview, err = ask(r, c.options.Operator.CreateWave, order)
		}
		if seen := r.PostFormValue("seen"); err == nil && seen != "" {
			if page.Changed = seen != page.Seen(); !page.Changed {
				order.Preview, order.By = false, by(r)
				_, err = ask(r, c.options.Operator.CreateWave, order)
			}
			if err == nil && !page.Changed {
				http.Redirect(w, r, wavePath(order.Name)+"?done=start", http.StatusSeeOther)
				return
			}
		}
	}
	page.Form.Set("partners", strings.Join(named, "\n"))
	status, ok := http.StatusOK, true
	if page.Changed || page.Unnamed != nil {
		status = http.StatusConflict
	}
	if err != nil {
		status = statusOf(err)
		if page.Problem, ok = problemOf(err, operate.NotFound); !ok {
			c.fail(w, r, err)
			return
		}
	}
	c.pageWithStatus(w, r, status, "wave-new", page)
}

func wavePath(name string) string { return "/waves/" + url.PathEscape(name) }

// A wavePage is the data of the page wave.
type wavePage struct {
	operate.WaveInfo
	From   int // the place of the first partner of the page
	Keys   []string
	Values url.Values       // of the plan
	Log    []operate.Change // its last steps
	Action string           // what was done just now
}

// A waveStep is how many partners of a wave are at least as far as a step.
type waveStep struct {
	Step            string
	Number, Percent int
}

// Progress returns how many partners have come to each step.
func (p wavePage) Progress() (all []waveStep) {
	for _, step := range p.Steps {
		one := waveStep{Step: step.String()}
		for _, at := range p.At {
			if !at.Position().Before(step) {
				one.Number += at.Number
			}
		}
		one.Percent = 100 * one.Number / max(p.Number, 1)
		all = append(all, one)
	}
	return all
}

// waveStepsShown is how many steps the page of a wave shows.
const waveStepsShown = 20

// oneWave shows a wave, with a page of its partners.
func (c *Console) oneWave(w http.ResponseWriter, r *http.Request) {
	o := c.options.Operator
	query := operate.WaveQuery{Limit: operate.AtMost(partnersOnPage)}
	given := url.Values{"name": {r.PathValue("name")}, "after": {r.URL.Query().Get("after")}}
	err := operate.Decode(without(given), &query)
	page := wavePage{From: query.After + 1, Keys: planKeys}
	if err == nil {
		page.WaveInfo, err = ask(r, o.Wave, query)
	}
	if err == nil {
		log := operate.AuditPage{By: wave.ByWave(page.Name), Since: page.Created, Limit: operate.AtMost(waveStepsShown)}
		page.Log, err = ask(r, o.Audit, log)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	page.Values, _ = operate.Encode(page.Plan)
	if done := r.URL.Query().Get("done"); done == "start" || c.waveVerb(done, "") != nil {
		page.Action = done
	}
	c.page(w, r, "wave", page)
}

// A waveDecision is the data of the page wave-decision: a change of a wave before it is confirmed.
type waveDecision struct {
	operate.WaveInfo
	Do      string
	Row     operate.WaveRow // that is released
	Problem string          // why it was not done
	Changed bool            // the state is another than the visitor has seen
}

// Seen stands for the state that the visitor decides about.
func (d waveDecision) Seen() string {
	return fmt.Sprint(d.State, d.Since.UnixMilli(), d.Row.String(), d.Row.Waits)
}

// waveVerb returns the function of the operator that changes a wave, nil if there is none.
func (c *Console) waveVerb(do, of string) func(context.Context, operate.WaveChange) (operate.WaveInfo, error) {
	o := c.options.Operator
	switch do {
	case "pause":
		return o.PauseWave
	case "resume":
		return o.ResumeWave
	case "stop":
		return o.StopWave
	case "rollback":
		return o.RollBackWave
	case "release":
		return func(ctx context.Context, change operate.WaveChange) (info operate.WaveInfo, err error) {
			one := operate.WavePartner{WaveChange: change, PartnerRef: operate.PartnerRef{Partner: of}}
			_, err = o.ReleasePartner(ctx, one)
			return info, err
		}
	}
	return nil
}

// decideWave shows a change of a wave, and makes it if the state is the one that the visitor has seen.
func (c *Console) decideWave(w http.ResponseWriter, r *http.Request) {
	page, of := waveDecision{Do: r.PathValue("do")}, r.FormValue("partner")
	change := operate.WaveChange{
		Author: operate.Author{By: by(r)}, WaveName: operate.WaveName{Name: r.PathValue("name")},
	}
	verb := c.waveVerb(page.Do, of)
	if verb == nil {
		c.refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	var err error
	query := operate.WaveQuery{WaveName: change.WaveName, Limit: operate.AtMost(countedMost)}
	if page.WaveInfo, err = ask(r, c.options.Operator.Wave, query); err != nil {
		c.fail(w, r, err)
		return
	}
	for _, row := range page.Partners {
		if row.Partner == of {
			page.Row = row
		}
	}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		status = http.StatusConflict
		if page.Changed = r.PostFormValue("seen") != page.Seen(); !page.Changed {
			_, err = ask(r, verb, change)
			if err == nil {
				http.Redirect(w, r, wavePath(page.Name)+"?done="+page.Do, http.StatusSeeOther)
				return
			}
			var ok bool
			if page.Problem, ok = problemOf(err, operate.NotFound); !ok {
				c.fail(w, r, err)
				return
			}
		}
	}
	c.pageWithStatus(w, r, status, "wave-decision", page)
}

// waveRoutes are the routes of waves.
func (c *Console) waveRoutes() []route {
	return []route{
		{pattern: "GET /waves", serve: c.waves},
		{pattern: "GET /waves/new", serve: c.newWave},
		{pattern: "POST /waves/new", serve: c.newWave},
		{pattern: "GET /waves/{name}", serve: c.oneWave},
		{pattern: "GET /waves/{name}/{do}", serve: c.decideWave},
		{pattern: "POST /waves/{name}/{do}", serve: c.decideWave},
	}
}
