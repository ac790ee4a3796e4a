package evidence

import (
	"cmp"
	_ "embed" // for words.yaml
	"fmt"
	"strings"
	"sync"
	"time"

	"billbridge/config"

	"go.yaml.in/yaml/v4"
)

// The words of notes, by kind and language. The formats take the values of a note in their order; the verb is %v.
//
//go:embed words.yaml
var wordsFile []byte

var allWords = sync.OnceValue(func() (all map[string]map[Language]string) {
	if err := yaml.Unmarshal(wordsFile, &all); err != nil {
		panic(err) // a test has read it
	}
	return all
})

// A Language is one of the words: en or ko.
type Language string

// English is the language of the API, of the log and of the commands.
const English Language = "en"

// Words returns a note in words. What the language has no words of is in English; "" if that has none either.
func (l Language) Words(n Note) string {
	return fmt.Sprintf(cmp.Or(allWords()[n.Kind][l], allWords()[n.Kind][English]), l.values(n)...)
}

// values are those of a note in words.
func (l Language) values(n Note) []any {
	var texts []any
	for _, value := range n.Values {
		texts = append(texts, l.value(value))
	}
	return texts
}

// value returns a value of a note in words.
func (l Language) value(value any) string {
	switch v := value.(type) {
	case Note:
		return l.Words(v)
	case []Note:
		return joined(l, v, ", ")
	case Verdict:
		return l.Words(Say("verdict", v.Operation, v.Evidence, v.Ruling, v.Reason))
	case []Verdict:
		return joined(l, v, "; ")
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case time.Duration: // in whole seconds, if it has any
		return config.Duration(max(v.Truncate(time.Second), min(v, time.Second))).String()
	}
	text := fmt.Sprint(value)
	return cmp.Or(allWords()[fmt.Sprintf("%T %s", value, text)][l], text)
}

func joined[T any](l Language, all []T, separator string) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = l.value(one)
	}
	return strings.Join(texts, separator)
}
