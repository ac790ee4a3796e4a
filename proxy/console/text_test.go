package console

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

var (
	textUse    = regexp.MustCompile(`\bt "([^"]+)"`)
	quotedWord = regexp.MustCompile(`"([a-z0-9_-]+(?:\.[a-z0-9_-]*)+)"`)
	verbs      = regexp.MustCompile(`%(?:\[\d+\])?[a-z]`)
	textName   = regexp.MustCompile(`^[a-z]+\.(\S|$)`)
	position   = regexp.MustCompile(`\[\d+\]`)
)

// sourceText returns the Go files and templates of the package.
func sourceText(t *testing.T) (templates, code string) {
	t.Helper()
	for _, pattern := range []string{"templates/*.html", "templates/parts/*.html", "*.go"} {
		names, err := fs.Glob(os.DirFS("."), pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: no file, %v", pattern, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			data := proxytest.ReadFile(t, name)
			if pattern == "*.go" {
				code += string(data)
			} else {
				templates += string(data)
			}
		}
	}
	return templates, code
}

// Every text exists in all languages, with the same values to fill in.
func TestEveryTextIsInAllLanguages(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range all {
		if ofEnglish(key) {
			continue
		}
		want := valuesOf(text[languages[0]])
		for _, l := range languages {
			got := valuesOf(text[l])
			if text[l] == "" || !slices.Equal(got, want) {
				t.Errorf("%s in %s is %q: want a text with the values %q", key, l, text[l], want)
			}
		}
		if len(text) != len(languages) {
			t.Errorf("%s has %d languages", key, len(text))
		}
	}
}

// ofEnglish reports whether a key is an English text, and not the name of a text such as "nav.calls".
func ofEnglish(key string) bool { return !textName.MatchString(key) }

// valuesOf returns the kinds of the values that a text needs, in any order.
func valuesOf(text string) []string {
	var kinds []string
	for _, verb := range verbs.FindAllString(text, -1) {
		kinds = append(kinds, position.ReplaceAllString(verb, ""))
	}
	slices.Sort(kinds)
	return kinds
}

// A template names no text that does not exist, and no text is left that nothing names. A name that ends in a dot, such as
// "nav.", names all texts that begin with it.
func TestTextsAreThoseThatPagesUse(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	templates, code := sourceText(t)
	for _, use := range textUse.FindAllStringSubmatch(templates, -1) {
		if all[use[1]] == nil {
			t.Errorf("a template uses the text %s, which does not exist", use[1])
		}
	}
	used, prefixes := map[string]bool{}, []string{}
	for _, word := range quotedWord.FindAllStringSubmatch(templates+code, -1) {
		if used[word[1]] = true; strings.HasSuffix(word[1], ".") {
			prefixes = append(prefixes, word[1])
		}
	}
	for key := range all {
		if !ofEnglish(key) && !used[key] && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			t.Errorf("nothing uses the text %s", key)
		}
	}
}
