package translate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// A badTable is one of a file in testdata/bad, which has those of a topic. Each begins with `--- # NAME`, and is an overlay of
// base.yaml, an overlay of the billing table if its name begins with billing, or a whole table if its name begins with table.
// `# ! MESSAGE` is at the end of the line of each mistake, and beside the name if the line is one of the other table.
type badTable struct {
	topic, text string
	lines       []string // of the text without messages; the first is the name
	files       []translate.File
}

func badTables(t testing.TB) (all []badTable) {
	t.Helper()
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	must(t, err)
	base, err := os.ReadFile("testdata/bad/base.yaml")
	must(t, err)
	for _, path := range paths {
		file, err := os.ReadFile(path)
		must(t, err)
		for _, text := range strings.Split("\n"+string(file), "\n--- # ")[1:] {
			lines := strings.Split(text, "\n")
			for i, line := range lines {
				lines[i], _, _ = strings.Cut(line, " # ! ")
			}
			files := []translate.File{{Name: "base", Data: base}, {Name: "bad", Data: []byte(strings.Join(lines[1:], "\n"))}}
			switch {
			case strings.HasPrefix(text, "billing"):
				files[0] = billing.Table()
			case strings.HasPrefix(text, "table"):
				files = files[1:]
			}
			all = append(all, badTable{filepath.Base(path), text, lines, files})
		}
	}
	return all
}

func TestBadTables(t *testing.T) {
	t.Parallel()
	for _, bad := range badTables(t) {
		t.Run(bad.topic+" "+bad.lines[0], func(t *testing.T) {
			t.Parallel()
			_, err := translate.Compile(32, bad.files[0], bad.files[1:]...)
			var problems translate.Problems
			if !errors.As(err, &problems) {
				t.Fatal("not refused")
			}
			for _, p := range problems {
				if p.File != "bad" {
					p.Line = 0
				}
				bad.lines[p.Line] += " # ! " + p.Text
			}
			equal(t, strings.Join(bad.lines, "\n"), bad.text)
		})
	}
}
