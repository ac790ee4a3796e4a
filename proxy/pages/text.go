package pages

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Languages are those of the pages. The first is the default.
var Languages = []string{"en", "ko"}

// Texts are the texts by key and language.
type Texts map[string]map[string]string

// ReadTexts returns the texts of the frame, and those of a site: text/*.yaml with one row for each key, with all
// languages.
func ReadTexts(site fs.FS) (Texts, error) {
	all := Texts{}
	for _, from := range []fs.FS{files, site} {
		names, err := fs.Glob(from, "text/*.yaml")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := fs.ReadFile(from, name)
			if err != nil {
				return nil, err
			}
			var file Texts
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
	}
	return all, nil
}

// T returns the text of a key, formatted as by fmt.Sprintf. An unknown key is an error.
func (x Texts) T(language, key string, args ...any) (string, error) {
	text, ok := x[key][language]
	if !ok {
		return "", fmt.Errorf("no text for %q in %s", key, language)
	}
	if len(args) == 0 {
		return text, nil
	}
	return fmt.Sprintf(text, args...), nil
}

// Word returns the text of prefix+value, or the value if it has none: for values of an API, which may get more.
func (x Texts) Word(language, prefix string, value any) string {
	if text, ok := x[prefix+fmt.Sprint(value)][language]; ok {
		return text
	}
	return fmt.Sprint(value)
}

type languageKey struct{}

// Language returns the language of a request to a route of a site.
func Language(r *http.Request) string {
	if l, ok := r.Context().Value(languageKey{}).(string); ok {
		return l
	}
	return Languages[0]
}

const languageCookie = "billbridge_lang"

// switchLanguage stores the language of ?lang= in a cookie, and redirects to the same page without it.
func switchLanguage(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.RawQuery, "lang=") {
		return false
	}
	query := r.URL.Query()
	chosen := query.Get("lang")
	if !slices.Contains(Languages, chosen) {
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
func languageOf(r *http.Request) string {
	wanted := strings.Split(r.Header.Get("Accept-Language"), ",") // browsers send them in the order of preference
	if cookie, err := r.Cookie(languageCookie); err == nil {
		wanted = slices.Insert(wanted, 0, cookie.Value)
	}
	for _, tag := range wanted {
		primary := strings.FieldsFunc(tag, func(c rune) bool { return strings.ContainsRune(" ;-", c) })
		if len(primary) > 0 && slices.Contains(Languages, strings.ToLower(primary[0])) {
			return strings.ToLower(primary[0])
		}
	}
	return Languages[0]
}
