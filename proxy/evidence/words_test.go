package evidence_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
)

// Every note has its words in both languages, with the same values.
func TestEveryNoteHasWordsInBothLanguages(t *testing.T) {
	t.Parallel()
	values := regexp.MustCompile("<[0-9]>")
	for kind, words := range evidence.AllWords() {
		shown := map[evidence.Language][]string{}
		for _, language := range []evidence.Language{"en", "ko"} {
			text := fmt.Sprintf(words[language], "<0>", "<1>", "<2>", "<3>", "<4>", "<5>", "<6>", "<7>", "<8>", "<9>")
			text, _, _ = strings.Cut(text, "%!(EXTRA")
			shown[language] = slices.Compact(slices.Sorted(slices.Values(values.FindAllString(text, -1))))
			if words["ko"] == "" || words["en"] == "" && !strings.HasPrefix(kind, "evidence.") || strings.Contains(text, "%!") {
				t.Errorf("%s in %s is %q", kind, language, text)
			}
		}
		if words["en"] != "" && !slices.Equal(shown["en"], shown["ko"]) {
			t.Errorf("%s has the values %v in English, and %v in Korean", kind, shown["en"], shown["ko"])
		}
	}
}

// Values are worded by their types. What a language has no words of is in English.
func TestWordsOfValues(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.FixedZone("KST", 9*60*60))
	v := evidence.Verdict{
		Operation: "bill.read", Evidence: evidence.ByReadBack, Ruling: evidence.Fail,
		Reason: evidence.Say("list", []evidence.Note{evidence.Say("codes", 2, 9, evidence.Say("reads"), "0000", "PARTNER_003"), evidence.Say("field", 1, 9, evidence.Say("reads"), "x", evidence.Kind("odd"), "a", "b")}),
	}
	for _, row := range []struct {
		language evidence.Language
		note     evidence.Note
		want     string
	}{
		{"en", evidence.Say("clock", at, 90*time.Minute), "the clock shows 2026-11-21T03:00:00Z and that of the store 1h30m, so it is not certain which bills are over"},
		{"en", evidence.Say("list", []evidence.Verdict{v, v}), "bill.read by read back is FAIL, 2 of 9 reads: old answers 0000, new answers PARTNER_003 (first example), " +
			"1 of 9 reads: x (odd): old a, new b (first example); bill.read by read back is FAIL, 2 of 9 reads: old answers 0000, " +
			"new answers PARTNER_003 (first example), 1 of 9 reads: x (odd): old a, new b (first example)"},
		{"ko", evidence.Say("of_partner", "6e2b", v), "6e2b: bill.read(새 청구서 재조회) 판정 FAIL: 조회 9건 중 2건: 기존 백엔드의 응답 0000, 새 백엔드의 응답 PARTNER_003(첫 번째 예), 조회 9건 중 1건: x(odd) 기존 a, 새 값 b(첫 번째 예)"},
		{"ko", evidence.Say("list", []evidence.Note{evidence.Say("no_read"), {Kind: "nothing"}}), "shadow 단계에서 비교한 조회가 아직 없습니다, "},
		{"en", evidence.Say("unchecked", fmt.Errorf("it failed")), "a precondition could not be checked: it failed"},
	} {
		if text := row.language.Words(row.note); text != row.want {
			t.Errorf("%q, want %q", text, row.want)
		}
	}
}
