package translate_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"

	diff "github.com/google/go-cmp/cmp"
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
	Table     string                    `yaml:",omitempty"` // the base table, if it is not the billing table
	Overlay   string                    `yaml:",omitempty"` // of the base table
	Asked     map[translate.Form]string `yaml:",omitempty"` // by the client's form: the request of a reply
	Requests  []*pair                   `yaml:",omitempty"`
	Replies   []*pair                   `yaml:",omitempty"`
}

// A pair is the input and output of one message. From and To are its forms: a reply goes from the upstream's form to the client's.
type pair struct {
	Name      string
	Operation string `yaml:",omitempty"` // if it is not that of the file
	Overlay   string `yaml:",omitempty"` // one more
	From, To  translate.Form
	Asked     string `yaml:",omitempty"` // of a reply: its request, if it is not that of the file
	Status    int    `yaml:",omitempty"` // of a reply; 0 for 200
	In        string

	Out        string              `yaml:",omitempty"`
	Refused    string              `yaml:",omitempty"`
	NoAnswer   string              `yaml:"noanswer,omitempty"`
	Answered   int                 `yaml:",omitempty"`      // the status to the client, if it is another one
	Code       string              `yaml:",omitempty"`      // of a reply, in the upstream's form
	Result     string              `yaml:",omitempty"`      // of a reply: success or failure
	Recognised string              `yaml:",omitempty"`      // of a callback that passes unchanged
	Callback   string              `yaml:",omitempty"`      // that is made from a read
	Facts      []string            `yaml:",flow,omitempty"` // of a success, as they are compared
	Values     map[string][]string `yaml:",flow,omitempty"` // by role
	Dropped    []string            `yaml:",flow,omitempty"`
	Defaulted  []string            `yaml:",flow,omitempty"`
	Echoed     []string            `yaml:",flow,omitempty"`
	Mismatched []string            `yaml:",flow,omitempty"` // with the reason, unless the field is missing
	Unknown    []string            `yaml:",flow,omitempty"`
}

// roles are those of all tables of golden files.
var roles = strings.Fields("partner bill member merchant callback expiry amount state reader book shelf fee letter order key id price weight")

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

// tableOf returns a table of testdata/tables with overlays.
func tableOf(t testing.TB, name string, overlays ...string) *translate.Table {
	t.Helper()
	return compiled(t, tableText(t, name), overlays...)
}

func tableText(t testing.TB, name string) string {
	t.Helper()
	return string(readFile(t, "testdata/tables/"+name+".yaml"))
}

// written returns a table as it was written and read again.
func written(t testing.TB, table *translate.Table) *translate.Table {
	t.Helper()
	text, err := table.YAML()
	must(t, err)
	return compiled(t, string(text))
}

// table returns the table of the file, with one more overlay.
func (g *golden) table(t testing.TB, overlay string) *translate.Table {
	t.Helper()
	base := billing.Table().Data
	if g.Table != "" {
		base = readFile(t, g.Table)
	}
	var overlays []string
	for _, text := range []string{g.Overlay, overlay} {
		if text != "" {
			overlays = append(overlays, text)
		}
	}
	return compiled(t, string(base), overlays...)
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

// run translates the message of a pair and returns the pair with the current output. The output is appended to what looks like JSON.
func (g *golden) run(table *translate.Table, p *pair, isReply bool) *pair {
	got := &pair{Name: p.Name, Operation: p.Operation, Overlay: p.Overlay, From: p.From, To: p.To, Asked: p.Asked, Status: p.Status, In: p.In}
	const before = "x{"
	name := cmp.Or(p.Operation, g.Operation)
	if c := table.Callback; c != nil && c.Name == name {
		out, notice, err := c.Translate([]byte(before), []byte(p.In), p.From, p.To)
		got.report(&notice.Report, bytes.TrimPrefix(out, []byte(before)), err)
		if len(notice.Values) > 0 {
			got.Values = notice.Values
		}
		if notice.Recognised != translate.Translated {
			got.Recognised = string(notice.Recognised)
		}
		return got
	}
	client, upstream, doc := p.From, p.To, p.In
	if isReply {
		client, upstream, doc = p.To, p.From, cmp.Or(p.Asked, g.Asked[p.To])
	}
	call := table.Operation(name).Translation(client, upstream).Start()
	defer call.Release()
	out, err := call.Request([]byte(before), []byte(doc))
	read := call.Value
	if isReply && err != nil {
		got.Refused = "the request before the reply: " + err.Error()
		return got
	}
	if isReply {
		status := cmp.Or(p.Status, 200)
		out, err = call.Reply([]byte(before), status, []byte(p.In))
		if got.Code = translate.SentCode(call); call.Code() != table.Code(got.Code, p.From, table.Forms()[0]) {
			got.Code += ", which is not " + call.Code() + " in the first form"
		}
		if err == nil {
			got.Result = map[bool]string{true: "success", false: "failure"}[call.Succeeded()]
			read = func(role string) string {
				return strings.TrimSpace(call.ReplyValue(role) + " " + call.ReplyMeaning(role))
			}
			if c := table.Callback; c != nil && call.ReplyValue("state") != "" {
				got.Callback = string(c.FromReply(nil, call))
			}
			for _, f := range call.Facts(false) {
				if f.JSON != "" {
					got.Facts = append(got.Facts, strings.TrimSpace(f.Path+" "+f.Text+" "+f.Means))
				}
			}
			if got.Answered = call.Status(); got.Answered == status {
				got.Answered = 0
			}
		}
	}
	got.report(&call.Report, bytes.TrimPrefix(out, []byte(before)), err)
	for _, role := range roles {
		if value := read(role); value != "" && err == nil {
			if got.Values == nil {
				got.Values = map[string][]string{}
			}
			got.Values[role] = []string{strings.Clone(value)}
		}
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
	p.Out = string(out)
	p.Dropped, p.Defaulted, p.Echoed = list(r.Dropped), list(r.Defaulted), list(r.Echoed)
	for i, path := range r.Mismatched {
		if m := r.Mismatches[i]; m.Format != translate.IsMissing {
			path += " " + m.String()
		}
		p.Mismatched = append(p.Mismatched, path)
	}
	for _, name := range r.UnknownNames {
		p.Unknown = append(p.Unknown, strings.Clone(name))
	}
	if r.Unknown != len(p.Unknown) {
		p.Unknown = append(p.Unknown, fmt.Sprintf("%d in all", r.Unknown))
	}
}

// The golden pairs cover every row of the five bill operations and of the callback, for both messages and in both directions, the
// effects of overlays, and what only other tables have. They run at the same time with the same tables, as calls of a gateway do.
func TestGolden(t *testing.T) {
	t.Parallel()
	for file := range readGolden(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			runGolden(t, file)
		})
	}
}

// runGolden runs the pairs of a golden file, also with the table as it is written and read again, with the members of objects in
// another order, and with a request that is read before it is translated. What they become is explained as it is.
func runGolden(t *testing.T, file string) {
	g := readGolden(t)[file]
	made := map[string][]*translate.Table{}
	of := func(overlay string) []*translate.Table {
		if made[overlay] == nil {
			made[overlay] = g.tables(t, overlay)
		}
		return made[overlay]
	}
	for message, list := range map[string][]*pair{"request": g.Requests, "reply": g.Replies} {
		names := map[string]bool{}
		for i, want := range list {
			isReply, name := message == "reply", fmt.Sprintf("%s/from %s to %s/%s", message, want.From, want.To, want.Name)
			if names[name] {
				t.Errorf("duplicate %q", name)
			}
			names[name] = true
			tables := of(want.Overlay)
			if *update {
				list[i] = g.run(tables[0], want, isReply)
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, table := range tables {
					equal(t, g.run(table, want, isReply), want)
				}
				mixed := *want
				mixed.In = string(shuffled([]byte(want.In), uint64(i)))
				ordered := want.Out != "" && want.From != want.To && want.Recognised == "" // by the table
				if ordered && !strings.Contains(g.Overlay, "unknown: {re") {
					got := g.run(tables[0], &mixed, isReply)
					equal(t, got.Out, want.Out, mixed.In)
					equal(t, got.Dropped, want.Dropped, mixed.In)
				}
				if of := tables[0].Forms(); slices.Contains(of[:], want.From) && slices.Contains(of[:], want.To) { // its list of fields
					explainGolden(t, tables[0], g, want, isReply)
				}
				if o := tables[0].Operation(cmp.Or(want.Operation, g.Operation)); o != nil && !isReply {
					checkReadOnce(t, o, want.From, []byte(want.In))
				}
			})
		}
	}
	if *update {
		text, err := yaml.Dump(g, yaml.WithLineWidth(-1))
		must(t, err)
		must(t, os.WriteFile(file, text, 0o644))
	}
}

// cases returns the rows of a file of testdata/cases.
func cases[T any](t testing.TB, name string) (rows []T) {
	t.Helper()
	must(t, yaml.Load(readFile(t, "testdata/cases/"+name+".yaml"), &rows, yaml.WithKnownFields()))
	return rows
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func has(t testing.TB, text, part string, about ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%sno %q in\n%s", fmt.Sprintln(about...), part, text)
	}
}

func equal[T any](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s-want +got:\n%s", fmt.Sprintln(about...), diff.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)))
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return data
}

// tables returns the table of a pair, as it is and as it is written and read again.
func (g *golden) tables(t testing.TB, overlay string) (both []*translate.Table) {
	t.Helper()
	table := g.table(t, overlay)
	again := written(t, table)
	fields := func(table *translate.Table) (all [][]translate.Field) {
		for _, o := range table.Operations() {
			all = append(all, o.Fields())
		}
		return append(all, table.Callback.Fields())
	}
	equal(t, fields(again), fields(table), "written and read again: -table +again")
	return []*translate.Table{table, again}
}

// checkReadOnce: a request can be read before its upstream is known. The call that has read it translates it to the other form, and a
// call that is started with it passes it in the same form. Both have the output and the values of roles of a fresh call.
func checkReadOnce(t *testing.T, o *translate.Operation, client translate.Form, body []byte) {
	t.Helper()
	other := o.Table().Forms()[0]
	if other == client {
		other = o.Table().Forms()[1]
	}
	changing, same := o.Translation(client, other), o.Translation(client, client)
	if changing == nil || same == nil {
		return
	}
	read := changing.Start()
	defer read.Release()
	if err := read.Read(body); err != nil {
		if _, want := same.Start().Request(nil, body); fmt.Sprint(want) != err.Error() {
			t.Errorf("%s: Read returns %v, Request %v", body, err, want)
		}
		return
	}
	started := same.StartWith(read)
	defer started.Release()
	for translation, call := range map[*translate.Translation]*translate.Call{changing: read, same: started} {
		fresh := translation.Start()
		want, wantErr := fresh.Request(nil, body)
		for range 2 { // Translate may be called twice, to find out whether the other form can represent the request
			got, err := call.Translate(nil)
			equal(t, fmt.Sprint(string(got), err), fmt.Sprint(string(want), wantErr), body)
		}
		equal(t, string(call.Replace(nil, "callback", "here")), string(fresh.Replace(nil, "callback", "here")), body)
		for _, role := range roles { // after a refusal a fresh call may not have read all fields
			if refusal := (*translate.Refusal)(nil); !errors.As(wantErr, &refusal) {
				equal(t, call.Value(role), fresh.Value(role), role, body)
			}
			equal(t, started.Value(role), read.Value(role), role, body)
		}
		fresh.Release()
	}
}

// explainGolden checks the explanation of a pair.
func explainGolden(t *testing.T, table *translate.Table, g *golden, p *pair, isReply bool) {
	t.Helper()
	name, in := cmp.Or(p.Operation, g.Operation), []byte(p.In)
	asked, status := []byte(cmp.Or(p.Asked, g.Asked[p.To])), cmp.Or(p.Status, 200)
	o, c := table.Operation(name), table.Callback
	isCallback := c != nil && c.Name == name
	switch ours := g.Table == ""; {
	case ours && isCallback:
		explainCallback(t, c, p.From, p.To, in)
	case ours && isReply:
		explainReply(t, o.Translation(p.To, p.From), p.From, p.To, asked, status, in)
	case ours:
		explainRequest(t, o.Translation(p.From, p.To), p.From, p.To, in)
	}
	if g.Table == "" {
		return
	}
	var e *translate.Explanation
	switch {
	case isCallback:
		e = c.Explain(in, p.From, p.To)
	case isReply:
		e = o.Translation(p.To, p.From).ExplainReply(asked, status, in)
	default:
		e = o.Translation(p.From, p.To).ExplainRequest(in)
	}
	var err error
	if refused := cmp.Or(p.Refused, p.NoAnswer); refused != "" {
		if err = e.Err; err == nil || !strings.HasSuffix(err.Error(), refused) {
			t.Errorf("explained as %v, but refused: %s", err, refused)
		}
	}
	checkExplained(t, e, []byte(p.Out), err)
}
