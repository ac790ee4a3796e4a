package operate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// nothingYet is the report without verdicts.
const nothingYet = "Nothing was compared."

// WriteText writes the report for a terminal.
func (r Report) WriteText(w io.Writer) error {
	var out strings.Builder
	for _, line := range r.head() {
		out.WriteString(line + "\n")
	}
	if len(r.Verdicts) == 0 {
		out.WriteString("\n" + nothingYet + "\n")
	}
	for _, s := range r.sections() {
		out.WriteString("\n" + strings.ToUpper(s.title) + "\n")
		t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{upper(s.columns)}, s.rows...) {
			// No cell contains a tab: what comes from outside is masked.
			_, _ = fmt.Fprintln(t, strings.Join(row, "\t")) // a Builder takes everything
		}
		_ = t.Flush()
		if s.note != "" {
			out.WriteString(s.note + "\n")
		}
	}
	// trimLines removes the padding at the ends of lines.
	_, err := io.WriteString(w, trimLines(out.String()))
	return err
}

// WriteMarkdown writes the report for a ticket.
func (r Report) WriteMarkdown(w io.Writer) error {
	var out strings.Builder
	out.WriteString("# Rollout report\n\n" + strings.Join(r.head(), "\n\n") + "\n")
	if len(r.Verdicts) == 0 {
		out.WriteString("\n" + nothingYet + "\n")
	}
	for _, s := range r.sections() {
		out.WriteString("\n## " + s.title + "\n\n| " + strings.Join(s.columns, " | ") + " |\n|" + strings.Repeat("---|", len(s.columns)) + "\n")
		for _, row := range s.rows {
			cells := slices.Clone(row)
			for i, cell := range cells {
				cells[i] = escapeCell(cell)
			}
			out.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
		if s.note != "" {
			out.WriteString("\n" + s.note + "\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// escapeCell escapes Markdown: masking keeps the punctuation of an upstream's value.
func escapeCell(cell string) string {
	var out strings.Builder
	for _, c := range cell {
		switch {
		case strings.ContainsRune("\\`*_{}[]<>#|~&!$", c):
			out.WriteString(`\` + string(c))
		case c < ' ':
			out.WriteByte(' ')
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

func upper(words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, strings.ToUpper(w))
	}
	return out
}

func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}
