package operate

import (
	_ "embed" // for report.tmpl and report.html
	"encoding/json"
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
	head, sections, err := r.parts()
	switch {
	case err != nil:
		return err
	case format == "html":
		return pageTemplate().Execute(w, map[string]any{"Head": breaks.Split(head, -1), "Sections": sections})
	case format == "markdown":
		return writeMarkdown(w, head, sections)
	case format == "text":
		return writeText(w, head, sections)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

//go:embed report.tmpl
var reportText string

var reportTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"cells": cells, "join": strings.Join, "percent": evidence.Percent, "rate": rate, "kinds": rollout.JoinKinds,
		"label": func(short any, name string) string { return partner.Label(fmt.Sprint(short), name) },
		"time":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}).Parse(reportText))
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

// parts returns the lines above the sections, and the sections that have rows. A note begins with "= ".
func (r Report) parts() (head string, sections []section, err error) {
	var text strings.Builder
	err = reportTemplate().Execute(&text, r)
	parts := strings.Split(text.String(), "\n# ")
	for _, part := range parts[1:] {
		title, table, _ := strings.Cut(strings.Trim(part, "\n"), "\n")
		table, note, _ := strings.Cut(table, "\n= ")
		s := section{Title: title, Note: note}
		for row := range strings.SplitSeq(table, "\n") {
			s.Rows = append(s.Rows, strings.Split(row, "\t"))
		}
		if len(s.Rows) > 1 {
			sections = append(sections, s)
		}
	}
	return strings.TrimSpace(parts[0]), sections, err
}

func writeText(w io.Writer, head string, sections []section) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, s := range sections {
		fmt.Fprintf(t, "\n%s\n", strings.ToUpper(s.Title))
		for i, row := range s.Rows {
			line := strings.Join(row, "\t")
			if i == 0 {
				line = strings.ToUpper(line)
			}
			fmt.Fprintln(t, line)
		}
		if s.Note != "" {
			fmt.Fprintln(t, s.Note)
		}
	}
	return t.Flush()
}

var (
	breaks = regexp.MustCompile(`\n+`)
	// Masking keeps the punctuation of an upstream's value.
	special = regexp.MustCompile("[\\\\`*_{}\\[\\]<>#|~&!$]")
)

func writeMarkdown(w io.Writer, head string, sections []section) error {
	escape := func(text string) string { return special.ReplaceAllString(text, `\$0`) }
	text := "# Rollout report\n\n" + breaks.ReplaceAllString(escape(head), "\n\n") + "\n"
	for _, s := range sections {
		text += "\n## " + s.Title + "\n\n"
		for i, row := range s.Rows {
			if text += "| " + strings.ReplaceAll(escape(strings.Join(row, "\t")), "\t", " | ") + " |\n"; i == 0 {
				text += "|" + strings.Repeat("---|", len(row)) + "\n"
			}
		}
		if s.Note != "" {
			text += "\n" + s.Note + "\n"
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

//go:embed report.html
var reportPage string

var pageTemplate = sync.OnceValue(func() *htmltemplate.Template {
	return htmltemplate.Must(htmltemplate.New("").Parse(reportPage))
})
