package console

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/proxy/store"
)

// An overviewPage is the data of the page overview.
type overviewPage struct {
	Attention []attention
	Solved    []attention // what needed a person, and is over
	figures
	Backends  []backend
	Switch    killSwitch
	Callbacks operate.Counts // nil without callbacks
	Store     string         // "" if the config has none
	Rollout   *operate.Status
	Migration migration
	Table     string // its version
	File      string // of the config, or built-in
	Gateways  []operate.Gateway
}

// figures are the numbers of calls.
type figures struct {
	Reach    string    // the name of that of the numbers
	Reaches  []reach   // the choices
	Since    time.Time // when counting began, if that is within the reach; else zero
	Total    summary
	Outcomes []outcome // that are counted apart
	Rows     []summary
}

// An attention is something that needs a person.
type attention struct {
	Bad  bool
	ID   string // of the element
	Link string // where it can be seen or changed
	Key  string // of its text
	Args []any  // texts, numbers, times and notes
}

// overview shows whether the backends answer, what needs a person, how far the migration is, and the calls of a reach.
func (c *Console) overview(r *http.Request) (answer, error) {
	page := overviewPage{
		Table: c.Config().Table.Version, Store: storeKind(c.Config().Store.URL), File: c.Config().File,
	}
	w := c.windows[0]
	for _, one := range c.windows {
		if one.Name == r.URL.Query().Get("over") {
			w = one
		}
	}
	page.Reach, page.Reaches = w.Name, reaches
	page.Rows, page.Total = w.summaries(c.Now())
	page.Outcomes = outcomes[1:]
	page.Backends = c.backends()
	if c.Now().Sub(w.since) < w.long() {
		page.Since = w.since
	}
	a := attentions{console: c, r: r}
	if c.Ready != nil {
		for _, p := range c.Ready() {
			a.add(true, "ready-"+p.Name, "", "overview.not_ready", p.Name, p.Text)
		}
	}
	page.Gateways = a.gateways()
	if c.Operator.Rollout != nil {
		page.Rollout = a.rollout()
		page.Switch = switchOf(page.Rollout, page.Backends)
		var err error
		if page.Migration, err = c.migration(r); err == nil {
			page.Migration.draw(c, w)
		}
	}
	if c.Operator.Relay != nil {
		page.Callbacks = a.callbacks()
	}
	// With a rollout the ledger has those that nobody has resolved yet.
	if n := page.Total.Of[unknown]; n > 0 && c.Operator.Rollout == nil {
		a.add(true, "unknown", "/calls?outcome=unknown", "overview.unknown", pages.Number(n))
	}
	page.Attention, page.Solved = a.list, a.solved
	return show("overview", page)
}

// storeKind returns the name of the database. Its address is not shown: it may have a password.
func storeKind(address config.Secret) string {
	switch {
	case !address.IsSet():
		return ""
	case address.Reveal() == config.Memory:
		return "SQLite, in memory"
	case strings.HasPrefix(address.Reveal(), "sqlite:"):
		return "SQLite"
	}
	return "PostgreSQL"
}

// attentions collects what needs a person.
type attentions struct {
	console *Console
	r       *http.Request
	list    []attention
	solved  []attention
}

// add adds something that needs a person.
func (a *attentions) add(bad bool, id, link, key string, args ...any) {
	a.list = append(a.list, attention{bad, id, link, key, args})
}

// lostWritesShown is how long after a fail-over the overview shows that the store lacks writes, or may lack some.
const lostWritesShown = 24 * time.Hour

// rollout returns the state of the rollout, or nil if it cannot be read.
func (a *attentions) rollout() *operate.Status {
	o := a.console.Operator
	status, err := ask(a.r, o.Status, operate.Page{Limit: operate.AtMost(1)})
	if err != nil {
		a.add(true, "rollout", "/partners", "overview.rollout_error", err.Error())
		return nil
	}
	a.state(status)
	if n := o.Rollout.Unclear(); n > 0 {
		a.add(true, "bills", "/bills", "overview.unknown_bills", pages.Number(n))
	}
	if o.Store != nil {
		a.waves()
		a.resumed()
	}
	return &status
}

// gateways returns those that use the store, and reports what is wrong with them.
func (a *attentions) gateways() []operate.Gateway {
	all, err := ask(a.r, a.console.Operator.Gateways, struct{}{})
	if err != nil {
		a.add(true, "gateways", "", "overview.gateways_error", err.Error())
	}
	for _, g := range all {
		switch {
		case g.Silent:
			a.add(false, "silent-"+g.Name, "", "overview.silent", g.Name, g.Last)
		case g.Reading.Error != "":
			a.add(true, "reload-"+g.Name, "", "overview.reload_failed", g.Name, g.Reading.At)
		}
	}
	return all
}

// state reports what the status of the rollout says.
func (a *attentions) state(status operate.Status) {
	switch {
	case status.Stopped != nil && status.Unstored:
		a.add(true, "stopped", "/partners", "overview.stopped_here", status.Stopped.By)
	case status.Stopped != nil && status.Stopped.Reason != "":
		by := status.Stopped
		a.add(true, "stopped", "/partners", "overview.stopped_because", by.By, by.Reason, by.At)
	case status.Stopped != nil:
		a.add(true, "stopped", "/partners", "overview.stopped", status.Stopped.By, status.Stopped.At)
	case status.Begun == nil && status.Started != nil:
		a.add(false, "begin", "/partners", "overview.not_begun")
	}
	if status.RefusedUntil != nil {
		a.add(false, "refused", "/partners", "overview.refused_until", status.RefusedUntil)
	}
	recent := a.console.Now().Add(-lostWritesShown)
	if at := status.Restored; at != nil && at.By == store.ByFailOver && at.At.After(recent) {
		a.add(true, "restored", "/partners", "overview.lost_writes", at.At)
	}
	if status.Clock != nil && status.Clock.Stepped {
		a.add(true, "clock", "", "overview.clock")
	}
	if status.Failing > 0 {
		a.add(true, "verdicts", "/partners", "overview.verdicts", status.Failing)
	}
}

// resumed reports that the kill switch was on, for a time after its end.
func (a *attentions) resumed() {
	now := a.console.Now()
	log, _ := ask(a.r, a.console.Operator.Audit, operate.AuditPage{ // without it nothing is missing that needs a person
		Since: now.Add(-lostWritesShown), Limit: operate.AtMost(100),
	})
	end := slices.IndexFunc(log, func(c operate.Change) bool { return c.Action == string(store.Resumed) })
	if end < 0 || now.Sub(log[end].At) >= endedLately {
		return
	}
	older := log[end+1:]
	begin := slices.IndexFunc(older, func(c operate.Change) bool { return c.Action == string(store.Stopped) })
	if begin >= 0 {
		lasted := log[end].At.Sub(older[begin].At)
		a.solved = append(a.solved, attention{
			ID: "resumed", Link: "/partners", Key: "overview.was_stopped",
			Args: []any{lasted, older[begin].At, older[begin].By, log[end].By},
		})
	}
}

// waves reports the waves that the gateway has paused, and the partners that wait for a person.
func (a *attentions) waves() {
	list, err := ask(a.r, a.console.Operator.Waves, operate.WaveFilter{Active: true})
	if err != nil {
		a.add(true, "waves", "/waves", "overview.rollout_error", err.Error())
	}
	for _, w := range list {
		link := "/waves/" + w.Name
		if w.State == store.WavePaused && w.Why.Kind != "" {
			a.add(true, "wave-paused-"+w.Name, link, "overview.wave_paused", w.Name, w.Why)
		}
		if w.Waits > 0 && w.State != store.WaveBack {
			a.add(false, "wave-waits-"+w.Name, link, "overview.wave_waits", w.Name, pages.Number(w.Waits))
		}
	}
}

// callbacks returns the numbers of callbacks that wait and that failed, or nil if they cannot be read.
func (a *attentions) callbacks() operate.Counts {
	counts, err := ask(a.r, a.console.Operator.Counts, operate.CountLimit{AtMost: 1000})
	if err != nil {
		a.add(true, "callbacks", "/deliveries", "overview.callbacks_error", err.Error())
		return nil
	}
	if dead := counts["failed"]; dead.Number > 0 {
		a.add(true, "callbacks", "/deliveries?state=failed", "overview.callbacks_dead", atLeast(dead))
	}
	return counts
}

// atLeast returns a number that was counted up to a bound.
func atLeast(n operate.Number) string {
	if n.More {
		return pages.Number(n.Number) + "+"
	}
	return pages.Number(n.Number)
}
