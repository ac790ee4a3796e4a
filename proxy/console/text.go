package console

import (
	"fmt"
	"html/template"
	"strings"
	"sync"

	"billbridge/proxy/evidence"
	"billbridge/proxy/pages"
	"billbridge/translate"
)

// texts are the texts of the pages. In meanings.yaml the key is the English text of the table, or the format of a
// [translate.Detail].
type texts struct{ pages.Texts }

// readTexts reads the texts of the pages, once.
var readTexts = sync.OnceValues(func() (texts, error) {
	all, err := pages.ReadTexts(files)
	return texts{all}, err
})

// in returns details in a language, or "" if one of them has no translation.
func (x texts) in(language string, details translate.Details) string {
	var all []string
	for _, d := range details {
		format, ok := x.Texts[d.Format][language]
		if !ok {
			return ""
		}
		all = append(all, d.In(format))
	}
	return strings.Join(all, "; ")
}

// words returns what the pages show and others word, as HTML: an English text of the table, what a translation does
// with a field, or a note of the rollout. If there is no translation it is the English text with lang="en".
func (x texts) words(language string, of any) template.HTML {
	english, translation := fmt.Sprint(of), ""
	switch of := of.(type) {
	case evidence.Note:
		translation = evidence.Language(language).Words(of)
	case translate.Details:
		translation = x.in(language, of)
	default:
		translation = x.in(language, translate.Details{{Format: english}})
	}
	escaped := template.HTMLEscapeString(english)
	switch {
	case english == "" || language == pages.Languages[0]:
		return template.HTML(escaped)
	case translation == "" || translation == english:
		return template.HTML(`<span lang="en">` + escaped + `</span>`)
	}
	return template.HTML(template.HTMLEscapeString(translation))
}
