package operate

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"text/template"
	"time"
	"unicode"

	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/partner"
)

// Write writes the report in a format: text for a terminal, or json for programs.
func (r Report) Write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	var text strings.Builder
	err := reportTemplate().Execute(&text, r)
	parts := strings.Split(text.String(), "\n# ")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, strings.TrimSpace(parts[0]))
	for _, part := range parts[1:] {
		title, table, _ := strings.Cut(strings.Trim(part, "\n"), "\n")
		table, note, _ := strings.Cut(table, "\n= ")
		if head, rows, _ := strings.Cut(table, "\n"); rows != "" {
			_, _ = fmt.Fprintf(t, "\n%s\n%s\n%s\n", strings.ToUpper(title), strings.ToUpper(head), rows)
			if note != "" {
				_, _ = fmt.Fprintln(t, note)
			}
		}
	}
	return errors.Join(err, t.Flush())
}

//go:embed report.tmpl
var reportText string

var reportTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"cells": cells, "join": strings.Join, "percent": evidence.Percent, "rate": rate, "kinds": moves.JoinKinds,
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
