package translate_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"

	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "write the golden files with the current output; review every line of the diff")

// shipped returns the built-in billing table. The tests share one, as a gateway does.
var shipped = sync.OnceValue(func() *translate.Table {
	table, err := translate.Compile(32, billing.Table())
	if err != nil {
		panic(err)
	}
	return table
})

// A golden file has requests and replies of one operation, each with its input and output.
type golden struct {
	Operation string
	About     string                    // what the file shows
	Overlay   string                    // of the billing table, if any
	Asked     map[translate.Form]string // by the client's form: the request of a reply
	Requests  []*pair
	Replies   []*pair
}

// A pair is the input and output of one message. From and To are its forms: a reply goes from the upstream's form to the client's.
type pair struct {
	Name     string
	From, To translate.Form
	Asked    string // of a reply: its request, if it is not that of the file
	Status   int    // of a reply; 0 for 200
	In       string

	Out              string
	Refused          string
	NoAnswer         string `yaml:"noanswer"`
	Code             string // of a reply, in the upstream's form
	Result           string // of a reply: success or failure
	Recognised       string // of a callback that passes unchanged
	Partners, Bills, // of a callback
	Dropped, Defaulted, Echoed, Mismatched,
	Unknown []string
}

// overlaid returns the billing table with overlays, named 1.yaml, 2.yaml and so on.
func overlaid(t testing.TB, overlays ...string) *translate.Table {
	t.Helper()
	return compiled(t, string(billing.Table().Data), overlays...)
}

// compiled is overlaid for another table.
func compiled(t testing.TB, base string, overlays ...string) *translate.Table {
	t.Helper()
	var files []translate.File
	for i, text := range overlays {
		files = append(files, translate.File{Name: fmt.Sprint(i+1, ".yaml"), Data: []byte(text)})
	}
	table, err := translate.Compile(32, translate.File{Name: "base.yaml", Data: []byte(base)}, files...)
	if err != nil {
		t.Fatalf("%.1000v", err)
	}
	return table
}

// written returns a table as it was written and read again.
func written(t testing.TB, table *translate.Table) *translate.Table {
	t.Helper()
	text, err := table.YAML()
	must(t, err)
	return compiled(t, string(text))
}

// table returns the table of the file.
func (g *golden) table(t testing.TB) *translate.Table {
	t.Helper()
	if g.Overlay == "" {
		return shipped()
	}
	return overlaid(t, g.Overlay)
}

// readGolden returns the golden files. They must not be modified.
func readGolden(t testing.TB) map[string]*golden {
	t.Helper()
	all, err := goldenFiles()
	if err != nil || len(all) == 0 {
		t.Fatalf("golden files: %v", err)
	}
	return all
}

var goldenFiles = sync.OnceValues(func() (map[string]*golden, error) {
	all := map[string]*golden{}
	files, err := filepath.Glob("testdata/[go]*/*.yaml") // golden and overlay
	for _, file := range files {
		data, readErr := os.ReadFile(file)
		g := &golden{}
		err = errors.Join(err, readErr, yaml.Load(data, g, yaml.WithKnownFields()))
		all[file] = g
	}
	return all, err
})

// run translates the message of a pair and returns the pair with the current output.
func (g *golden) run(table *translate.Table, p *pair, isReply bool) *pair {
	if callback := table.Callback(); callback != nil && callback.Name() == g.Operation {
		return p.runCallback(callback)
	}
	client, upstream := p.From, p.To
	if isReply {
		client, upstream = p.To, p.From
	}
	call := table.Operation(g.Operation).Translation(client, upstream).Start()
	defer call.Release()
	got := &pair{Name: p.Name, From: p.From, To: p.To, Asked: p.Asked, Status: p.Status, In: p.In}
	var out []byte
	var err error
	if !isReply {
		out, err = call.Request(nil, []byte(p.In))
		got.report(&call.Report, out, err)
		return got
	}
	asked, status := p.Asked, p.Status
	if asked == "" {
		asked = g.Asked[client]
	}
	if status == 0 {
		status = 200
	}
	if _, err := call.Request(nil, []byte(asked)); err != nil {
		got.Refused = "the request before the reply: " + err.Error()
		return got
	}
	out, err = call.Reply(nil, status, []byte(p.In))
	got.report(&call.Report, out, err)
	got.Code = call.Code()
	if err == nil {
		got.Result = map[bool]string{true: "success", false: "failure"}[call.Succeeded()]
	}
	return got
}

// runCallback is run for a callback.
func (p *pair) runCallback(c *translate.Callback) *pair {
	got := &pair{Name: p.Name, From: p.From, To: p.To, In: p.In}
	out, notice, err := c.Translate(nil, []byte(p.In), p.From, p.To)
	got.report(&notice.Report, out, err)
	got.Partners, got.Bills = notice.Values["partner"], notice.Values["bill"]
	if notice.Recognised != translate.Translated {
		got.Recognised = string(notice.Recognised)
	}
	return got
}

func (p *pair) report(r *translate.Report, out []byte, err error) {
	var refusal *translate.Refusal
	var noAnswer *translate.UnusableReply
	switch {
	case errors.As(err, &refusal) && out == nil:
		p.Refused = refusal.Error()
		return
	case errors.As(err, &noAnswer) && out == nil:
		p.NoAnswer = noAnswer.Reason
		return
	case err != nil:
		p.Refused = fmt.Sprintf("error %v with output %q", err, out)
		return
	}
	list := func(from []string) []string { return append([]string(nil), from...) }
	p.Out = strings.Clone(string(out))
	p.Dropped, p.Defaulted, p.Echoed, p.Mismatched = list(r.Dropped), list(r.Defaulted), list(r.Echoed), list(r.Mismatched)
	for _, name := range r.UnknownNames {
		p.Unknown = append(p.Unknown, strings.Clone(name))
	}
	if r.Unknown != len(p.Unknown) {
		p.Unknown = append(p.Unknown, fmt.Sprintf("%d in all", r.Unknown))
	}
}

// The golden pairs cover every row of the five bill operations and of the callback, for both messages and in both directions, and
// the effects of overlays.
func TestGolden(t *testing.T) {
	t.Parallel()
	for file, g := range readGolden(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			table := g.table(t)
			if *update {
				must(t, os.WriteFile(file, g.again(table), 0o644))
				return
			}
			again := written(t, table)
			fields := func(table *translate.Table) (all [][]translate.Field) {
				for _, o := range table.Operations() {
					all = append(all, o.Fields())
				}
				return append(all, table.Callback().Fields())
			}
			equal(t, fields(again), fields(table), "written and read again: -table +again")
			for message, list := range map[string][]*pair{"request": g.Requests, "reply": g.Replies} {
				seen := map[string]bool{}
				for _, want := range list {
					name := fmt.Sprintf("%s/from %s to %s/%s", message, want.From, want.To, want.Name)
					if seen[name] {
						t.Errorf("duplicate %q", name)
					}
					seen[name] = true
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						for _, table := range []*translate.Table{table, again} {
							equal(t, g.run(table, want, message == "reply"), want)
						}
					})
				}
			}
		})
	}
}

// again returns the file with the current output.
func (g *golden) again(table *translate.Table) []byte {
	var b strings.Builder
	quote := func(s string) string {
		if strings.ContainsFunc(s, unicode.IsControl) {
			return strconv.Quote(s)
		}
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	line := func(indent, key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%-11s %s\n", indent, key+":", quote(value))
		}
	}
	line("", "operation", g.Operation)
	line("", "about", g.About)
	if g.Overlay != "" {
		b.WriteString("overlay: |\n  " + strings.ReplaceAll(strings.TrimSpace(g.Overlay), "\n", "\n  ") + "\n")
	}
	if g.Asked != nil {
		b.WriteString("asked:\n")
		line("  ", "legacy", g.Asked["legacy"])
		line("  ", "v2", g.Asked["v2"])
	}
	for message, list := range [][]*pair{g.Requests, g.Replies} {
		if len(list) > 0 {
			b.WriteString([]string{"\nrequests:\n", "\nreplies:\n"}[message])
		}
		for _, p := range list {
			p = g.run(table, p, message == 1)
			line("  - ", "name", p.Name)
			fmt.Fprintf(&b, "    from: %s\n    to: %s\n", p.From, p.To)
			line("    ", "asked", p.Asked)
			if p.Status != 0 {
				fmt.Fprintf(&b, "    status: %d\n", p.Status)
			}
			line("    ", "in", p.In)
			line("    ", "out", p.Out)
			line("    ", "refused", p.Refused)
			line("    ", "noanswer", p.NoAnswer)
			line("    ", "code", p.Code)
			line("    ", "result", p.Result)
			line("    ", "recognised", p.Recognised)
			for i, names := range [][]string{p.Partners, p.Bills, p.Dropped, p.Defaulted, p.Echoed, p.Mismatched, p.Unknown} {
				if len(names) > 0 {
					quoted := make([]string, len(names))
					for i, name := range names {
						quoted[i] = quote(name)
					}
					fmt.Fprintf(&b, "    %s: [%s]\n", []string{"partners", "bills", "dropped", "defaulted", "echoed", "mismatched", "unknown"}[i], strings.Join(quoted, ", "))
				}
			}
		}
	}
	return []byte(b.String())
}

var must, has = proxytest.Must, proxytest.Has

func equal[T any](t testing.TB, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}
