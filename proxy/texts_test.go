package proxy

import (
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/google/go-cmp/cmp"
)

var languages = []config.Language{config.Korean, config.English, config.Both}

// Each text that the gateway can tell has a row, and each row is told.
func TestTextsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	const quoted = `"(?:[^"\\]|\\.)*"`
	for _, source := range [][2]string{
		{"*.go", `\btell\(\s*(` + quoted + `|[^,)]*)`},
		{"answer.go", `= (?:kind\{\d+, \S+ |unavailable\()(?:callerGone|` + quoted + `), (` + quoted + `)[})]\n`},
		{"../translate/*.go", `\bwhy\(\s*(` + quoted + `|[^,)]*)`},
		{"relay/guard.go", `\bErrorf\((` + quoted + `)`},
		{"relay/guard.go", `\breturn ("[^"]+")\n`},
		{"relay/guard.go", `\bnotCalled = (` + quoted + `)`},
		{"relay/relay.go", `\bWrong\{(` + quoted + `)`},
	} {
		names, err := filepath.Glob(source[0])
		var code strings.Builder
		for _, name := range names { // callbacks of a backend are answered in English
			if !strings.HasSuffix(name, "_test.go") && filepath.Base(name) != "callback.go" {
				code.Write(proxytest.ReadFile(t, name))
			}
		}
		found := regexp.MustCompile(source[1]).FindAllStringSubmatch(code.String(), -1)
		if err != nil || len(found) == 0 {
			t.Errorf("%v has no texts: %v", source, err)
		}
		for _, argument := range found {
			text := argument[1]
			if text == "k.text" || strings.HasSuffix(text, " string") { // that of a kind, and a declaration
				continue
			}
			if constant := regexp.MustCompile(`\b` + regexp.QuoteMeta(text) + `\s+= (` + quoted + `)`).FindStringSubmatch(code.String()); constant != nil {
				text = constant[1]
			}
			key, err := strconv.Unquote(text)
			if err != nil {
				t.Errorf("%s: %s is neither a literal nor a constant", source[0], text)
			}
			used[strings.ReplaceAll(key, "%d", "2000")] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(texts)), slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("-texts.yaml +code\n%s", diff)
	}
}

// messages are the texts that the gateway can tell, with values that are as long as they can be or longer.
func messages(long string) (all []message) {
	one := func(key string) translate.Detail {
		return translate.Detail{Format: key, Values: []any{long, long}}
	}
	for key := range texts {
		all = append(all, message{one(key)})
		if !regexp.MustCompile(`^[a-z_]+$`).MatchString(key) { // a reason
			all = append(all, message{one("field"), one(key)})
		}
	}
	for _, key := range []string{"unchangeable", "being_created", "denied", "later", "uncertain"} {
		all = append(all, message{one(key), one("nothing_sent")})
	}
	return all
}

// Texts about what calls are about have the nouns of the table, with the particles that fit them.
func TestTextsHaveTheNounsOfTheTable(t *testing.T) {
	t.Parallel()
	courier := compiled(translate.File{Name: "courier.yaml", Data: proxytest.ReadFile(t, "../translate/examples/courier.yaml")})
	for key, want := range map[string][2]string{
		"uncertain":    {"이 청구서가 있는지 지금은 알 수 없습니다. 잠시 후 다시 보내십시오. / It is not certain now whether this bill exists. Send again later.", "이 운송장이 있는지 지금은 알 수 없습니다. 잠시 후 다시 보내십시오. / It is not certain now whether this shipment exists. Send again later."},
		"unchangeable": {"이 청구서는 변경할 수 없습니다. 다시 보내도 거절됩니다. 청구 서비스에 문의하십시오. / This bill cannot be changed. Contact the billing service.", "이 운송장은 변경할 수 없습니다. 다시 보내도 거절됩니다. 택배 서비스에 문의하십시오. / This shipment cannot be changed. Contact the courier service."},
	} {
		for i, table := range []*translate.Table{billingTable, courier} {
			if got := tell(key, "W").in(config.Both, table); got != want[i] {
				t.Errorf("%s: %q", key, got)
			}
		}
	}
	for key := range texts {
		for _, language := range languages {
			if text := tell(key, "", "").in(language, courier); regexp.MustCompile("(?i)bill|청구").MatchString(text) {
				t.Errorf("%s: %s", key, text)
			}
		}
	}
}

// Programs of partners cut texts at 180 characters or later. Only values are cut, and what comes after the second part.
func TestTextsAreShort(t *testing.T) {
	t.Parallel()
	for _, long := range []string{"W", strings.Repeat("청", 300), strconv.Itoa(math.MinInt64)} {
		for _, m := range messages(long) {
			for _, language := range languages {
				text := m.in(language, billingTable)
				if n := utf8.RuneCountInString(text); n > 150 {
					t.Errorf("%s: %d characters: %s", language, n, text)
				}
				for _, part := range m {
					row := texts[part.Format]
					want := map[config.Language][]string{config.Korean: {row["ko"]}, config.English: {row["en"]}, config.Both: {row["ko"], briefOf(row)}}[language]
					for _, half := range want {
						for _, fixed := range placeholder.Split(half, -1) {
							if !strings.Contains(text, fixed) {
								t.Errorf("%s: %q is not in %s", language, fixed, text)
							}
						}
					}
				}
			}
		}
	}
}

var placeholder = regexp.MustCompile(`\{(\d|noun|service)\}|이\(가\)|은\(는\)|을\(를\)`)

var billingTable = compiled(billing.Table())

func compiled(f translate.File) *translate.Table {
	table, err := translate.Compile(32, f)
	if err != nil {
		panic(err)
	}
	return table
}

// The texts of a row have the same values, and none of them names a part of the gateway.
func TestTextsAreForPartners(t *testing.T) {
	t.Parallel()
	part := regexp.MustCompile(`(?i)ledger|stage|store\b|storage|upstream|backend|rollout|gateway|billbridge|operator|database|장부|저장소|업스트림|백엔드|롤아웃|게이트웨이|운영자|데이터베이스`)
	for key, row := range texts {
		all := []string{row["ko"], row["en"]}
		if briefOf(row) != "" {
			all = append(all, briefOf(row))
		}
		for _, text := range all {
			if text == "" || part.MatchString(text) {
				t.Errorf("%s: %q", key, text)
			}
			if got, want := values(text), values(row["en"]); !slices.Equal(got, want) {
				t.Errorf("%s: %q has the values %v, want %v", key, text, got, want)
			}
		}
		if strings.ContainsFunc(row["en"], func(r rune) bool { return r > 127 }) {
			t.Errorf("%s: %s", key, row["en"])
		}
	}
}

func values(text string) []string {
	return slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`\{\d\}`).FindAllString(text, -1))))
}

// The text of an unknown outcome names the read, and never says that nothing was sent.
func TestTextOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for language, want := range map[config.Language]string{
		config.Korean:  "이 요청의 결과를 알 수 없습니다. 다시 보내기 전에 조회하십시오.",
		config.English: "Outcome unknown: read before sending again.",
		config.Both:    "이 요청의 결과를 알 수 없습니다. 다시 보내기 전에 조회하십시오. / Outcome unknown: read before sending again.",
	} {
		if text := lostOutcome.with().says.in(language, billingTable); text != want {
			t.Error(text)
		}
	}
}

// briefOf is the English text of a row beside a Korean one.
func briefOf(row map[string]string) string {
	if brief, ok := row["brief"]; ok {
		return brief
	}
	return row["en"]
}
