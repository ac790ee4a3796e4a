package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/server"
	"billbridge/proxy/store"
	"billbridge/translate"
)

type checkCommand struct {
	Config    string  `placeholder:"FILE" help:"YAML config. If omitted, the built-in table and a config with a sandbox on 127.0.0.1:8081 are checked."`
	Offline   bool    `help:"Do not connect to the store, for example in a build that cannot reach the database."`
	Addresses *string `placeholder:"FILE" help:"Check the callback addresses in this file instead, one per line; - is stdin. Run it before a cut-over with the addresses of a day's traffic to see which bills would be refused."`
}

// Help implements kong's detailed help.
func (checkCommand) Help() string {
	return examples("billbridge check --config billbridge.yaml", "billbridge check --config billbridge.yaml --offline",
		"billbridge check --config billbridge.yaml --addresses addresses.txt") +
		"\n\nA mistake is printed as FILE:LINE:COLUMN: TEXT, an address that would be refused as FILE:LINE: REASON: ADDRESS; the exit" +
		"\ncode is then 1. The query, user and password of an address, and the text of a mistake in the config, are not printed," +
		"\nbecause they can be secret. A warning on stderr does not change the exit code."
}

// Run checks the config or the addresses, and prints the result.
func (c *checkCommand) Run(ctx context.Context, s system) error {
	checked, err := loadOrBuiltIn(c.Config, s)
	if err != nil {
		return err
	}
	if c.Addresses != nil {
		return checkAddresses(checked, *c.Addresses, s)
	}
	for _, warning := range checked.Warnings() {
		warning.Text = "warning: " + warning.Text
		printf(s.err, "%s\n", warning)
	}
	if !c.Offline {
		if err := probeStore(ctx, checked, s); err != nil {
			return err
		}
	}
	printf(s.out, "%s: ok\n\n", cmp.Or(c.Config, "built-in config"))
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	atStart, maximum, err := server.Series(ctx, checked, build())
	if err != nil {
		return err
	}
	printServers(w, checked, s)
	printGateway(w, checked, fmt.Sprintf("%d series at the start, at most %d if every route answers with every code and HTTP status", atStart, maximum))
	printChanges(w, checked.Table)
	printFields(w, checked.Table)
	return w.Flush()
}

// printChanges prints what the overlay changes, row by row.
func printChanges(w io.Writer, t *translate.Table) {
	for i, c := range t.Changes() {
		if i == 0 {
			printf(w, "\nchanged by the overlay\n")
		}
		printf(w, "  %s, line %d\n    before\t%s\n    after\t%s\n", c.Message, c.Line,
			cmp.Or(strings.ReplaceAll(c.Before, "\n", "\n    and\t"), "no such row"), cmp.Or(c.After, "removed"))
	}
}

// probeStore returns an error if the store cannot be used. It does not change the store.
func probeStore(ctx context.Context, c *config.Config, s system) error {
	if !c.Store.URL.IsSet() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var keys store.Keys
	keys.Key, keys.Old = c.Store.Keys()
	url, at := c.Store.URL.Reveal(), c.Store.Position
	if err := store.Probe(ctx, url, store.Options{Keys: keys}); err != nil {
		at.Text = "store.url: " + err.Error()
		return translate.Problems{at}
	}
	if c.Store.Failover == config.Lossless && !strings.HasPrefix(url, "sqlite:") {
		if synchronous, err := store.SynchronousAt(ctx, url); err == nil && !synchronous { // no mistake for some seconds after a fail-over
			at.Text = "warning: store.failover is lossless, but PostgreSQL does not wait for a standby now: set synchronous_standby_names, and " +
				"synchronous_commit to on or remote_apply"
			printf(s.err, "%s\n", at)
		}
	}
	return nil
}

// printServers prints how PostgreSQL is reached, and warns about what several hosts do not protect from.
func printServers(w io.Writer, c *config.Config, s system) {
	url, at := c.Store.URL.Reveal(), c.Store.Position
	servers, filled, err := store.Servers(url)
	if err != nil { // SQLite, or no store
		return
	}
	printf(w, "store\tPostgreSQL at %s; added to store.url: %s\n", strings.Join(servers, ", "), cmp.Or(strings.Join(filled, ", "), "nothing"))
	if len(servers) > 1 {
		at.Text = "warning: store.url names several servers. If the cluster manager of the primary fails and its PostgreSQL does not, gateways write to " +
			"it although there is a new primary, and these writes are lost. Use a watchdog on each server; or name a proxy instead that checks which " +
			"server is the primary and ends connections to the others (HAProxy: on-marked-down shutdown-sessions)"
		printf(s.err, "%s\n", at)
	}
}

func loadOrBuiltIn(path string, s system) (*config.Config, error) {
	if path == "" {
		return config.Parse(translate.File{Name: "built-in", Data: []byte(builtInConfig("http://127.0.0.1:8081"))}, s.env)
	}
	return config.Load(path, s.env)
}

func printGateway(w io.Writer, c *config.Config, metrics string) {
	scheme := func(tls *config.KeyPair) string {
		if tls != nil {
			return "https"
		}
		return "http"
	}
	printf(w, "partners\t%s://%s%s\n", scheme(c.TLS), c.Listen, c.BasePath)
	printf(w, "admin\t%s://%s\nmetrics\t%s\n", scheme(c.Admin.TLS), c.Admin.Listen, metrics)
	printf(w, "log\tlevel %s, %g %% of the successes, buffer %s for %s\n", c.Log.Level, 100*c.Log.Sample.OK, c.Log.Buffer, c.Log.Flush)
	if t := c.Tracing; t != nil {
		printf(w, "tracing\t%s, %g %% of the calls and callbacks\n", t.OTLP, 100*t.Sample)
	}
	printf(w, "\nupstreams\n")
	for _, u := range c.Upstreams {
		printf(w, "  %s\t%s\t%s\ttimeout %s, at most %d connections, %d for one partner, wait %s\n",
			u.Name, u.Form, u.Address, u.Timeout, u.Connections, u.PartnerConnections, u.Wait)
	}
	printf(w, "\ncodes that end a write; after any other code its outcome is unknown\n")
	for _, u := range c.Upstreams {
		printEndingCodes(w, c.Table, u)
	}
	if b := c.Callbacks; b != nil {
		printf(w, "\ncallbacks\n  upstreams call\t%s\n", b.PublicURL.JoinPath("callback", "ID"))
		printf(w, "  success\t%s\n  attempts\tat most %d\n", map[config.Success]string{
			config.Documented: "HTTP 200 with code 0000", config.Any2xx: "any HTTP 2xx",
		}[b.Success], len(b.Schedule))
		if b.LocalAddress.IsValid() {
			printf(w, "  sent from\t%s\n", b.LocalAddress)
		}
	}
	if r := c.Rollout; r != nil {
		printf(w, "\nrollout\n  old backend\t%s\n  new backend\t%s\n  default stage\t%s\n", r.Old, r.New, r.Default)
		if r.Bills == config.Shared {
			printf(w, "  bills\tshared: both backends have the same bills\n")
		} else {
			printf(w, "  bills\tseparate: each backend has its own bills, and the ledger records the owner of each\n")
			printf(w, "  settling period\t%s\n", r.Settle)
		}
	}
	printCannotCarry(w, c)
	printf(w, "\nroutes\n")
	for _, r := range proxy.Routes(c) {
		target := "refused: no upstream has this operation"
		switch {
		case r.Backends != nil:
			target = routeTarget(r.Backends[0], r.Client) + "; or " + routeTarget(r.Backends[1], r.Client)
		case r.Upstream != nil:
			target = routeTarget(r.Upstream, r.Client)
		}
		printf(w, "  POST %s\t%s\t%s\t%s\n", r.Path, r.Operation, r.Client, target)
	}
}

// printCannotCarry prints the requests that an upstream's form has no place for.
func printCannotCarry(w io.Writer, c *config.Config) {
	first := true
	for _, u := range c.Upstreams {
		for _, o := range c.Table.Operations() {
			for _, f := range o.Fields() {
				if f.Message != string(translate.Request) || f.To != u.Form || f.Refused == "" {
					continue
				}
				with := "with " + f.Source
				if f.Carried != "" {
					with += " other than " + f.Carried
				}
				if first {
					status := map[config.CannotCarry]int{config.CarryRefuse: 400, config.CarryNotFound: 404}[c.Failures.CannotCarry]
					printf(w, "\nrequests that cannot be carried: nothing is sent, and the answer is HTTP %d with this code\n", status)
				}
				printf(w, "  %s to %s\t%s\t%s\t%s\n", f.From, u.Name, o.Name, with, f.Refused)
				first = false
			}
		}
	}
}

// printEndingCodes prints the codes by which an upstream ends a write for certain.
func printEndingCodes(w io.Writer, t *translate.Table, u config.Upstream) {
	codes := map[string][]string{"done": {cmp.Or(u.Success, t.SuccessCode(u.Form))}}
	for _, m := range t.Meanings() {
		if m.Form != "" && m.Form != u.Form || m.Means == translate.Unavailable {
			continue
		}
		kind := map[translate.Meaning]string{translate.Exists: "the bill exists", translate.NotFound: "no such bill"}[m.Means]
		kind = cmp.Or(kind, "refused")
		if own := t.Code(m.Code, t.Forms()[0], u.Form); !slices.Contains(codes[kind], own) {
			codes[kind] = append(codes[kind], own)
		}
	}
	name := u.Name
	for _, kind := range []string{"done", "the bill exists", "no such bill", "refused"} {
		printf(w, "  %s\t%s\t%s\n", name, kind, strings.Join(codes[kind], " "))
		name = ""
	}
}

// routeTarget describes the upstream of a route, and whether calls of the client's form are translated.
func routeTarget(u *config.Upstream, client translate.Form) string {
	if u.Form == client {
		return "to " + u.Name + ", unchanged"
	}
	return "to " + u.Name + ", translated to " + string(u.Form) + " and back"
}

func printFields(w io.Writer, t *translate.Table) {
	for _, o := range t.Operations() {
		printOperation(w, o.Name, o.Fields())
	}
	if c := t.Callback(); c != nil {
		printOperation(w, c.Name(), c.Fields())
	}
}

func printOperation(w io.Writer, name string, fields []translate.Field) {
	last := ""
	for _, f := range fields {
		head := fmt.Sprintf("%s %s, %s to %s", name, f.Message, f.From, f.To)
		if f.Class == translate.Passed {
			head = fmt.Sprintf("%s %s, %s only", name, f.Message, f.From)
		}
		if head != last {
			printf(w, "\n%s\n", head)
			last = head
		}
		printf(w, "  %s\t%s\t%s", f.Class, cmp.Or(f.Source, "-"), cmp.Or(f.Target, "-"))
		if detail := fieldDetail(f); detail != "" {
			printf(w, "\t%s", detail)
		}
		printf(w, "\n")
	}
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
	Format  string `default:"table" enum:"table,yaml" help:"The output format: table, or yaml for a file that table.file of the config can name."`
	Config  string `placeholder:"FILE" help:"Print the table of this config."`
	Table   string `placeholder:"FILE" help:"Print this table instead of the built-in one."`
	Overlay string `placeholder:"FILE" help:"Apply this overlay to the table."`
}

// Help implements kong's detailed help.
func (mapCommand) Help() string {
	return examples("billbridge map", "billbridge map --format yaml > billing.yaml", "billbridge map --overlay mine.yaml")
}

// Run prints the table.
func (c *mapCommand) Run(s system) error {
	if c.Config != "" && (c.Table != "" || c.Overlay != "") {
		return usageError("--config cannot be combined with --table or --overlay: the config names its own table")
	}
	var table *translate.Table
	if c.Config != "" {
		checked, err := config.Load(c.Config, s.env)
		if err != nil {
			return err
		}
		table = checked.Table
	} else {
		var err error
		if table, err = compileTable(c.Table, c.Overlay); err != nil {
			return err
		}
	}
	if c.Format == "yaml" {
		text, err := table.YAML()
		if err != nil {
			return err
		}
		_, err = s.documents.Write(text)
		return err
	}
	return printMap(s.out, table)
}

// A mapRow is one row of the table: the field names in the two forms, and what happens in each direction.
type mapRow struct{ message, first, second, about, toSecond, toFirst string }

func printMap(out io.Writer, t *translate.Table) error {
	forms := t.Forms()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, o := range t.Operations() {
		printf(w, "%s\t%s\t%s\t%s\n", o.Name, cmp.Or(o.Path(forms[0]), "-"), cmp.Or(o.Path(forms[1]), "-"), o.Effect)
		printRows(w, forms, o.Fields())
	}
	if c := t.Callback(); c != nil {
		// A callback has no path: the upstream sends it to an address from a request.
		printf(w, "%s\t%s\t%[2]s\tsent by the upstream\n", c.Name(), c.Method())
		printRows(w, forms, c.Fields())
	}
	for _, m := range t.Meanings() {
		printf(w, "code %s\t%s\tmeans %s\n", m.Code, cmp.Or(string(m.Form), "both forms"), m.Means)
	}
	return w.Flush()
}

func printRows(w io.Writer, forms [2]translate.Form, fields []translate.Field) {
	var rows []*mapRow
	known := map[[3]string]*mapRow{} // by message and field names
	for _, f := range fields {
		first, second, toSecond := f.Source, f.Target, true
		if f.From == forms[1] {
			first, second, toSecond = f.Target, f.Source, false
		}
		if f.Class == translate.Passed {
			second = ""
		}
		key := [3]string{f.Message, first, second}
		row := known[key]
		if row == nil {
			row = &mapRow{message: f.Message, first: first, second: second, about: f.About}
			rows, known[key] = append(rows, row), row
		}
		class := string(f.Class)
		if detail := fieldDetail(f); detail != "" {
			class += ": " + detail
		}
		if toSecond {
			row.toSecond = class
		} else {
			row.toFirst = class
		}
	}
	for _, r := range rows {
		printf(w, "  %s\t%s\t%s\t%s\t%s\n", r.message, cmp.Or(r.first, "-"), cmp.Or(r.second, "-"), cmp.Or(r.about, "-"), r.classes(forms))
	}
	printf(w, "\n")
}

// classes describes both directions, or one if they are equal.
func (m mapRow) classes(forms [2]translate.Form) string {
	switch {
	case m.toSecond == m.toFirst || m.toFirst == "":
		return m.toSecond
	case m.toSecond == "":
		return m.toFirst
	}
	return fmt.Sprintf("to %s %s; to %s %s", forms[1], m.toSecond, forms[0], m.toFirst)
}
