package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
	"text/template/parse"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"billbridge/config"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/store"
	"billbridge/translate"
)

// printf prints to a terminal or a table. Each text among the arguments stays in its line and its column: texts of
// partners and backends are quoted if they have a character that is not printable. All output of the commands goes
// through printf, except JSON and progress.
func printf(w io.Writer, format string, args ...any) {
	_ = printfErr(w, format, args...) // as with fmt.Fprintf: a command cannot report that it cannot print
}

// printfErr is printf with its error.
func printfErr(w io.Writer, format string, args ...any) error {
	for i, arg := range args {
		// A number stays one, for %d.
		if kind := reflect.ValueOf(arg).Kind(); kind < reflect.Bool || kind > reflect.Float64 {
			args[i] = cell(arg)
		}
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// write prints a document that a function has returned, unless it failed.
func (s *system) write(document []byte, err error) error {
	if err == nil {
		_, err = s.documents.Write(document)
	}
	return err
}

// progressf replaces the line of progress on a terminal. An empty text removes it.
func (s *system) progressf(format string, args ...any) {
	if s.terminal {
		fmt.Fprintf(s.progress, "\r\x1b[K"+format, args...)
	}
}

// cell returns a value for a line or a column: a time in RFC 3339, "-" for none, and a text as printable has it.
func cell(value any) string {
	switch v := value.(type) {
	case lines:
		return string(v)
	case time.Time:
		return formatTime(v)
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "-"
		}
		// An error or an address has words of its own.
		if kind := v.Elem().Kind(); kind != reflect.Struct || v.Type() == reflect.TypeFor[*time.Time]() {
			return cell(v.Elem().Interface())
		}
	}
	return printable(fmt.Sprint(value))
}

// lines is a text of this program that may have several lines.
type lines string

func linesOf(err error) lines { return lines(err.Error()) }

// printable returns a text that a terminal can show in one line: quoted if it has characters that are not printable.
func printable(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return text
	}
	return strconv.Quote(text)
}

// quoted is printable for a value that can be empty or look like a text of this program.
func quoted(text string) string {
	if q := strconv.Quote(text); text == "" || q != `"`+text+`"` {
		return q
	}
	return text
}

// A terminalWriter escapes what a terminal could obey: control characters besides newline and tab, directional
// formatting, invalid UTF-8. It is the last writer before the terminal, so that nothing is forgotten. The escapes are
// those of JSON, so JSON keeps its meaning. A Write must not end inside a character.
type terminalWriter struct{ io.Writer }

func (w terminalWriter) Write(text []byte) (int, error) {
	var out []byte
	done := 0 // text[:done] is in out
	for i := 0; i < len(text); {
		if b := text[i]; b >= ' ' && b < 0x7f || b == '\n' { // nearly all of a log
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if invalid := r == utf8.RuneError && size == 1; invalid || !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			out = append(out, text[done:i]...)
			switch high, low := utf16.EncodeRune(r); {
			case invalid:
				out = fmt.Appendf(out, `\x%02x`, text[i])
			case high != unicode.ReplacementChar:
				out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
			default:
				out = fmt.Appendf(out, `\u%04x`, r)
			}
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return w.Writer.Write(text)
	}
	if _, err := w.Writer.Write(append(out, text[done:]...)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// A briefWriter waits two seconds for a write, so that a full pipe holds up neither the start of a gateway nor its end
// after an error.
type briefWriter struct{ io.Writer }

func (w briefWriter) Write(text []byte) (int, error) {
	written, kept := make(chan struct{}), bytes.Clone(text)
	go func() {
		defer close(written)
		_, _ = w.Writer.Write(kept)
	}()
	select {
	case <-written:
	case <-time.After(2 * time.Second):
	}
	return len(text), nil
}

// formatTime formats a time in the local zone.
func formatTime(t time.Time) string { return t.Local().Format(time.RFC3339) }

//go:embed output.tmpl
var outputText string

// outputs are the templates of output.tmpl. Each value that they print is a cell.
var outputs = parseOutputs(outputText)

func parseOutputs(text string) *template.Template {
	t := template.Must(template.New("").Funcs(template.FuncMap{
		"cell": cell, "quoted": quoted, "reasonLines": reasonLines, "detail": fieldDetail, "endingCodes": endingCodes,
		"targets": targets, "mapRows": mapRows, "firstBill": newFirstBill,
		"word":       func(state any) string { return operate.InWords(fmt.Sprint(state), nil) },
		"kinds":      func(r []moves.BlockingReason) string { return moves.JoinKinds(moves.KindsOf(r)) },
		"byFailOver": func() string { return store.ByFailOver },
		"dayAfter":   func(t time.Time) time.Time { return t.Add(24 * time.Hour) },
		"percent":    func(f config.Fraction) float64 { return 100 * float64(f) },
		"oneLine":    func(text string) string { return strings.ReplaceAll(text, "\n", " ") },
		"list":       func(one any) []any { return []any{one} },
		"fields":     func(of any, fields []translate.Field) any { return map[string]any{"Of": of, "Fields": fields} },
	}).Parse(text))
	for _, one := range t.Templates() {
		printCells(one.Root)
	}
	return t
}

// printCells adds the function cell to the end of each pipeline that prints.
func printCells(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		var branch parse.BranchNode
		switch n := node.(type) {
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				last := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier("cell")}}
				n.Pipe.Cmds = append(n.Pipe.Cmds, last)
			}
		case *parse.IfNode:
			branch = n.BranchNode
		case *parse.RangeNode:
			branch = n.BranchNode
		case *parse.WithNode:
			branch = n.BranchNode
		}
		printCells(branch.List)
		printCells(branch.ElseList)
	}
}

// show prints a value with a template.
func show(out io.Writer, name string, value any) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	return errors.Join(outputs.ExecuteTemplate(w, name, value), w.Flush())
}

// showOrJSON is show, or prints JSON.
func showOrJSON(out io.Writer, asJSON bool, name string, value any) error {
	if asJSON {
		return json.NewEncoder(out).Encode(value)
	}
	return show(out, name, value)
}

// showRows is show for a list, or prints JSON, one object per line.
func showRows[T any](out io.Writer, asJSON bool, name string, rows []T) (err error) {
	if !asJSON {
		return show(out, name, rows)
	}
	for _, row := range rows {
		err = errors.Join(err, showOrJSON(out, true, "", row))
	}
	return err
}
