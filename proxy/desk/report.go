package desk

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	text "text/template"
)

// Counts returns how many cases have each result.
func (res Result) Counts() map[string]int {
	counts := map[string]int{}
	for _, v := range res.Verdicts {
		counts[v.Result]++
	}
	return counts
}

// Hide returns a text without the key.
func (res Result) Hide(text any) string {
	return strings.ReplaceAll(fmt.Sprintf("%s", text), res.Plan.Key, "…")
}

var (
	junitFile  = text.Must(text.ParseFS(files, "junit.xml"))
	reportPage = template.Must(template.ParseFS(files, "report.html"))
)

// JUnit writes a result as JUnit XML, for CI. Each case is a test.
func JUnit(w io.Writer, res Result) error { return junitFile.Execute(w, res) }

// Report writes a result as one page for people.
func Report(w io.Writer, res Result) error { return reportPage.Execute(w, res) }
