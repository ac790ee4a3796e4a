// Package wording builds texts for operators. A text has its formats and its values, so that the console can show it in another language:
//
//	text := wording.Of("%v comparisons, at least %v are needed", 3, 100)
//	text.String() // 3 comparisons, at least 100 are needed
//
// Formats must be literals in calls of [Of] and [Join]. A test of the console finds them in the source and requires a Korean text for each.
package wording

import "fmt"

// A Text is a sequence of parts.
type Text []Part

// A Part is a format for fmt.Sprintf with its values, which are strings. The format has only the verb %v. Without values it is the text itself.
type Part struct {
	Format string   `json:"format"`
	Args   []string `json:"args,omitempty"`
}

// Of returns a text of one part.
func Of(format string, args ...any) Text {
	p := Part{Format: format}
	for _, arg := range args {
		p.Args = append(p.Args, fmt.Sprint(arg))
	}
	return Text{p}
}

// Join concatenates texts, with a separator between them.
func Join(texts []Text, separator string) (all Text) {
	for i, text := range texts {
		if i > 0 {
			all = append(all, Part{Format: separator})
		}
		all = append(all, text...)
	}
	return all
}

// And returns t followed by more.
func (t Text) And(more Text) Text { return append(t[:len(t):len(t)], more...) }

// String returns the text in English. It returns "" for nil.
func (t Text) String() (all string) {
	for _, p := range t {
		all += p.In(p.Format)
	}
	return all
}

// In formats the values with the format of another language.
func (p Part) In(format string) string {
	if len(p.Args) == 0 {
		return format
	}
	args := make([]any, len(p.Args))
	for i, arg := range p.Args {
		args[i] = arg
	}
	return fmt.Sprintf(format, args...)
}
