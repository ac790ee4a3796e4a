package desk

import (
	_ "embed"
	"encoding/xml"
	"html/template"
	"io"
	"regexp"
	"strings"
	text "text/template"
)

// A shown is a case with its result, as the files for people and CI have it.
type shown struct {
	Case
	Verdict
	Shows   []Record // for its findings
	Element string   // of JUnit XML; "" for a test that passed
}

// elements are the elements of JUnit XML: a case without a result is an error.
var elements = map[string]string{Failed: "failure", Unknown: "error", Skipped: "skipped"}

// A page is a result as the templates of files have it.
type page struct {
	Result
	Cases  []shown
	Counts map[string]int // of elements
}

func pageOf(res Result) page {
	p := page{Result: res, Counts: map[string]int{}}
	for _, v := range res.Verdicts {
		s := shown{Case: caseOf(v.Case), Verdict: v, Element: elements[v.Result]}
		for _, f := range v.Findings {
			for _, n := range f.Records {
				s.Shows = append(s.Shows, res.Records[n-1])
			}
		}
		p.Cases = append(p.Cases, s)
		p.Counts[s.Element]++
	}
	return p
}

//go:embed junit.xml
var junitText string

var junitFile = text.Must(text.New("junit").Funcs(text.FuncMap{
	"xml": func(text string) string {
		var out strings.Builder
		_ = xml.EscapeText(&out, []byte(text)) // a Builder takes everything
		return out.String()
	},
}).Parse(junitText))

// JUnit writes a result as JUnit XML, for CI. Each case is a test.
func JUnit(w io.Writer, res Result) error { return junitFile.Execute(w, pageOf(res)) }

// Why says in one line why a case did not pass.
func (v Verdict) Why() string {
	why := v.Text
	for _, f := range v.Findings {
		why += "; " + f.Text
	}
	return strings.TrimPrefix(why, "; ")
}

//go:embed report.html
var reportText string

var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"body": func(body []byte) string { return keys.ReplaceAllString(string(body), `${1}…`) },
}).Parse(reportText))

// keys are those in bodies, which a report does not have.
var keys = regexp.MustCompile(`(?i)("api_?key"\s*:\s*")[^"]*`)

// Report writes a result as one page for people.
func Report(w io.Writer, res Result) error { return reportPage.Execute(w, pageOf(res)) }
