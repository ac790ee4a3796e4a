package web

import (
	"net/http"
	"slices"
	"time"

	"billbridge/proxy/sandbox"
)

// A scenario is a fault that a developer switches on for one partner. Its words are the texts scenarios.NAME….
type scenario struct {
	Name  string
	Fault sandbox.Fault
	Calls bool // the operation is chosen
	Codes bool // the code is chosen
}

// A scenariosPage is the data of the page scenarios.
type scenariosPage struct {
	scope
	Scenarios         []scenario
	Operations, Codes []string
	On                []sandbox.Fault
	Problem           string
}

// minute is how long a scenario is on, unless it is for the next call.
const minute = time.Minute

// allScenarios shows the scenarios, and those that are on.
func (d *desk) allScenarios(w http.ResponseWriter, r *http.Request) { d.scenariosWith(w, r, nil) }

func (d *desk) scenariosWith(w http.ResponseWriter, r *http.Request, problem error) {
	p := scenariosPage{
		scope: d.scopeOf(r), Scenarios: d.scenarios, Codes: sandbox.Catalogue()[1:],
		Operations: slices.DeleteFunc(sandbox.Operations(), func(o string) bool { return o == "callback.payment" }),
		On:         d.Faults(),
	}
	p.On = slices.DeleteFunc(p.On, func(f sandbox.Fault) bool { return p.ID(f.Partner) == "" })
	status := http.StatusOK
	if problem != nil {
		p.Problem, status = problem.Error(), http.StatusConflict
	}
	d.site.PageWithStatus(w, r, status, "scenarios", p)
}

// switchScenario switches a scenario on for a partner, or with the name off all of them off.
func (d *desk) switchScenario(w http.ResponseWriter, r *http.Request) {
	key, name := d.scopeOf(r).key(r.PostFormValue("partner")), r.PathValue("name")
	i := slices.IndexFunc(d.scenarios, func(s scenario) bool { return s.Name == name })
	switch {
	case key == "" || i < 0 && name != "off":
		d.site.Refuse(w, r, http.StatusNotFound, "scenarios.unknown")
		return
	case i < 0:
		d.ClearFaultsOf(key)
	default:
		f := d.scenarios[i].Fault
		f.Name, f.Partner = name, key
		if d.scenarios[i].Calls {
			f.Operation = r.PostFormValue("operation")
		}
		if d.scenarios[i].Codes {
			f.Code = r.PostFormValue("code")
		}
		if r.PostFormValue("for") == "minute" {
			f.Until = d.Now().Add(minute)
		}
		if err := d.AddFault(f); err != nil {
			d.scenariosWith(w, r, err)
			return
		}
	}
	http.Redirect(w, r, "/desk/scenarios", http.StatusSeeOther)
}

// A valuesPage is the data of the page values.
type valuesPage struct {
	scope
	Values []sandbox.TestValue
	Now    time.Time
	Steps  []string // by which the clock can be advanced
}

// values shows the test values and the clock.
func (d *desk) values(w http.ResponseWriter, r *http.Request) {
	d.site.Page(w, r, "values", valuesPage{d.scopeOf(r), sandbox.TestValues(), d.Now(), []string{"1m", "1h", "25h"}})
}

// setClock advances the clock of the service by a duration, or resets it if there is none.
func (d *desk) setClock(w http.ResponseWriter, r *http.Request) {
	if !d.scopeOf(r).All {
		d.site.Refuse(w, r, http.StatusForbidden, "values.whole")
		return
	}
	to := time.Time{}
	if by, err := time.ParseDuration(r.PostFormValue("advance")); err == nil {
		to = d.Now().Add(by)
	}
	if err := d.SetClock(to); err != nil {
		d.site.Fail(w, r, http.StatusInternalServerError, err)
		return
	}
	http.Redirect(w, r, "/desk/values", http.StatusSeeOther)
}
