package evidence

import "encoding/json"

// A Note says something about evidence without words, because the words depend on the reader: package operate has
// them in English, and the console in Korean, by the kind.
type Note struct {
	Kind   string
	Values []any // in the order of the English words: texts, numbers, times, durations, verdicts, and further notes
}

// Say returns a note. The kind must be a literal: a test of the console finds it in the source.
func Say(kind string, values ...any) Note { return Note{kind, values} }

// ReadNote returns a note that was stored as JSON, zero for "".
func ReadNote(text string) (n Note) {
	_ = json.Unmarshal([]byte(text), &n) // an entry that cannot be read has no words
	return n
}
