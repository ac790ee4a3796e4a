package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/store"
	"billbridge/translate"
)

type checkCommand struct {
	reloadFlags
	Config  string `placeholder:"FILE"`
	Offline bool
	Verbose bool
}

// reloadFlags name a gateway that is asked about a reload.
type reloadFlags struct {
	Admin given  `placeholder:"URL"`
	CA    string `name:"admin-ca" env:"BILLBRIDGE_ADMIN_CA" placeholder:"FILE"`
	Token string `env:"BILLBRIDGE_ADMIN_TOKEN" placeholder:"TOKEN"`
}

// ask asks the gateway, if one is named, whether it would refuse a reload.
func (f *reloadFlags) ask(ctx context.Context, s system) error {
	if f.Admin == "" {
		return nil
	}
	gateway := adminFlags{Admin: string(f.Admin), CA: f.CA, Token: f.Token, system: s}
	err := gateway.send(ctx, http.MethodGet, "/-/reload", nil)
	if refused, ok := errors.AsType[*adminError](err); ok && refused.status == http.StatusBadRequest {
		return fmt.Errorf("the gateway at %s would refuse a reload: %s", f.Admin, lines(refused.text))
	}
	return err
}

// Run checks the config and prints the result.
func (c *checkCommand) Run(ctx context.Context, s system) error {
	checked, err := loadOrBuiltIn(c.Config, s)
	if err != nil {
		return err
	}
	checked.FitOpenFiles(config.OpenFiles())
	for _, warning := range checked.Warnings() {
		warn(s, warning, warning.Text)
	}
	if !c.Offline {
		if err := probeStore(ctx, checked, s); err != nil {
			return err
		}
	}
	if err := c.ask(ctx, s); err != nil {
		return err
	}
	servers, filled := postgresServers(checked, s)
	reads := proxy.OwnReads(checked)
	for _, read := range reads {
		if read.Problem != "" {
			printf(s.err, "%s: warning: reads of a bill at %s for partners of %s: %s\n", checked.File, read.Upstream,
				read.Clients[0], read.Problem)
		}
	}
	return show(s.out, "check", struct {
		*config.Config
		Name, Servers, Filled string
		Verbose               bool
		Asked                 given
		Routes                []proxy.Route
		OwnReads              []proxy.OwnRead
	}{checked, cmp.Or(c.Config, "built-in config"), servers, filled, c.Verbose, c.Admin, proxy.Routes(checked), reads})
}

// warn prints a warning about a place in the config.
func warn(s system, at translate.Problem, text string) {
	at.Text = "warning: " + text
	printf(s.err, "%s\n", at)
}

// probeStore returns an error if the store cannot be used. It does not change the store.
func probeStore(ctx context.Context, c *config.Config, s system) error {
	if !c.Store.URL.IsSet() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	url, at := c.Store.URL.Reveal(), c.Store.Position
	if err := store.Probe(ctx, url, store.Options{Key: c.Store.KeyBytes()}); err != nil {
		at.Text = "store.url: " + err.Error()
		return translate.Problems{at}
	}
	if c.Store.Failover == config.Lossless && !strings.HasPrefix(url, "sqlite:") {
		if synchronous, err := store.SynchronousAt(ctx, url); err == nil && !synchronous {
			// Only a warning: for some seconds after a fail-over this is no mistake.
			warn(s, at, "store.failover is lossless, but PostgreSQL does not wait for a standby now: "+
				"set synchronous_standby_names, and synchronous_commit to on or remote_apply")
		}
	}
	return nil
}

// postgresServers returns how PostgreSQL is reached, and warns about what several hosts do not protect from.
func postgresServers(c *config.Config, s system) (servers, filled string) {
	names, added, err := store.Servers(c.Store.URL.Reveal())
	if err != nil { // SQLite, or no store
		return "", ""
	}
	if len(names) > 1 {
		warn(s, c.Store.Position, "store.url names several servers. If the cluster manager of the primary fails and "+
			"its PostgreSQL does not, gateways write to it although there is a new primary, and these writes are "+
			"lost. Use a watchdog on each server; or name a proxy instead that checks which server is the primary and "+
			"ends connections to the others (HAProxy: on-marked-down shutdown-sessions)")
	}
	return strings.Join(names, ", "), strings.Join(added, ", ")
}

func loadOrBuiltIn(path string, s system) (*config.Config, error) {
	if path == "" {
		text := builtInConfig("http://127.0.0.1:8081")
		return config.Parse(translate.File{Name: "built-in", Data: []byte(text)}, s.env)
	}
	return config.Load(path, s.env)
}

// targets returns the upstreams that the calls of a route go to: those of the rollout if it decides, else one.
func targets(r proxy.Route) []*config.Upstream {
	if r.Backends == nil && r.Upstream != nil {
		return []*config.Upstream{r.Upstream}
	}
	return r.Backends
}

// Codes end a write in one way.
type codes struct{ Kind, Codes string }

// endingCodes returns the codes by which an upstream ends a write for certain.
func endingCodes(t *translate.Table, u config.Upstream) (all []codes) {
	found := map[string][]string{"done": {t.Envelope(u.Form).ShowsSuccess()}}
	kinds := map[translate.Meaning]string{translate.Exists: "the bill exists", translate.NotFound: "no such bill"}
	for _, m := range t.Meanings {
		if m.Form != "" && m.Form != u.Form || m.Means == translate.Unavailable {
			continue
		}
		kind := cmp.Or(kinds[m.Means], "refused")
		own := []string{m.Code}
		if m.Form == "" {
			var replaced bool
			if own, replaced = t.Envelope(u.Form).CodesOf(m.Code); replaced {
				own = nil
			}
		}
		for _, code := range own {
			if !slices.Contains(found[kind], code) {
				found[kind] = append(found[kind], code)
			}
		}
	}
	for _, kind := range []string{"done", "the bill exists", "no such bill", "refused"} {
		all = append(all, codes{kind, strings.Join(found[kind], " ")})
	}
	for _, code := range t.Catalogue {
		second := t.Forms()[1]
		if other, replaced := t.Envelope(second).CodesOf(code); replaced && code != t.Envelope(t.Forms()[0]).Success {
			all = append(all, codes{"no pair", code + ": " + string(second) + " has " + other[0]})
		}
	}
	return all
}

// fieldDetail says how a field is translated, and whether a comparison of two backends allows a difference in it.
func fieldDetail(f translate.Field) string {
	detail := f.Detail.String()
	if f.Exact && detail != "" {
		detail += "; "
	}
	if f.Exact {
		detail += "one difference is FAIL"
	}
	return detail
}

type mapCommand struct {
	Format string `default:"table" enum:"table,yaml"`
	tableFlags
}

// tableFlags name a table.
type tableFlags struct {
	Config  string `placeholder:"FILE"`
	Table   string `placeholder:"FILE"`
	Overlay string `placeholder:"FILE"`
}

// load returns the table, and its config if the flags name one.
func (f tableFlags) load(s system) (*translate.Table, *config.Config, error) {
	if f.Config == "" {
		table, err := compileTable(f.Table, f.Overlay)
		return table, nil, err
	}
	if f.Table != "" || f.Overlay != "" {
		return nil, nil, usageError("--config cannot be combined with --table or --overlay: " +
			"the config names its own table")
	}
	c, err := config.Load(f.Config, s.env)
	if err != nil {
		return nil, nil, err
	}
	return c.Table, c, nil
}

// Run prints the table.
func (c *mapCommand) Run(s system) error {
	table, _, err := c.load(s)
	if err != nil {
		return err
	}
	if c.Format == "yaml" {
		return s.write(table.YAML())
	}
	return show(s.out, "map", table)
}

// A mapRow is one row of the table: the field names in the two forms, and what happens in each direction.
type mapRow struct {
	Message, First, Second   string
	About, ToSecond, ToFirst string
}

// mapRows returns the rows for the fields of both directions. A field that both directions have is one row.
func mapRows(t *translate.Table, fields []translate.Field) (rows []*mapRow) {
	for _, f := range fields {
		class := string(f.Class)
		if detail := fieldDetail(f); detail != "" {
			class += ": " + detail
		}
		one := &mapRow{Message: f.Message, First: f.Source, Second: f.Target, About: f.About, ToSecond: class}
		if f.From != t.Forms()[0] {
			one.First, one.Second, one.ToSecond, one.ToFirst = f.Target, f.Source, "", class
		}
		if f.Class == translate.Passed {
			one.Second = ""
		}
		i := slices.IndexFunc(rows, func(r *mapRow) bool {
			return r.Message == one.Message && r.First == one.First && r.Second == one.Second
		})
		if i < 0 {
			rows = append(rows, one)
			continue
		}
		rows[i].ToSecond, rows[i].ToFirst = cmp.Or(one.ToSecond, rows[i].ToSecond), cmp.Or(one.ToFirst, rows[i].ToFirst)
	}
	return rows
}
