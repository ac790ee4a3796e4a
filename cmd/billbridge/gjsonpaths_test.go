package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"billbridge/proxy/proxytest"
)

// Paths of gjson and sjson must not come from a message. All calls but those that parse are listed here with the origin
// of the path. A new call must be justified here.
func TestR07_PathsAreConstants(t *testing.T) {
	t.Parallel()
	want := []string{
		// The name of the text of a failure, from the table, which allows plain characters only.
		"proxy/mask.go: gjson.GetBytes(answer, name)",
		"proxy/mask.go: sjson.SetBytes(answer, name, changed)",
		// Paths of rows, in what the table itself has made.
		"proxy/ownreads.go: gjson.GetBytes(document, path).Exists() {",
		"translate/schema.go: sjson.SetBytes(s.Example, t.request.fields[o.hash.in].source, signed.Hash)",
		"translate/schema.go: sjson.SetRawBytes(s.Example, result+\".0\", items.Example)",
	}
	call := regexp.MustCompile(`\b[gs]json\.(\w+)\(.*`)
	var got []string
	for _, files := range sources(t) {
		for _, f := range files {
			for _, m := range call.FindAllStringSubmatch(string(proxytest.ReadFile(t, filepath.Join(module, f.file))), -1) {
				if !slices.Contains([]string{"Parse", "ParseBytes"}, m[1]) {
					got = append(got, f.file+": "+m[0])
				}
			}
		}
	}
	slices.Sort(got)
	equal(t, got, want, "calls that take a path")
}
