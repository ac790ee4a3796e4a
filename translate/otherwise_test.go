package translate_test

import (
	"fmt"
	"testing"
)

// Words of a field that has no pairs and no choice are warned about.
func TestWordsWithoutPairs(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{"": "[appr_pay_type]", ", otherwise: null": "[]", ", otherwise: pass": "[]", ", values: [{v2: 1, legacy: CARD_VAN}]": "[]"} {
		table := overlaid(t, "operations: {bill.read: {reply: [{v2: apprPayType, legacy: appr_pay_type"+keys+"}]}}")
		equal(t, fmt.Sprint(table.WordsWithoutPairs("legacy")), want, keys)
	}
}
