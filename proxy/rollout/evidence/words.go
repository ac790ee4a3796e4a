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

// Words returns a note in words. ok is false if the language lacks a format of it.
func (l Language) Words(n Note) (text string, ok bool) {
	format, ok := allWords()[n.Kind][l]
	if len(n.Values) == 0 {
		return format, ok
	}
	args := make([]any, len(n.Values))
	for i, value := range n.Values {
		known := true
		args[i], known = l.value(value)
		ok = ok && known
	}
	return fmt.Sprintf(format, args...), ok
}

// value returns a value of a note in words.
func (l Language) value(value any) (text any, ok bool) {
	word := func(prefix string) (any, bool) {
		name := prefix + strings.ReplaceAll(fmt.Sprint(value), " ", "_")
		return cmp.Or(allWords()[name][l], fmt.Sprint(value)), true
	}
	switch v := value.(type) {
	case Note:
		return l.Words(v)
	case []Note:
		return joined(v, ", ", l.Words)
	case Verdict:
		return l.verdict(v)
	case []Verdict:
		return joined(v, "; ", l.verdict)
	case Evidence:
		return word("by_")
	case Kind:
		return word("kind_")
	case error:
		return v.Error(), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	case time.Duration:
		return short(v), true
	}
	return value, true
}

func (l Language) verdict(v Verdict) (string, bool) {
	return l.Words(Say("verdict", v.Operation, v.Evidence, v.Ruling, v.Reason))
}

func joined[T any](all []T, separator string, words func(T) (string, bool)) (text string, ok bool) {
	texts, ok := make([]string, len(all)), true
	for i, one := range all {
		known := true
		texts[i], known = words(one)
		ok = ok && known
	}
	return strings.Join(texts, separator), ok
}

// short returns a duration in whole seconds, if it has any.
func short(d time.Duration) string {
	if d > time.Second {
		d = d.Truncate(time.Second)
	}
	return config.Duration(d).String()
}
