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
	args := make([]any, len(n.Values))
	for i, value := range n.Values {
		args[i] = l.value(value)
	}
	format := cmp.Or(allWords()[n.Kind][l], allWords()[n.Kind][English])
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// value returns a value of a note in words.
func (l Language) value(value any) any {
	word := func(prefix string) any {
		name := prefix + strings.ReplaceAll(fmt.Sprint(value), " ", "_")
		return cmp.Or(allWords()[name][l], fmt.Sprint(value))
	}
	switch v := value.(type) {
	case Note:
		return l.Words(v)
	case []Note:
		return l.joined(v, ", ")
	case Verdict:
		return l.Words(v.note())
	case []Verdict:
		all := make([]Note, len(v))
		for i := range v {
			all[i] = v[i].note()
		}
		return l.joined(all, "; ")
	case Evidence:
		return word("by_")
	case Kind:
		return word("kind_")
	case error:
		return v.Error()
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case time.Duration:
		return short(v)
	}
	return value
}

func (v Verdict) note() Note { return Say("verdict", v.Operation, v.Evidence, v.Ruling, v.Reason) }

func (l Language) joined(all []Note, separator string) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = l.Words(one)
	}
	return strings.Join(texts, separator)
}

// short returns a duration in whole seconds, if it has any.
func short(d time.Duration) string {
	if d > time.Second {
		d = d.Truncate(time.Second)
	}
	return config.Duration(d).String()
}
