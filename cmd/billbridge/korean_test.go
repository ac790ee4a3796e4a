package main

import (
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// The parts of a page that a translation keeps: headings (their level), blocks, rows of tables, links and code. Links to the page in the
// other language are equal.
var (
	untranslated = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]+`|\\]\\([^)\n]+\\)|^#+ |^\\| ?|^- |^[0-9]+\\. ")
	otherPage    = regexp.MustCompile(`\]\((.*?)(README|RUNBOOK)(\.ko)?\.md(#.*)?\)`)
)

// skeleton returns what a page and its translation have in common, section by section: in each, the parts in alphabetical order, since the
// order of words differs between the languages.
func skeleton(page string) (sections []map[string]int) {
	for section := range strings.SplitSeq(page, "\n## ") {
		parts := map[string]int{}
		for _, part := range untranslated.FindAllString(section, -1) {
			parts[otherPage.ReplaceAllString(part, "]($1$2.md$4)")]++
		}
		sections = append(sections, parts)
	}
	return sections
}

// The Korean pages have the sections, commands, code and links of the English ones.
func TestKoreanPagesAreComplete(t *testing.T) {
	t.Parallel()
	read := func(file string) string { return string(proxytest.ReadFile(t, module+"/"+file)) }
	for _, page := range []string{"README", "cmd/billbridge/assets/RUNBOOK"} {
		equal(t, skeleton(read(page+".ko.md")), skeleton(read(page+".md")), page)
	}
}
