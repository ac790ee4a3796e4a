package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"billbridge/translate"
)

// A Report is what an operator reads before a partner is moved on.
type Report struct {
	Table      string    `json:"table"` // the version of the table that was compared by
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"`
	Limits     Limits    `json:"limits"`
	Assumption string    `json:"assumption"`
	Verdicts   []Verdict `json:"verdicts"`
	Lost       int       `json:"lost"` // comparisons that found no place among the counts
	Open       []Owned   `json:"open"` // by upstream; none where nobody owns a bill
}

// Owned is how many bills of an upstream are still open as far as the bridge knows.
type Owned struct {
	Upstream string `json:"upstream"`
	Bills    int    `json:"bills"`
}

// Unknowable is what the numbers of open bills leave out.
const Unknowable = "Bills that were made before the bridge was there, or past it, are not among the open ones: it cannot know of them."

// NewReport reports what was counted until now.
func NewReport(s Snapshot, limits Limits, until time.Time, open []Owned) Report {
	r := Report{
		Table: s.Table, Since: s.Since, Until: until.UTC().Truncate(time.Second), Limits: limits.filled(),
		Assumption: Assumption, Verdicts: Judge(s, limits), Lost: s.Lost, Open: open,
	}
	if r.Verdicts == nil {
		r.Verdicts = []Verdict{} // a list in JSON, also when it is empty
	}
	if r.Open == nil {
		r.Open = []Owned{}
	}
	return r
}

// TableVersion names a table by what it says: its text with the overlays laid over it.
func TableVersion(t *translate.Table) (string, error) {
	text, err := t.YAML()
	if err != nil {
		return "", fmt.Errorf("the version of the table: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6]), nil
}

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// shownPartner is as much of a hash as tells partners apart.
func shownPartner(hash string) string { return hash[:min(len(hash), 12)] }

var verdictColumns = []string{"partner", "operation", "verdict", "compared", "bills", "differ", "bound", "not there", "moved", "unclear", "refused", "why"}

func (v Verdict) cells() []string {
	return []string{
		shownPartner(v.Partner), v.Operation, string(v.Ruling), strconv.Itoa(v.Compared), strconv.Itoa(v.Bills), strconv.Itoa(v.Differed),
		percent(v.Bound), strconv.Itoa(v.NotThere), strconv.Itoa(v.Moved), strconv.Itoa(v.Unclear), strconv.Itoa(v.Refused), v.Reason,
	}
}

var fieldColumns = []string{"partner", "operation", "field", "kind", "count", "first says", "second says"}

// fields are the rows of the table of fields. The line that tells of more of them is one, too.
func (r Report) fields() [][]string {
	var rows [][]string
	for _, v := range r.Verdicts {
		for _, f := range v.Fields {
			rows = append(rows, []string{shownPartner(v.Partner), v.Operation, f.Path, string(f.Kind), strconv.Itoa(f.Count), f.First, f.Second})
		}
		if v.More > 0 {
			rows = append(rows, []string{shownPartner(v.Partner), v.Operation, fmt.Sprintf("and %d more", v.More), "", "", "", ""})
		}
	}
	return rows
}

func (r Report) head() []string {
	lines := []string{
		"Table " + r.Table + ", from " + r.Since.UTC().Format(time.RFC3339) + " to " + r.Until.UTC().Format(time.RFC3339) + ".",
		fmt.Sprintf("PASS asks for %d comparisons of %d distinct bills, no difference in money, state or code, others in no more than %s of the calls, and no answer to no more than %s.",
			r.Limits.Comparisons, r.Limits.Bills, percent(r.Limits.Mismatch), percent(r.Limits.Unclear)),
	}
	if r.Lost > 0 {
		lines = append(lines, fmt.Sprintf("%d comparisons found no place among the counts.", r.Lost))
	}
	return lines
}

func (r Report) rows() [][]string {
	var rows [][]string
	for _, v := range r.Verdicts {
		rows = append(rows, v.cells())
	}
	return rows
}

func (r Report) open() [][]string {
	var rows [][]string
	for _, o := range r.Open {
		rows = append(rows, []string{o.Upstream, strconv.Itoa(o.Bills)})
	}
	return rows
}

// WriteText writes the report for a terminal.
func (r Report) WriteText(w io.Writer) error {
	var out strings.Builder
	for _, line := range r.head() {
		out.WriteString(line + "\n")
	}
	table := func(columns []string, rows [][]string) {
		out.WriteString("\n")
		t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{upper(columns)}, rows...) {
			// A tab would end a cell. What may hold one is masked or a word of ours, and so holds none.
			_, _ = fmt.Fprintln(t, strings.Join(row, "\t")) // a Builder takes everything
		}
		_ = t.Flush()
	}
	if len(r.Verdicts) == 0 {
		out.WriteString("\nNothing was compared.\n")
	} else {
		table(verdictColumns, r.rows())
		out.WriteString("\n" + r.Assumption + "\n")
	}
	if fields := r.fields(); len(fields) > 0 {
		table(fieldColumns, fields)
	}
	if len(r.Open) > 0 {
		table([]string{"upstream", "open bills"}, r.open())
		out.WriteString("\n" + Unknowable + "\n")
	}
	// The last column has nothing behind it that it must keep its distance from.
	_, err := io.WriteString(w, trimLines(out.String()))
	return err
}

// WriteMarkdown writes the report for a ticket.
func (r Report) WriteMarkdown(w io.Writer) error {
	var out strings.Builder
	out.WriteString("# Rollout report\n\n" + strings.Join(r.head(), "\n") + "\n")
	table := func(title string, columns []string, rows [][]string) {
		out.WriteString("\n## " + title + "\n\n| " + strings.Join(columns, " | ") + " |\n|" + strings.Repeat("---|", len(columns)) + "\n")
		for _, row := range rows {
			cells := slices.Clone(row)
			for i, cell := range cells {
				cells[i] = escapeCell(cell)
			}
			out.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
	}
	if len(r.Verdicts) == 0 {
		out.WriteString("\nNothing was compared.\n")
	} else {
		table("Verdicts", verdictColumns, r.rows())
		out.WriteString("\n" + r.Assumption + "\n")
	}
	if fields := r.fields(); len(fields) > 0 {
		table("Fields that differ", fieldColumns, fields)
		out.WriteString("\nDigits are shown as 9, letters as a; keys are not shown.\n")
	}
	if len(r.Open) > 0 {
		table("Open bills", []string{"upstream", "open bills"}, r.open())
		out.WriteString("\n" + Unknowable + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// escapeCell keeps what an upstream said from being read as Markdown: a masked value has its signs still.
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
