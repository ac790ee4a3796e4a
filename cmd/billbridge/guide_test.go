package main

import (
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// guideConfig is the config of the pages in testdata. Its partners have these names.
const (
	guideConfig = "testdata/guide/billbridge.yaml"
	pianoSchool = "Paper Lantern Piano School"
	clinic      = "Nine Herons *Clinic* <b>"
)

// printGuide returns what billbridge assets partner-guide prints.
func printGuide(t *testing.T, args ...string) (page, warnings string) {
	t.Helper()
	code, page, warnings := runCommand(t, false, append([]string{"assets", "partner-guide"}, args...)...)
	equal(t, code, exitOK, args, warnings)
	return page, warnings
}

// The pages for two partners of the demo are those of testdata, in both languages, and so are those where words without a pair are
// null and a call that cannot be carried is not found.
func TestGuidePages(t *testing.T) {
	t.Parallel()
	compare := func(file string, args ...string) {
		t.Helper()
		page, warnings := printGuide(t, args...)
		if warnings != "" && !strings.HasPrefix(file, "null") {
			t.Errorf("%s: %s", file, warnings)
		}
		file = "testdata/guide/" + file + ".md"
		if *update {
			proxytest.WriteFile(t, file, page)
		}
		equal(t, page, string(proxytest.ReadFile(t, file)), file)
	}
	for form, partner := range map[string]string{"legacy": pianoSchool, "v2": clinic} {
		for _, language := range []string{"en", "ko"} {
			compare(form+"."+language, "--config", guideConfig, "--form", form, "--partner", partner, "--language", language)
		}
		compare("null."+form, "--config", "testdata/guide/null.yaml", "--form", form)
	}
}

// legend matches the words of the picture, which differ between the languages.
var legend = regexp.MustCompile(`(?m)  [1-5] .*$|^ program .*$|^프로그램 게이트웨이 .*$`)

// Both languages have the same sections, rows of tables, and code.
func TestGuideInBothLanguages(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"legacy", "v2"} {
		for _, config := range [][]string{nil, {"--config", guideConfig}} {
			page := func(language string) []map[string]int {
				page, _ := printGuide(t, append([]string{"--form", form, "--language", language}, config...)...)
				return skeleton(legend.ReplaceAllString(page, ""))
			}
			equal(t, page("ko"), page("en"), form)
		}
	}
}

// A page shows no address of a backend or of the gateway's own network, no secret, no hash of a partner and no other partner.
func TestR35_GuideShowsNothingInternal(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"legacy", "v2"} {
		for partner, other := range map[string]string{pianoSchool: "Nine Herons", clinic: "Paper Lantern", "": "Paper Lantern"} {
			args := []string{"--config", guideConfig, "--form", form}
			if partner != "" {
				args = append(args, "--partner", partner)
			}
			page, _ := printGuide(t, args...)
			for _, internal := range []string{
				"internal", "password", "an-admin-token", "10.20.0.7", "postgres", "aaaaaaaa", "bbbbbbbb", "127.0.0.1", other,
			} {
				lacks(t, page, internal, form, partner)
			}
		}
	}
}
