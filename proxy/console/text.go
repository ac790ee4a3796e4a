package console

import (
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

// translated returns the translation of an English text of the table.
func (x texts) translated(language, english string) template.HTML {
	return inLanguage(language, english, x.in(language, translate.Details{{Format: english}}))
}

// details returns the translation of details.
func (x texts) details(language string, d translate.Details) template.HTML {
	return inLanguage(language, d.String(), x.in(language, d))
}

// inLanguage returns a text as HTML: the translation or, if there is none, the English text with lang="en".
func inLanguage(language, english, translation string) template.HTML {
	escaped := template.HTMLEscapeString(english)
	switch {
	case english == "" || language == pages.Languages[0]:
		return template.HTML(escaped)
	case translation == "" || translation == english:
		return template.HTML(`<span lang="en">` + escaped + `</span>`)
	}
	return template.HTML(template.HTMLEscapeString(translation))
}

// note returns the translation of a note of the rollout.
func note(language string, n evidence.Note) template.HTML {
	return inLanguage(language, n.String(), evidence.Language(language).Words(n))
}
