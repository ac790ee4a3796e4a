package translate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// Each file has one mistake. It begins with comments that contain the expected messages. A file named overlay-… is an overlay of the
// billing table, and every other file is a table.
func TestBadTables(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad tables: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			must(t, err)
			if *update {
				must(t, os.WriteFile(file, withWants(name, string(data)), 0o644))
				return
			}
			want, _ := splitWants(string(data))
			equal(t, mistakes(t, name, string(data)), want)
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
func withWants(name, text string) []byte {
	for range 3 {
		_, rest := splitWants(text)
		head := ""
		for _, m := range mistakes(nil, name, text) {
			head += wantMark + m + "\n"
		}
		text = head + rest
	}
	return []byte(text)
}

func mistakes(t *testing.T, name, text string) []string {
	file := translate.File{Name: name, Data: []byte(text)}
	var table *translate.Table
	var err error
	if strings.HasPrefix(name, "overlay-") {
		table, err = translate.Compile(32, billing.Table(), file)
	} else {
		table, err = translate.Compile(32, file)
	}
	if t != nil {
		if problems, ok := err.(translate.Problems); !ok || len(problems) == 0 || table != nil {
			t.Fatalf("not refused: %T", err)
		}
	}
	if err == nil {
		return []string{"NOT REFUSED"}
	}
	return strings.Split(err.Error(), "\n")
}
