package console

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"billbridge/proxy/operate"
	"billbridge/proxy/rollout/evidence"
	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// languages are those of the pages. The first is the default.
var languages = []string{"en", "ko"}

// The texts are in text/*.yaml, one row for each key, with all languages. In meanings.yaml the key is the English
// text of the table, or the format of a [translate.Detail].
//
//go:embed text/*.yaml
var textFiles embed.FS

// texts are the texts by key and language.
type texts map[string]map[string]string

// readTexts reads the texts of the pages, once.
var readTexts = sync.OnceValues(func() (texts, error) {
	names, err := fs.Glob(textFiles, "text/*.yaml")
	if err != nil {
		return nil, err
	}
	all := texts{}
	for _, name := range names {
		data, err := textFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var file texts
		if err := yaml.Unmarshal(data, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for key, text := range file {
			if all[key] != nil {
				return nil, fmt.Errorf("%s: the key %s is in two files", name, key)
			}
			all[key] = text
		}
	}
	return all, nil
})

// t returns the text of a key, formatted as by fmt.Sprintf. An unknown key is an error.
func (x texts) t(language, key string, args ...any) (string, error) {
	text, ok := x[key][language]
	if !ok {
		return "", fmt.Errorf("no text for %q in %s", key, language)
	}
	if len(args) == 0 {
		return text, nil
	}
	return fmt.Sprintf(text, args...), nil
}

// word returns the text of prefix+value, or the value if it has none: for values of the API, which may get more.
func (x texts) word(language, prefix string, value any) string {
	if text, ok := x[prefix+fmt.Sprint(value)][language]; ok {
		return text
	}
	return fmt.Sprint(value)
}

// in returns details in a language, or "" if one of them has no translation.
func (x texts) in(language string, details translate.Details) string {
	var all []string
	for _, d := range details {
		format, ok := x[d.Format][language]
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
	case english == "" || language == languages[0]:
		return template.HTML(escaped)
	case translation == "":
		return template.HTML(`<span lang="en">` + escaped + `</span>`)
	}
	return template.HTML(template.HTMLEscapeString(translation))
}

// note returns the translation of a note of the rollout.
func note(language, english string, n evidence.Note) template.HTML {
	text, ok := operate.Language(language).Words(n)
	if !ok {
		text = ""
	}
	return inLanguage(language, english, text)
}

type languageKey struct{}

func withLanguage(ctx context.Context, language string) context.Context {
	return context.WithValue(ctx, languageKey{}, language)
}

func language(r *http.Request) string {
	if l, ok := r.Context().Value(languageKey{}).(string); ok {
		return l
	}
	return languages[0]
}

const languageCookie = "billbridge_lang"

// switchLanguage stores the language of ?lang= in a cookie, and redirects to the same page without it.
func (c *Console) switchLanguage(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.RawQuery, "lang=") {
		return false
	}
	query := r.URL.Query()
	chosen := supported(query.Get("lang"))
	if chosen == "" {
		return false
	}
	http.SetCookie(w, &http.Cookie{
		Name: languageCookie, Value: chosen, Path: "/", MaxAge: 365 * 24 * 3600,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	})
	query.Del("lang")
	to := url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
	http.Redirect(w, r, localPath(to.String()), http.StatusSeeOther)
	return true
}

// languageOf returns the language of the cookie, or else the first supported one of Accept-Language.
func (c *Console) languageOf(r *http.Request) string {
	if cookie, err := r.Cookie(languageCookie); err == nil {
		if chosen := supported(cookie.Value); chosen != "" {
			return chosen
		}
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		tag, _, _ := strings.Cut(part, ";") // browsers send them in the order of preference
		primary, _, _ := strings.Cut(strings.TrimSpace(tag), "-")
		if l := supported(strings.ToLower(primary)); l != "" {
			return l
		}
	}
	return languages[0]
}

// supported returns the language if the pages have it, otherwise "".
func supported(l string) string {
	if !slices.Contains(languages, l) {
		return ""
	}
	return l
}
