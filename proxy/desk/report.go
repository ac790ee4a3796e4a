package desk

import (
	_ "embed"
	"encoding/json"
	"encoding/xml"
	"html/template"
	"io"
	"strings"
	text "text/template"

	"billbridge/proxy/desk/certificate"
)

// A shown is a case with the result of an attempt, as the files for people and CI have it.
type shown struct {
	Case
	Verdict
	Shows   []Record // for its findings
	Element string   // of JUnit XML; "" for a test that passed
}

// elements are the elements of JUnit XML: an interrupted case is an error, an open review is skipped.
var elements = map[string]string{
	Failed: "failure", Unknown: "error", Skipped: "skipped", Review: "skipped", Expected: "skipped",
}

// showAll returns verdicts with their cases.
func showAll(verdicts []Verdict, recs []Record) (list []shown) {
	for _, v := range verdicts {
		c, _ := caseOf(v.Case)
		s := shown{Case: c, Verdict: v, Element: elements[v.Result]}
		for _, f := range v.Findings {
			for _, n := range f.Records {
				s.Shows = append(s.Shows, recs[n-1])
			}
		}
		list = append(list, s)
	}
	return list
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

// JUnit writes a verified result as JUnit XML, for CI. Each case is a test with the result of its last attempt.
func JUnit(w io.Writer, res Result) error {
	counts := map[string]int{}
	list := showAll(Last(res.Verdicts), res.Records)
	for _, s := range list {
		counts[s.Element]++
	}
	return junitFile.Execute(w, struct {
		Result
		Cases  []shown
		Counts map[string]int
	}{res, list, counts})
}

// Why says in one line why a case did not pass.
func (v Verdict) Why() string {
	list := []string{}
	if v.Text != "" {
		list = append(list, v.Text)
	}
	for _, f := range v.Findings {
		list = append(list, f.Text)
	}
	return strings.Join(list, "; ")
}

//go:embed report.html
var reportText string

var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"json": func(v any) string {
		text, _ := json.Marshal(v) // records have been JSON before
		return string(text)
	},
}).Parse(reportText))

// Report writes a verified result as one page for people.
func Report(w io.Writer, res Result) error {
	var certified *certificate.Certificate
	if one, err := res.Certificate(); err == nil {
		certified = &one
	}
	return reportPage.Execute(w, struct {
		Result
		Outcome     string
		Cases       []shown
		Certificate *certificate.Certificate
	}{res, Outcome(res.Plan, res.Verdicts), showAll(res.Verdicts, res.Records), certified})
}
