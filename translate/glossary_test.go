package translate_test

import (
	"os"
	"regexp"
	"testing"

	"billbridge/translate"
)

// README.md explains every key.
func TestReadmeExplainsEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	must(t, err)
	for _, key := range append(translate.Keys, "method", "result", "answer") {
		// At the beginning of a row of a table: alone, in a list of keys, or with a value.
		if !regexp.MustCompile("(?m)^\\| (?:`[^`]+`, )*`" + key + "\\b").Match(text) {
			t.Errorf("%s is not explained", key)
		}
	}
}
