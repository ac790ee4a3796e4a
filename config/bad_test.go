package config_test

import (
	"errors"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the expected messages into the bad files; review every line of the diff")

// lookup returns variables of the environment of the tests.
func lookup(name string) (string, bool) {
	value, ok := map[string]string{"BILLBRIDGE_ADMIN_TOKEN": "a token of the tests", "BILLBRIDGE_EMPTY": ""}[name]
	return value, ok
}

// Each file has one mistake. It begins with comments that contain the expected messages.
func TestBadConfigs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad configs: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			data := proxytest.ReadFile(t, file)
			if *update {
				proxytest.WriteFile(t, file, withWants(t, file, string(data)))
				return
			}
			want, _ := splitWants(string(data))
			if len(want) == 0 {
				t.Fatalf("%s has no expected messages", file)
			}
			equal(t, cmp.Diff(want, mistakes(t, file, data)), "")
		})
	}
}

const wantMark = "# want "

// splitWants splits a bad file into its expected messages and the rest.
func splitWants(text string) (wants []string, rest string) {
	rest = text
	for strings.HasPrefix(rest, wantMark) {
		line, after, _ := strings.Cut(rest, "\n")
		wants, rest = append(wants, strings.TrimPrefix(line, wantMark)), after
	}
	return wants, rest
}

// withWants returns the file with the messages of now. Each message moves the lines that it names, so several rounds are needed.
func withWants(t *testing.T, file, text string) []byte {
	for range 3 {
		_, rest := splitWants(text)
		head := ""
		for _, m := range mistakes(t, file, []byte(text)) {
			head += wantMark + m + "\n"
		}
		text = head + rest
	}
	return []byte(text)
}

// mistakes returns the lines of the error.
func mistakes(t *testing.T, file string, data []byte) []string {
	t.Helper()
	c, err := config.Parse(translate.File{Name: file, Data: data}, lookup)
	var problems translate.Problems
	if c != nil || !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("not refused with problems: %v, %v", c, err)
	}
	lines := strings.Split(err.Error(), "\n")
	equal(t, len(lines), len(problems))
	if !slices.IsSortedFunc(problems, func(a, b translate.Problem) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	}) {
		t.Errorf("not in the order of the file:\n%v", err)
	}
	return lines
}
