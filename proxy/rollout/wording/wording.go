// Package wording has the texts of the rollout for operators. A text keeps formats and values apart, so that the console can show it in
// another language:
//
//	text := wording.Of("%v comparisons, at least %v are needed", 3, 100)
//	text.String() // 3 comparisons, at least 100 are needed
//
// Formats are literals in the calls of [Of] and [Join]: a test of the console finds them in the source, and each must have its Korean.
package wording

import "fmt"

// A Text is its parts, one after the other.
type Text []Part

// A Part is a format for fmt.Sprintf, and its values. Each value is filled in with %v.
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

// Join puts texts into one.
func Join(texts []Text, separator string) (all Text) {
	for i, text := range texts {
		if i > 0 {
			all = append(all, Part{Format: separator})
		}
		all = append(all, text...)
	}
	return all
}

// And returns the text with another one behind it.
func (t Text) And(more Text) Text { return append(t[:len(t):len(t)], more...) }

// String is the text in English, "" for nil.
func (t Text) String() (all string) {
	for _, p := range t {
		all += p.In(p.Format)
	}
	return all
}

// In fills the values into the format of another language.
func (p Part) In(format string) string {
	args := make([]any, len(p.Args))
	for i, arg := range p.Args {
		args[i] = arg
	}
	return fmt.Sprintf(format, args...)
}
