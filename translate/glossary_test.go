package translate_test

import (
	"regexp"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// A reader of the table finds each of its words explained above it.
func TestGlossaryHasEveryWord(t *testing.T) {
	t.Parallel()
	glossary, _, found := strings.Cut(string(billing.Table().Data), "\nforms:")
	if !found {
		t.Fatal("no glossary above forms:")
	}
	for _, word := range append(translate.Words, "common", "new", "method", "fields", "under", "identified_by", "answer") {
		// At the beginning of a comment's line, alone or in a list of words, or with the value that it is used with.
		if !regexp.MustCompile(`(?m)^#   (?:\w+, )*` + word + `\b`).MatchString(glossary) {
			t.Errorf("%s is not explained", word)
		}
	}
}
