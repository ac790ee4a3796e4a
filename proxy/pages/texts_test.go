package pages

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	textUse    = regexp.MustCompile(`\bt "([^"]+)"`)
	quotedWord = regexp.MustCompile(`"([a-z0-9_-]+(?:\.[a-z0-9_-]*)+)"`)
	verbs      = regexp.MustCompile(`%(?:\[\d+\])?[a-z]`)
	textName   = regexp.MustCompile(`^[a-z]+\.(\S|$)`)
	position   = regexp.MustCompile(`\[\d+\]`)
)

// The texts of the two sites. Every text exists in all languages, with the same values to fill in. The templates and Go
// files name no text that does not exist, and no text is left that they do not name. A name that ends in a dot, such as
// "nav.", names all texts that begin with it.
func TestEveryTextIsUsedAndInAllLanguages(t *testing.T) {
	t.Parallel()
	for _, site := range []string{"../console", "../sandbox/web"} {
		all, err := ReadTexts(os.DirFS(site))
		if err != nil {
			t.Fatal(err)
		}
		checkTexts(t, all, site, ".")
	}
}

func checkTexts(t *testing.T, all Texts, folders ...string) {
	t.Helper()
	templates, code := sourceText(t, folders)
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
	for key, text := range all {
		if !textName.MatchString(key) {
			continue // the key is an English text, and not the name of a text such as "nav.calls"
		}
		if !used[key] && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			t.Errorf("nothing uses the text %s", key)
		}
		want := valuesOf(text[Languages[0]])
		for _, l := range Languages {
			got := valuesOf(text[l])
			if text[l] == "" || !slices.Equal(got, want) {
				t.Errorf("%s in %s is %q: want a text with the values %q", key, l, text[l], want)
			}
		}
		if len(text) != len(Languages) {
			t.Errorf("%s has %d languages", key, len(text))
		}
	}
}

// sourceText returns the Go files and templates of folders.
func sourceText(t *testing.T, folders []string) (templates, code string) {
	t.Helper()
	for _, folder := range folders {
		for _, pattern := range []string{"templates/*.html", "templates/parts/*.html", "*.go"} {
			names, err := fs.Glob(os.DirFS(folder), pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if strings.HasSuffix(name, "_test.go") {
					continue
				}
				data, err := os.ReadFile(folder + "/" + name)
				if err != nil {
					t.Fatal(err)
				}
				if pattern == "*.go" {
					code += string(data)
				} else {
					templates += string(data)
				}
			}
		}
	}
	if templates == "" || code == "" {
		t.Fatalf("%s: no templates or no code", folders)
	}
	return templates, code
}

// valuesOf returns the kinds of the values that a text needs, in any order.
func valuesOf(text string) []string {
	var kinds []string
	for _, verb := range verbs.FindAllString(text, -1) {
		kinds = append(kinds, position.ReplaceAllString(verb, ""))
	}
	slices.Sort(kinds)
	return kinds
}
