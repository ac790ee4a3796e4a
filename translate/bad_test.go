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

// A file has the bad tables of a topic. Each begins with `--- # NAME`, and is an overlay of base.yaml, an overlay of the billing
// table if its name begins with billing, or a whole table if its name begins with table. `# ! MESSAGE` is at the end of the line of
// each mistake, and beside the name if the line is one of the other table.
func TestBadTables(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	must(t, err)
	base, err := os.ReadFile("testdata/bad/base.yaml")
	must(t, err)
	for _, path := range paths {
		file, err := os.ReadFile(path)
		must(t, err)
		for _, bad := range strings.Split("\n"+string(file), "\n--- # ")[1:] {
			lines := strings.Split(bad, "\n")
			for i, line := range lines {
				lines[i], _, _ = strings.Cut(line, " # ! ")
			}
			t.Run(filepath.Base(path)+" "+lines[0], func(t *testing.T) {
				t.Parallel()
				files := []translate.File{{Name: "base", Data: base}, {Name: "bad", Data: []byte(strings.Join(lines[1:], "\n"))}}
				switch {
				case strings.HasPrefix(bad, "billing"):
					files[0] = billing.Table()
				case strings.HasPrefix(bad, "table"):
					files = files[1:]
				}
				_, err := translate.Compile(32, files[0], files[1:]...)
				var problems translate.Problems
				if !errors.As(err, &problems) {
					t.Fatal("not refused")
				}
				for _, p := range problems {
					if p.File != "bad" {
						p.Line = 0
					}
					lines[p.Line] += " # ! " + p.Text
				}
				equal(t, strings.Join(lines, "\n"), bad)
			})
		}
	}
}
