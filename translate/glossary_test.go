package translate_test

import (
	"regexp"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// The comment at the top of the table explains every key.
func TestGlossaryHasEveryKey(t *testing.T) {
	t.Parallel()
	glossary, _, found := strings.Cut(string(billing.Table().Data), "\nforms:")
	if !found {
		t.Fatal("no glossary above forms:")
	}
	for _, key := range append(translate.Keys, "common", "new", "method", "fields", "under", "identified_by", "answer") {
		// At the beginning of a line of the comment: alone, in a list of keys, or with a value.
		if !regexp.MustCompile(`(?m)^#   (?:\w+, )*` + key + `\b`).MatchString(glossary) {
			t.Errorf("%s is not explained", key)
		}
	}
}
