package proxy

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"billbridge/config"
	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

//go:embed texts.yaml
var textsFile []byte

// texts are the rows by key, and in each the texts: ko, en, and brief if it is not that of en. A test compares them
// with the keys in the code.
var texts = func() (rows map[string]map[string]string) {
	if err := yaml.Unmarshal(textsFile, &rows); err != nil {
		panic(err)
	}
	return rows
}()

// longestText is the most characters of a text: programs of partners store them, and cut them at 180 or later.
const longestText = 150

// A message is a text for the developer of a partner, what matters first. Each part has the key of a row of
// texts.yaml, and its values.
type message []translate.Detail

// tell returns a message of one part. The key must be a literal: a test finds it in the source.
func tell(key string, values ...any) message { return message{{Format: key, Values: values}} }

// in returns the message in a language, with the nouns of a table. If it would be too long, its values are cut.
func (m message) in(language config.Language, t *translate.Table) string {
	for longest := longestText; ; {
		text := withParticles(m.words(longest, "ko", t))
		switch language {
		case config.English:
			text = m.words(longest, "en", t)
		case config.Both:
			text += " / " + m.words(longest, "brief", t)
		}
		switch {
		case utf8.RuneCountInString(text) <= longestText || longest == 0:
			return text
		default:
			longest--
		}
	}
}

// words returns the message with one of the texts of each row, the nouns of a table, and values of at most longest
// characters.
func (m message) words(longest int, which string, t *translate.Table) string {
	var parts []string
	for _, part := range m {
		text, ok := texts[part.Format][which]
		if !ok {
			text = texts[part.Format]["en"]
		}
		nouns := t.Nouns.En
		if which == "ko" {
			nouns = t.Nouns.Ko
		}
		values := []string{"{noun}", nouns[0], "{service}", nouns[1]}
		for i, v := range part.Values {
			values = append(values, fmt.Sprintf("{%d}", i+1), cut(v, longest))
		}
		if words := strings.NewReplacer(values...).Replace(text); words != "" {
			parts = append(parts, words)
		}
	}
	return strings.Join(parts, " ")
}

// particles are those of Korean after a consonant and after a vowel, by what texts.yaml has in their place.
var particles = map[string][2]string{"이(가)": {"이", "가"}, "은(는)": {"은", "는"}, "을(를)": {"을", "를"}}

// withParticles returns a Korean text with the particles that fit the words before them.
func withParticles(text string) string {
	for either, one := range particles {
		for before, after, found := strings.Cut(text, either); found; before, after, found = strings.Cut(text, either) {
			last, _ := utf8.DecodeLastRuneInString(before)
			which := 1
			if unicode.Is(unicode.Hangul, last) && (last-'가')%28 != 0 { // the syllable ends in a consonant
				which = 0
			}
			text = before + one[which] + after
		}
	}
	return text
}

// cut returns at most n characters of a value. It reads no more of it, since callers choose the names of fields.
func cut(value any, n int) string {
	text, ok := value.(string)
	if !ok {
		text = fmt.Sprint(value)
	}
	count, end := 0, 0
	for i := range text {
		switch count++; count {
		case n:
			end = i
		case n + 1:
			return text[:end] + "…"
		}
	}
	return text
}

// NeedsTLS returns the answer to a request without TLS. It is in both forms: the path of the request is not known.
func (g *Gateway) NeedsTLS() string {
	c := g.current.Load().config
	text := tell("https").in(c.Failures.Language, c.Table)
	both := map[string]json.RawMessage{}
	for _, form := range c.Table.Forms() {
		failure := c.Table.Envelope(form).AppendFailure(nil, c.Table.Own[translate.OwnFailed], text)
		_ = json.Unmarshal(failure, &both)
	}
	out, _ := json.Marshal(both)
	return string(out)
}
