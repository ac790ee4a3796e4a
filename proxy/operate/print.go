package operate

import (
	_ "embed" // for report.tmpl
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"text/tabwriter"
	"text/template"
	"time"
	"unicode"

	"billbridge/proxy/rollout/evidence"
)

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

//go:embed report.tmpl
var reportText string

var reportTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"cells": cells, "join": strings.Join, "percent": evidence.Percent, "rate": rate,
		"label": func(partner any, name string) string { return Label(fmt.Sprint(partner), name) },
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

// parts returns the lines above the sections, and the sections that have rows. A note begins with "= ".
func (r Report) parts() (head string, sections []string, err error) {
	var text strings.Builder
	err = reportTemplate().Execute(&text, r)
	parts := strings.Split(text.String(), "\n# ")
	for _, section := range parts[1:] {
		section = strings.TrimSpace(section)
		if rows := strings.SplitN(section, "\n", 3); len(rows) == 3 && !strings.HasPrefix(rows[2], "= ") {
			sections = append(sections, section)
		}
	}
	return strings.TrimSpace(parts[0]), sections, err
}

// WriteText writes the report for a terminal.
func (r Report) WriteText(w io.Writer) error {
	head, sections, err := r.parts()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, section := range sections {
		lines := strings.SplitN(section, "\n", 3)
		rows := strings.ReplaceAll(lines[2], "\n= ", "\n")
		fmt.Fprintf(t, "\n%s\n%s\n%s\n", strings.ToUpper(lines[0]), strings.ToUpper(lines[1]), rows)
	}
	return t.Flush()
}

var (
	breaks = regexp.MustCompile(`\n+`)
	// Masking keeps the punctuation of an upstream's value.
	special = regexp.MustCompile("[\\\\`*_{}\\[\\]<>#|~&!$]")
)

// WriteMarkdown writes the report for a ticket.
func (r Report) WriteMarkdown(w io.Writer) error {
	head, sections, err := r.parts()
	if err != nil {
		return err
	}
	text := "# Rollout report\n\n" + breaks.ReplaceAllString(head, "\n\n") + "\n"
	for _, section := range sections {
		title, table, _ := strings.Cut(section, "\n")
		table, note, noted := strings.Cut(table, "\n= ")
		text += "\n## " + title + "\n\n"
		for i, row := range strings.Split(table, "\n") {
			row = strings.ReplaceAll(special.ReplaceAllString(row, `\$0`), "\t", " | ")
			if text += "| " + row + " |\n"; i == 0 {
				text += "|" + strings.Repeat("---|", 1+strings.Count(row, " | ")) + "\n"
			}
		}
		if noted {
			text += "\n" + note + "\n"
		}
	}
	_, err = io.WriteString(w, text)
	return err
}
