package console

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// planKeys are the fields of a plan, in the order of the form.
var planKeys = []string{"steps", "stay", "each"}

// waves shows all waves.
func (c *Console) waves(r *http.Request) (a answer, err error) {
	list, err := ask(r, c.Operator.Waves, operate.WaveFilter{})
	return answer{page: "waves", data: list}, err
}

// A newWavePage is the data of the page wave-new: a form, and then what the wave would do.
type newWavePage struct {
	Form, Defaults url.Values
	Keys           []string         // of the plan
	Unnamed        []int            // the lines that name no partner
	Problem        string           // why there is no wave
	Changed        bool             // the partners or their stages are no longer those that the visitor has seen
	Preview        operate.WaveInfo // without partners while there is nothing to show
}

// Seen stands for the partners of the preview, where they are, and their next steps.
func (p newWavePage) Seen() string {
	var all []string
	for _, row := range p.Preview.Partners {
		all = append(all, fmt.Sprint(row.ID, row.String(), row.Step.String()))
	}
	slices.Sort(all) // they are sorted by what they wait for
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(all, "\n"))))
}

// newWave shows what a wave would do, and starts it if that is what the visitor has seen.
func (c *Console) newWave(r *http.Request) (a answer, err error) {
	isWrong := func(named string) bool { _, ok := partner.Parse(named); return !ok } // it may be a key
	if err := r.ParseForm(); err != nil || slices.ContainsFunc(r.Form["partner"], isWrong) {
		return a, errForm
	}
	page := newWavePage{Form: r.Form, Keys: planKeys}
	var plan moves.Plan
	_ = plan.Complete(slices.Contains(c.stages(), routing.StageShadow)) // an empty one can always be completed
	page.Defaults, _ = operate.Encode(plan)
	if r.Form.Get("all") != "" {
		if err = c.chooseAll(r); err != nil {
			return a, err
		}
	}
	seen, lines := r.Form.Get("seen"), append(strings.Split(r.Form.Get("partners"), "\n"), r.Form["partner"]...)
	for _, key := range []string{"by", "reason", "seen", "partner", "partners", "all", "stage", "state"} {
		page.Form.Del(key)
	}
	var named, ids []string
	for i, line := range lines {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case isWrong(c.partnerID(line)):
			page.Unnamed = append(page.Unnamed, i+1)
		default:
			named, ids = append(named, line), append(ids, c.partnerID(line))
		}
	}
	order := operate.WaveOrder{Preview: true, Partners: strings.Join(ids, "\n")}
	if r.Method == http.MethodPost && page.Unnamed == nil {
		if err = operate.Decode(without(page.Form), &order); err == nil {
			page.Preview, err = ask(r, c.Operator.CreateWave, order)
		}
		page.Changed = seen != "" && err == nil && seen != page.Seen()
		if seen != "" && err == nil && !page.Changed {
			order.Preview, order.Author = false, by(r)
			if _, err = ask(r, c.Operator.CreateWave, order); err == nil {
				return goTo("/waves/" + order.Name + "?done=start")
			}
		}
	}
	page.Form.Set("partners", strings.Join(named, "\n"))
	a = answer{page: "wave-new", data: &page}
	if page.Changed || page.Unnamed != nil {
		a.status = http.StatusConflict
	}
	return withProblem(r, a, &page.Problem, err, operate.NotFound)
}

// chooseAll adds the partners of a filter that have a next stage to the form.
func (c *Console) chooseAll(r *http.Request) error {
	query := operate.PartnerQuery{Limit: operate.AtMost(countedMost)}
	if err := operate.Decode(filterOf(r.Form, "stage", "state"), &query); err != nil {
		return err
	}
	list, err := ask(r, c.Operator.Partners, query)
	for _, row := range list.Partners {
		if row.Step.Stage != "" && row.Wave == "" {
			r.Form.Add("partner", row.Partner)
		}
	}
	return err
}

// A wavePage is the data of the page wave.
type wavePage struct {
	operate.WaveInfo
	Sums   []waitSum
	Chosen string            // the key of the partners that are shown; "" for all
	Shown  []operate.WaveRow // the first of these
	Of     int               // how many there are
	Keys   []string
	Values url.Values       // of the plan
	Log    []operate.Change // the last steps
	Action string           // what was done just now
	This   string           // the address of the page, for refreshes; "" if nothing can change
}

// A waitSum is how many partners of a wave wait for the same.
type waitSum struct {
	Key    string // of waitKey
	Number int
}

// Keys of what partners of a wave wait for, beside the kinds of reasons.
const (
	waitPerson = "person"
	waitTurn   = "turn" // nothing holds them up
	waitStay   = "stay" // their time in the stage
	waitNone   = "none" // they are after the last step
)

// waitKey returns what a partner waits for: the first reason of several.
func waitKey(row operate.WaveRow) string {
	switch kinds := row.Step.Kinds(); {
	case row.Waits.Kind != "":
		return waitPerson
	case row.Step.Stage == "":
		return waitNone
	case len(kinds) > 0:
		return string(kinds[0])
	case row.Stays != nil:
		return waitStay
	}
	return waitTurn
}

const (
	fewInWave   = 25  // how many partners of a wave are shown without a choice
	shownOfWave = 100 // how many are shown of those of a choice
)

// sum sums what the partners wait for, and selects those of one key: by default those that wait for a person.
func (p *wavePage) sum(chosen string) {
	for _, row := range p.Partners {
		key := waitKey(row)
		at := slices.IndexFunc(p.Sums, func(s waitSum) bool { return s.Key == key })
		if at < 0 {
			at, p.Sums = len(p.Sums), append(p.Sums, waitSum{Key: key})
		}
		p.Sums[at].Number++
	}
	if p.Chosen = chosen; chosen == "" && len(p.Partners) > fewInWave {
		p.Chosen = waitPerson
	}
	for _, row := range p.Partners {
		if p.Chosen == "" || p.Chosen == waitKey(row) {
			p.Shown = append(p.Shown, row)
		}
	}
	p.Of = len(p.Shown)
	p.Shown = p.Shown[:min(p.Of, shownOfWave)]
}

// waveStepsShown is how many steps the page of a wave shows.
const waveStepsShown = 20

// oneWave shows a wave, with what its partners wait for.
func (c *Console) oneWave(r *http.Request) (a answer, err error) {
	o, page := c.Operator, wavePage{Keys: planKeys}
	query := operate.WaveQuery{Limit: operate.AtMost(countedMost)}
	err = operate.Decode(url.Values{"name": {r.PathValue("name")}}, &query)
	page.WaveInfo = askNext(r, &err, o.Wave, query)
	page.sum(r.URL.Query().Get("waits"))
	page.Log = askNext(r, &err, o.Audit, operate.AuditPage{
		By: moves.ByWave(page.Name), Since: page.Created, Limit: operate.AtMost(waveStepsShown),
	})
	if err != nil {
		return a, err
	}
	page.Values, _ = operate.Encode(page.Plan)
	if page.State != store.WaveEnded {
		page.This = "/waves/" + page.Name + "?" + without(url.Values{"waits": {page.Chosen}}).Encode()
	}
	if done := r.URL.Query().Get("done"); c.texts.Texts["waves.action."+done] != nil {
		page.Action = done
	}
	return show("wave", page)
}

// decideWave decides about a wave, or about one of its partners.
func (c *Console) decideWave(r *http.Request) (a answer, err error) {
	o, do, of := c.Operator, r.PathValue("do"), r.FormValue("partner")
	releases := do == "release"
	if operate.WaveChanges[do] == nil && !releases {
		return a, errPath
	}
	named := operate.WaveName{Name: r.PathValue("name")}
	d := decision{Of: "waves", Fields: without(url.Values{"partner": {of}})}
	return d.decide(r, func() error {
		info, err := ask(r, o.Wave, operate.WaveQuery{WaveName: named, Limit: operate.AtMost(countedMost)})
		var row operate.WaveRow // that is released
		for _, one := range info.Partners {
			if one.Partner == of {
				row = one
			}
		}
		d.Head, d.About, d.Nothing = info, row, releases && row.Waits.Kind == ""
		d.Seen = url.Values{"seen": {fmt.Sprint(info.State, info.Since.UnixMilli(), row.String(), row.Waits)}}
		return err
	}, func(by operate.Decision) (err error) {
		if releases {
			_, err = ask(r, o.ReleasePartner, operate.WavePartner{
				Author: by.Author, WaveName: named, PartnerRef: operate.PartnerRef{Partner: of},
			})
		} else {
			_, err = ask(r, o.ChangeWave, operate.WaveChange{Author: by.Author, WaveName: named, Do: do})
		}
		return err
	})
}
