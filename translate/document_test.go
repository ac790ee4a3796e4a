package translate_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/google/go-cmp/cmp"
)

// An operation of INTERFACE.md: its paths and effect, and the fields of its messages by form.
type documented struct {
	paths  [2]string
	effect string
	fields map[string][]string // by "request v2"; without those that are only seen
	seen   []string
}

// document returns the operations of INTERFACE.md by name, and its codes.
func document(t *testing.T) (operations map[string]*documented, codes []string) {
	t.Helper()
	text, err := os.ReadFile("billing/INTERFACE.md")
	must(t, err)
	quoted := regexp.MustCompile("`([^`]+)`( \\(seen\\))?")
	heads := regexp.MustCompile("^v2 `(\\S+)`(?:, legacy `(\\S+)`)?, a (read|write)\\.")
	operations = map[string]*documented{}
	var o *documented
	var columns []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		name, isOperation := strings.CutPrefix(line, "### ")
		cells := strings.Split(line, "|")
		switch {
		case isOperation:
			o = &documented{fields: map[string][]string{}}
			operations[name] = o
		case strings.HasPrefix(line, "## "):
			o, columns = nil, nil
		case line == "| code | |":
			columns = []string{"code"}
		case heads.MatchString(line) && o != nil:
			head := heads.FindStringSubmatch(line)
			o.paths, o.effect = [2]string{head[1], head[2]}, head[3]
		case strings.HasPrefix(line, "| re") && o != nil:
			columns = nil
			for _, cell := range cells[1 : len(cells)-2] {
				column := strings.ReplaceAll(strings.TrimSpace(cell), ",", "")
				columns = append(columns, column)
				o.fields[column] = []string{}
			}
		case strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|--"):
			for i, column := range columns {
				field := quoted.FindStringSubmatch(cells[i+1])
				switch {
				case field == nil:
				case column == "code":
					codes = append(codes, field[1])
				case field[2] != "":
					o.seen = append(o.seen, column+" "+field[1])
				default:
					o.fields[column] = append(o.fields[column], field[1])
				}
			}
		}
	}
	return operations, codes
}

// The table has the operations, fields, and codes of INTERFACE.md, and no others. Rows whose about says "not in the document" are
// those that are seen.
func TestTableIsTheInterface(t *testing.T) {
	t.Parallel()
	got := map[string]*documented{}
	for _, operation := range shipped().Operations() {
		o := &documented{
			paths:  [2]string{operation.Path("v2"), operation.Path("legacy")},
			effect: string(operation.Effect), fields: map[string][]string{},
		}
		got[operation.Name] = o
		for _, f := range operation.Fields() {
			column := f.Message + " " + string(f.From)
			if o.fields[column] == nil {
				o.fields[column] = []string{}
			}
			switch {
			case f.Source == "":
			case f.From == "legacy" && strings.HasSuffix(f.About, "not in the document)"):
				o.seen = append(o.seen, column+" "+f.Source)
			default:
				o.fields[column] = append(o.fields[column], f.Source)
			}
		}
	}
	want, codes := document(t)
	// The document shows no callback: it is seen with the fields of a read.
	callback := shipped().Callback
	delete(want, callback.Name)
	fields := map[string][]string{}
	for _, f := range callback.Fields() {
		column := "reply " + string(f.From)
		fields[column] = append(fields[column], f.Source)
	}
	for column, fields := range fields {
		slices.Sort(fields)
		if read := slices.Sorted(slices.Values(want["bill.read"].fields[column])); !slices.Equal(fields, read) {
			t.Errorf("%s: a callback has %q, and a read %q", column, fields, read)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(documented{})); diff != "" {
		t.Errorf("-INTERFACE.md +table\n%s", diff)
	}
	slices.Sort(codes)
	if diff := cmp.Diff(codes, slices.Sorted(slices.Values(shipped().Catalogue()))); diff != "" {
		t.Errorf("-INTERFACE.md +table\n%s", diff)
	}
}

// testdata/fields.txt shows what happens to every field in every direction. A reviewer sees in its diff what is lost.
func TestFields(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	write := func(name string, fields []translate.Field) {
		heading := ""
		for _, f := range fields {
			if h := fmt.Sprintf("%s %s, %s to %s", name, f.Message, f.From, f.To); h != heading {
				fmt.Fprintf(&b, "\n%s\n", h)
				heading = h
			}
			if f.About == "" {
				t.Errorf("%s %s: %s%s has no about", name, f.Message, f.Source, f.Target)
			}
			line := fmt.Sprintf("  %-9s %-27s %-27s %-55s %s", f.Class, f.Source, f.Target, f.About, f.Detail)
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	for _, o := range shipped().Operations() {
		write(o.Name, o.Fields())
	}
	write(shipped().Callback.Name, shipped().Callback.Fields())
	b.WriteString("\nmeanings of codes\n") // they decide whether a bill may be created elsewhere, and whether a create counts as refused
	for _, code := range shipped().Meanings() {
		fmt.Fprintf(&b, "  %-18s %-6s %s\n", code.Code, code.Form, code.Means)
	}
	const file = "testdata/fields.txt"
	if *update {
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must(t, err)
	equal(t, b.String(), string(want))
}
