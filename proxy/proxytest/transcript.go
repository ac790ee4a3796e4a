package proxytest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Transcript runs the tests of a file, each once for each variant. A test is a line "== name" and calls, one a line,
// with what each returns below it, after a tab. A line that begins with # is a comment. start returns what makes the
// calls of one test. With update the file gets what the first variant returns.
func Transcript(
	t *testing.T, file string, update bool, variants []string,
	start func(t *testing.T, variant string) (call func(line string) []string),
) {
	t.Helper()
	tests := strings.SplitAfter("\n"+string(ReadFile(t, file)), "\n== ")
	if len(tests) < 2 {
		t.Fatalf("%s has no tests", file)
	}
	for i, text := range tests[1:] {
		body := strings.TrimSuffix(text, "== ")
		name, _, _ := strings.Cut(body, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, variant := range variants {
				t.Run(variant, func(t *testing.T) {
					t.Parallel()
					got := calls(body, start(t, variant))
					if diff := cmp.Diff(strings.Split(body, "\n"), strings.Split(got, "\n")); diff != "" && !update {
						t.Errorf("%s (-update rewrites it), -want +got:\n%s", file, diff)
					}
					if n == 0 {
						tests[1+i] = got + text[len(body):]
					}
				})
			}
		})
	}
	if update {
		t.Cleanup(func() { WriteFile(t, file, strings.Join(tests, "")[1:]) })
	}
}

// calls makes the calls of a test, and returns its text with what they return.
func calls(body string, call func(line string) []string) string {
	var out strings.Builder
	for i, line := range strings.SplitAfter(body, "\n") {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		if line = strings.TrimSpace(line); i > 0 && line != "" && line[0] != '#' {
			for _, result := range call(line) {
				out.WriteString("\t" + result + "\n")
			}
		}
	}
	return out.String()
}

// RowsIn returns the cells of a table: a line for each row, with | between the cells. Lines that begin with # are comments.
func RowsIn(table string) (all [][]string) {
	for line := range strings.Lines(strings.TrimSpace(table)) {
		if line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

// Rows is RowsIn of a file.
func Rows(t testing.TB, file string) [][]string {
	t.Helper()
	return RowsIn(string(ReadFile(t, file)))
}
