package desk

import (
	_ "embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"strings"

	"billbridge/proxy/desk/certificate"
)

// JUnit writes verdicts as JUnit XML, for CI. Each case is a test with the result of its last attempt. An interrupted
// case is an error, an open review is skipped.
func JUnit(w io.Writer, p Plan, all []Verdict) error {
	type message struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type test struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *message `xml:"failure"`
		Error   *message `xml:"error"`
		Skipped *message `xml:"skipped"`
		Output  string   `xml:"system-out,omitempty"`
	}
	type suite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Cases    []test   `xml:"testcase"`
	}
	s := suite{Name: "billbridge desk " + p.Form}
	for _, v := range Last(all) {
		c, _ := caseOf(v.Case)
		t := test{Class: "desk." + c.Group(), Name: c.ID + " " + c.Title}
		why := &message{v.Why(), c.Repair}
		switch v.Result {
		case Failed:
			t.Failure = why
			s.Failures++
		case Unknown:
			t.Error = why
			s.Errors++
		case Skipped, Review, Expected:
			t.Skipped = why
			s.Skipped++
		case Warning:
			t.Output = why.Message
		}
		s.Cases = append(s.Cases, t)
	}
	s.Tests = len(s.Cases)
	_, _ = io.WriteString(w, xml.Header) // an error occurs again below
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	return enc.Encode(s)
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
	"again": func(v Verdict) string {
		if v.Attempt > 1 {
			return fmt.Sprintf("at attempt %d", v.Attempt)
		}
		return ""
	},
}).Parse(reportText))

// Report writes a verified result as one page for people.
func Report(w io.Writer, res Result) error {
	type shown struct {
		Case
		Verdict
		Shows []Record
	}
	var list []shown
	for _, v := range res.Verdicts {
		c, _ := caseOf(v.Case)
		s := shown{Case: c, Verdict: v}
		for _, f := range v.Findings {
			for _, n := range f.Records {
				s.Shows = append(s.Shows, res.Records[n-1])
			}
		}
		list = append(list, s)
	}
	var certified *certificate.Certificate
	if one, err := res.Certificate(); err == nil {
		certified = &one
	}
	return reportPage.Execute(w, struct {
		Result
		Outcome     string
		Cases       []shown
		Certificate *certificate.Certificate
	}{res, Outcome(res.Plan, res.Verdicts), list, certified})
}
