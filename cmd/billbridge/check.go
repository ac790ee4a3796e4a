package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
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
	Config    string  `placeholder:"FILE" help:"YAML config. Without one, the built-in table and a gateway to a sandbox on 127.0.0.1:8081 are checked."`
	Offline   bool    `help:"Do not ask the store whether it could be opened: where the database cannot be reached, in a build say."`
	Addresses *string `placeholder:"FILE" help:"Check callback addresses of partners instead, one a line; - is stdin. Those of a day's traffic show before a cut-over which bills would be refused."`
}

// Help implements kong's detailed help.
func (checkCommand) Help() string {
	return examples("billbridge check --config billbridge.yaml", "billbridge check --config billbridge.yaml --offline",
		"billbridge check --config billbridge.yaml --addresses addresses.txt") +
		"\n\nA mistake is printed as FILE:LINE:COLUMN: what is wrong, an address that would be refused as FILE:LINE: why; the exit code is then 1." +
		" Of an address, what can hold a secret is not printed: the query, a user and a password."
}

// Run checks and prints.
func (c *checkCommand) Run(ctx context.Context, s surroundings) error {
	checked, err := loadOrBuiltIn(c.Config, s)
	if err != nil {
		return err
	}
	if c.Addresses != nil {
		return checkAddresses(checked, *c.Addresses, s)
	}
	if !c.Offline {
		if err := probe(ctx, checked); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "%s: ok\n\n", cmp.Or(c.Config, "no config, the built-in one"))
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	start, most, err := server.Series(ctx, checked, build())
	if err != nil {
		return err
	}
	printGateway(w, checked, fmt.Sprintf("%d series at the start, at most %d if every route answers with every code and HTTP status", start, most))
	printFields(w, checked.Table)
	return w.Flush()
}

// probe asks whether the store could be used. It leaves no trace there.
func probe(ctx context.Context, c *config.Config) error {
	if !c.Store.URL.IsSet() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := store.Probe(ctx, c.Store.URL.Reveal()); err != nil {
		at := c.Store.Place
		at.Text = "store.url: " + err.Error()
		return translate.Problems{at}
	}
	return nil
}

func loadOrBuiltIn(path string, s surroundings) (*config.Config, error) {
	if path == "" {
		return config.Parse(translate.File{Name: "built-in", Data: []byte(builtIn("http://127.0.0.1:8081"))}, s.env)
	}
	return config.Load(path, s.env)
}

func printGateway(w io.Writer, c *config.Config, metrics string) {
	scheme := "http"
	if c.TLS != nil {
		scheme = "https"
	}
	fmt.Fprintf(w, "partners\t%s://%s%s\n", scheme, c.Listen, c.BasePath)
	fmt.Fprintf(w, "operator\thttp://%s\nmetrics\t%s\n\nupstreams\n", c.Admin.Listen, metrics)
	for _, u := range c.Upstreams {
		fmt.Fprintf(w, "  %s\t%s\t%s\ttimeout %s, at most %d connections, %d for one partner, wait %s\n",
			u.Name, u.Form, u.Address, u.Timeout, u.Connections, u.PartnerConnections, u.Wait)
	}
	if b := c.Callbacks; b != nil {
		fmt.Fprintf(w, "\ncallbacks\n  upstreams call\t%s\n", b.PublicURL.JoinPath("callback", "ID"))
		fmt.Fprintf(w, "  delivered by\t%s, at most %d attempts\n", map[config.Success]string{
			config.Documented: "HTTP 200 with the documented answer", config.Any2xx: "any 2xx",
		}[b.Success], len(b.Schedule))
		if b.LocalAddress.IsValid() {
			fmt.Fprintf(w, "  partners see\t%s\n", b.LocalAddress)
		}
	}
	if r := c.Rollout; r != nil {
		fmt.Fprintf(w, "\nrollout\n  partners move\tfrom %s to %s, %s at first\n", r.Old, r.New, r.Default)
		if r.Bills == config.Shared {
			fmt.Fprintf(w, "  bills\tboth backends see the same\n")
		} else {
			fmt.Fprintf(w, "  bills\teach backend has its own; the ledger records the owner of each\n")
			fmt.Fprintf(w, "  a partner may leave\t%s after it was seen first\n", r.Settle)
		}
	}
	fmt.Fprintf(w, "\nroutes\n")
	for _, r := range proxy.Routes(c) {
		how := "refused: no upstream has this operation"
		switch {
		case r.Backends != nil:
			how = to(r.Backends[0], r.Client) + "; or " + to(r.Backends[1], r.Client)
		case r.Upstream != nil:
			how = to(r.Upstream, r.Client)
		}
		fmt.Fprintf(w, "  POST %s\t%s\t%s\t%s\n", r.Path, r.Operation, r.Client, how)
	}
}

// to is how a call of a client reaches an upstream.
func to(u *config.Upstream, client translate.Form) string {
	if u.Form == client {
		return "to " + u.Name + ", bytes as they are"
	}
	return "to " + u.Name + ", translated to " + string(u.Form) + " and back"
}

func printFields(w io.Writer, t *translate.Table) {
	for _, o := range t.Operations() {
		printFieldsOf(w, o.Name, o.Fields())
	}
	if c := t.Callback(); c != nil {
		printFieldsOf(w, c.Name(), c.Fields())
	}
}

func printFieldsOf(w io.Writer, name string, fields []translate.Field) {
	last := ""
	for _, f := range fields {
		head := fmt.Sprintf("%s %s, %s to %s", name, f.Message, f.From, f.To)
		if f.Class == translate.Passed {
			head = fmt.Sprintf("%s %s, %s only", name, f.Message, f.From)
		}
		if head != last {
			fmt.Fprintf(w, "\n%s\n", head)
			last = head
		}
		line := fmt.Sprintf("  %s\t%s\t%s\t%s", f.Class, cmp.Or(f.Source, "-"), cmp.Or(f.Target, "-"), f.Detail)
		fmt.Fprintln(w, strings.TrimRight(line, "\t")) // no blanks at the end of a line
	}
}

type mapCommand struct {
	Format  string `default:"table" enum:"table,yaml" help:"table, or yaml: a file that the config's table section can name."`
	Config  string `placeholder:"FILE" help:"Print the table that this config uses."`
	Table   string `placeholder:"FILE" help:"Print this table."`
	Overlay string `placeholder:"FILE" help:"Lay this overlay over the table."`
}

// Help implements kong's detailed help.
func (mapCommand) Help() string {
	return examples("billbridge map", "billbridge map --format yaml > billing.yaml", "billbridge map --overlay mine.yaml")
}

// Run prints the table.
func (c *mapCommand) Run(s surroundings) error {
	if c.Config != "" && (c.Table != "" || c.Overlay != "") {
		return usageError("--config names its own table: leave --table and --overlay out")
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
		if table, err = compile(c.Table, c.Overlay); err != nil {
			return err
		}
	}
	if c.Format == "yaml" {
		text, err := table.YAML()
		if err != nil {
			return err
		}
		_, err = s.out.Write(text)
		return err
	}
	return printMap(s.out, table)
}

// mapped is one row as both of its directions show it.
type mapped struct{ message, first, second, about, there, back string }

func printMap(out io.Writer, t *translate.Table) error {
	forms := t.Forms()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, o := range t.Operations() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.Name, cmp.Or(o.Path(forms[0]), "-"), cmp.Or(o.Path(forms[1]), "-"), o.Effect)
		printRows(w, forms, o.Fields())
	}
	if c := t.Callback(); c != nil {
		// It has no path: it comes to an address that was given in a request.
		fmt.Fprintf(w, "%s\t%s\t%[2]s\tsent by the upstream\n", c.Name(), c.Method())
		printRows(w, forms, c.Fields())
	}
	for _, m := range t.Meanings() {
		fmt.Fprintf(w, "code %s\t%s\tmeans %s\n", m.Code, cmp.Or(string(m.Form), "both forms"), m.Means)
	}
	return w.Flush()
}

func printRows(w io.Writer, forms [2]translate.Form, fields []translate.Field) {
	var rows []*mapped
	for _, f := range fields {
		first, second, there := f.Source, f.Target, true
		if f.From == forms[1] {
			first, second, there = f.Target, f.Source, false
		}
		if f.Class == translate.Passed {
			second = ""
		}
		var row *mapped
		for _, r := range rows {
			if r.message == f.Message && r.first == first && r.second == second {
				row = r
			}
		}
		if row == nil {
			row = &mapped{message: f.Message, first: first, second: second, about: f.About}
			rows = append(rows, row)
		}
		how := string(f.Class)
		if f.Detail != "" {
			how += ": " + f.Detail
		}
		if there {
			row.there = how
		} else {
			row.back = how
		}
	}
	for _, r := range rows {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", r.message, cmp.Or(r.first, "-"), cmp.Or(r.second, "-"), cmp.Or(r.about, "-"), r.how(forms))
	}
	fmt.Fprintln(w)
}

// how says it once where both directions say the same.
func (m mapped) how(forms [2]translate.Form) string {
	switch {
	case m.there == m.back || m.back == "":
		return m.there
	case m.there == "":
		return m.back
	}
	return fmt.Sprintf("to %s %s; to %s %s", forms[1], m.there, forms[0], m.back)
}
