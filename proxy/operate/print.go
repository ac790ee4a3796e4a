package operate

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"regexp"
	"strings"
	"sync"
	"text/tabwriter"
	"text/template"
	"time"
	"unicode"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
)

// Write writes the report in a format: text for a terminal, markdown for a ticket, html as one file that refers to no
// other, to be signed and filed, or json for programs.
func (r Report) Write(w io.Writer, format string) error {
	page, err := r.parts()
	switch {
	case err != nil:
		return err
	case format == "html":
		return pageTemplate().Execute(w, page)
	case format == "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return errors.Join(reportTemplates().ExecuteTemplate(t, "report."+format+".tmpl", page), t.Flush())
}

//go:embed *.tmpl report.html
var reportFiles embed.FS

var reportTemplates = sync.OnceValue(func() *template.Template {
	// Masking keeps the punctuation of an upstream's value.
	special := regexp.MustCompile("[\\\\`*_{}\\[\\]<>#|~&!$]")
	return template.Must(template.New("").Funcs(template.FuncMap{
		"cells": cells, "join": strings.Join, "percent": evidence.Percent, "rate": rate, "kinds": rollout.JoinKinds,
		"label":  func(short any, name string) string { return partner.Label(fmt.Sprint(short), name) },
		"time":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"escape": func(text string) string { return special.ReplaceAllString(text, `\$0`) },
		"upper":  strings.ToUpper,
	}).ParseFS(reportFiles, "*.tmpl"))
})

var pageTemplate = sync.OnceValue(func() *htmltemplate.Template {
	return htmltemplate.Must(htmltemplate.ParseFS(reportFiles, "report.html"))
})

// cells returns values with tabs between them. They have no other control characters.
func cells(values ...any) string {
	row := ""
	for _, value := range values {
		row += "\t" + strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return ' '
			}
			return c
		}, fmt.Sprint(value))
	}
	return row[1:]
}

// rate returns how often something occurred at a backend, with the percentage of its calls.
func rate(times, calls [2]int, backend int) string {
	percent := "-"
	if n := calls[backend]; n > 0 {
		percent = fmt.Sprintf("%.1f %%", 100*float64(times[backend])/float64(n))
	}
	return fmt.Sprintf("%d (%s)", times[backend], percent)
}

// A section is a table of the report. Its first row has the names of the columns.
type section struct {
	Title string
	Rows  [][]string
	Note  string
}

// A page is a report in parts.
type page struct {
	Text     string // above the sections
	Sections []section
}

var breaks = regexp.MustCompile(`\n+`)

// Head returns the lines above the sections, without empty ones.
func (p page) Head() []string { return breaks.Split(p.Text, -1) }

// parts returns the report with the sections that have rows. A note begins with "= ".
func (r Report) parts() (p page, err error) {
	var text strings.Builder
	err = reportTemplates().ExecuteTemplate(&text, "report.tmpl", r)
	parts := strings.Split(text.String(), "\n# ")
	for _, part := range parts[1:] {
		title, table, _ := strings.Cut(strings.Trim(part, "\n"), "\n")
		table, note, _ := strings.Cut(table, "\n= ")
		s := section{Title: title, Note: note}
		for row := range strings.SplitSeq(table, "\n") {
			s.Rows = append(s.Rows, strings.Split(row, "\t"))
		}
		if len(s.Rows) > 1 {
			p.Sections = append(p.Sections, s)
		}
	}
	p.Text = strings.TrimSpace(parts[0])
	return p, err
}
