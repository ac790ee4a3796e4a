package evidence

import "encoding/json"

// A Note is a sentence about evidence, as a kind and its values: why a verdict is what it is, for example. Its
// words depend on the reader: [Language.Words] has them by the kind. As a
// text, and in JSON, it is English.
type Note struct {
	Kind   string
	Values []any // in the order of the English words: texts, numbers, times, durations, verdicts, and further notes
}

// Say returns a note. The kind must be a literal: a test finds it in the source.
func Say(kind string, values ...any) Note { return Note{kind, values} }

// String returns the note in English, "" for none.
func (n Note) String() string { return English.Words(n) }

// MarshalText returns the note in English.
func (n Note) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a note that has words already.
func (n *Note) UnmarshalText(text []byte) error {
	*n = Say("list", string(text))
	return nil
}

// A storedNote is a note in the JSON of the store.
type storedNote Note

// Stored returns a note as JSON, with its values in English.
func (n Note) Stored() string {
	n.Values = English.values(n)
	text, _ := json.Marshal(storedNote(n)) // texts alone
	return string(text)
}

// ReadNote returns a note that was stored as JSON, zero for "".
func ReadNote(text string) (n Note) {
	_ = json.Unmarshal([]byte(text), (*storedNote)(&n)) // an entry that cannot be read has no words
	return n
}
