package web

import (
	"net/http"
	"slices"
	"time"

	"billbridge/proxy/sandbox"
)

// A scenario is a fault that a developer switches on for one partner. Its words are the texts scenarios.….NAME.
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
	For               choice // the partner
	Operations, Codes []string
	On                []sandbox.Fault
}

// allScenarios shows the scenarios of a partner, and those that are on.
func (d *desk) allScenarios(w http.ResponseWriter, r *http.Request) {
	p := scenariosPage{scope: scopeOf(r), Scenarios: d.scenarios, Codes: sandbox.Catalogue()[1:]}
	if p.For = p.find(r.FormValue("partner"), ""); p.For.ID == "" && len(p.Partners) > 0 {
		p.For = p.Partners[0]
	}
	p.Operations = sandbox.Operations()
	p.Operations = p.Operations[:len(p.Operations)-1] // without that of callbacks
	p.On = slices.DeleteFunc(d.Faults(), func(f sandbox.Fault) bool { return f.Partner != p.For.key })
	d.site.Page(w, r, "scenarios", p)
}

// switchScenario switches a scenario on for a partner, or all of them off.
func (d *desk) switchScenario(w http.ResponseWriter, r *http.Request) {
	partner, name := scopeOf(r).find(r.PostFormValue("partner"), ""), r.PathValue("name")
	i := slices.IndexFunc(d.scenarios, func(s scenario) bool { return s.Name == name })
	var err error
	switch {
	case partner.ID == "" || i < 0 && name != "off":
		d.site.Refuse(w, r, http.StatusNotFound, "scenarios.unknown")
		return
	case i < 0:
		d.ClearFaults(partner.key)
	default:
		f := d.scenarios[i].Fault
		f.Name, f.Partner = name, partner.key
		if d.scenarios[i].Calls {
			f.Operation = r.PostFormValue("operation")
		}
		if d.scenarios[i].Codes {
			f.Code = r.PostFormValue("code")
		}
		if r.PostFormValue("for") == "minute" {
			f.Until = d.Now().Add(time.Minute)
		}
		err = d.AddFault(f)
	}
	d.changed(w, r, "/desk/scenarios?partner="+partner.ID, err)
}

// A clockPage is the data of the page clock.
type clockPage struct {
	scope
	Now time.Time
}

// clock shows the clock.
func (d *desk) clock(w http.ResponseWriter, r *http.Request) {
	d.site.Page(w, r, "clock", clockPage{scopeOf(r), d.Now()})
}

// setClock advances the clock of the service by a duration, or resets it if there is none.
func (d *desk) setClock(w http.ResponseWriter, r *http.Request) {
	if !scopeOf(r).All {
		d.site.Refuse(w, r, http.StatusForbidden, "clock.whole")
		return
	}
	to := time.Time{}
	if by, err := time.ParseDuration(r.PostFormValue("advance")); err == nil {
		to = d.Now().Add(by)
	}
	d.changed(w, r, "/desk/clock", d.SetClock(to))
}
