package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A block is a fenced block of a README.
type block struct {
	file     string
	language string
	indented bool // inside a list
	line     int  // the number of its first line
	lines    []string
}

// readmes returns the names of all READMEs, the top-level one first, and of the other pages for operators.
func readmes(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md"}
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != module) {
			return filepath.SkipDir
		}
		if name, inside := strings.CutPrefix(filepath.ToSlash(path), module+"/"); err == nil && inside && slices.Contains([]string{"README.md", "RUNBOOK.md", "HIGH-AVAILABILITY.md"}, entry.Name()) && name != "README.md" {
			files = append(files, name)
		}
		return err
	})
	must(t, err)
	return files
}

// readme returns the lines of a README, and its blocks that are not inside a list.
func readme(t *testing.T, name string) (lines []string, blocks []block) {
	t.Helper()
	lines, blocks = markdown(t, name)
	return lines, slices.DeleteFunc(blocks, func(b block) bool { return b.indented })
}

// markdown returns the lines and all blocks of a file.
func markdown(t *testing.T, name string) (lines []string, blocks []block) {
	t.Helper()
	data := proxytest.ReadFile(t, filepath.Join(module, name))
	lines = strings.Split(string(data), "\n")
	var open *block
	indent := ""
	for i, line := range lines {
		text := strings.TrimLeft(line, " ")
		fence, isFence := strings.CutPrefix(text, "```")
		switch {
		case open != nil && text == "```":
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.lines = append(open.lines, strings.TrimPrefix(line, indent))
		case isFence:
			indent = line[:len(line)-len(text)]
			open = &block{file: name, language: fence, indented: indent != "", line: i + 2}
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: this block has no end", name, open.line)
	}
	return lines, blocks
}

// allBlocks returns the blocks of all READMEs.
func allBlocks(t *testing.T) (all []block) {
	t.Helper()
	for _, name := range readmes(t) {
		_, blocks := readme(t, name)
		all = append(all, blocks...)
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)#]+)\)`)

// Links to files must resolve, and the top-level README must be short.
func TestReadmeLinksResolve(t *testing.T) {
	t.Parallel()
	links := 0
	for _, name := range readmes(t) {
		lines, _ := readme(t, name)
		if name == "README.md" && len(lines) > 151 {
			t.Errorf("README.md has %d lines, at most 150 are wanted", len(lines)-1)
		}
		for i, line := range lines {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				links++
				if _, err := os.Stat(filepath.Join(module, filepath.Dir(name), m[1])); err != nil {
					t.Errorf("%s:%d: %v", name, i+1, err)
				}
			}
		}
	}
	if links < 10 {
		t.Errorf("%d links: too few were found", links)
	}
}

// The scripts run the first command. The second one runs all tests.
func TestReadmeHasTheTwoCommands(t *testing.T) {
	t.Parallel()
	lines, _ := readme(t, "README.md")
	for _, command := range []string{"go run ./cmd/billbridge serve", "go test ./..."} {
		at := regexp.MustCompile(`^( {4}|\$ )?` + regexp.QuoteMeta(command) + `( *#.*)?$`)
		found := false
		for _, line := range lines {
			found = found || at.MatchString(line)
		}
		if !found {
			t.Errorf("README.md lacks the line: %s", command)
		}
	}
}

// Configs in documents are valid, also those that show only some sections, and overlays compile with the billing table. A yaml block must
// be one of these, and so must each other block, whatever it is called, that is YAML with a key of the config.
func TestConfigsAndOverlaysOfDocumentsAreValid(t *testing.T) {
	t.Parallel()
	dir, count := t.TempDir(), map[string]int{}
	secretFile := regexp.MustCompile(`\$\{file:([\w.]+)\}`)
	for _, b := range documentBlocks(t) {
		kind := kindOf(b)
		text := strings.Join(b.lines, "\n") + "\n"
		if kind == "" && hasConfigKey(text) {
			kind = "part of a config"
		}
		if count[kind]++; kind == "" && b.language == "yaml" {
			t.Errorf("%s:%d: a yaml block without a key of the config is an overlay and begins with # overlay", b.file, b.line)
		}
		if kind == "part of a config" {
			text += restOfConfig(text)
		}
		for _, secret := range secretFile.FindAllStringSubmatch(text, -1) {
			proxytest.WriteFile(t, filepath.Join(dir, secret[1]), fmt.Sprintf("%x", sha256.Sum256([]byte(secret[1]))))
		}
		// Empty lines, so that an error has the line number in the document.
		file := translate.File{Name: filepath.Join(dir, "billbridge.yaml"), Data: []byte(strings.Repeat("\n", b.line-1) + text)}
		var err error
		switch kind {
		case "config", "part of a config":
			environment := func(name string) (string, bool) {
				if name == "STORE_URL" {
					return "postgres://billbridge:word@127.0.0.1:5000/billbridge?sslmode=disable", true
				}
				return "a token of the tests", true
			}
			_, err = config.Parse(file, environment)
		case "overlay":
			_, err = translate.Compile(maxDepth, billing.Table(), file)
		}
		if err != nil {
			t.Errorf("%s: %v", b.file, err)
		}
	}
	for _, kind := range []string{"config", "part of a config", "overlay"} {
		if count[kind] == 0 {
			t.Errorf("the documents have no %s", kind)
		}
	}
}

// documentBlocks returns the blocks of all Markdown files, in all languages.
func documentBlocks(t *testing.T) (all []block) {
	t.Helper()
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != module):
			return filepath.SkipDir
		case err == nil && strings.HasSuffix(path, ".md"):
			_, blocks := markdown(t, strings.TrimPrefix(filepath.ToSlash(path), module+"/"))
			all = append(all, blocks...)
		}
		return err
	})
	must(t, err)
	return all
}

// hasConfigKey reports whether a text is YAML with a key of the config at its top level.
func hasConfigKey(text string) bool {
	root, err := translate.ParseYAML(translate.File{Data: []byte(text)})
	if err != nil {
		return false
	}
	keys := reflect.VisibleFields(reflect.TypeFor[config.Config]())
	for key := range translate.Members(root) {
		for _, f := range keys {
			if f.Tag.Get("yaml") == key.Value && key.Value != "-" && key.Value != "" {
				return true
			}
		}
	}
	return false
}

// restOfConfig returns what a part of a config lacks.
func restOfConfig(text string) (rest string) {
	for _, section := range []string{
		`upstreams: {old: {form: legacy, url: "https://old.example.com"}, new: {form: v2, url: "https://new.example.com"}}`,
		"route: {default: old}",
	} {
		key, _, _ := strings.Cut(section, ":")
		if !strings.HasPrefix(text, key+":") && !strings.Contains(text, "\n"+key+":") {
			rest += section + "\n"
		}
	}
	return rest
}

func kindOf(b block) string {
	if len(b.lines) > 0 && strings.HasPrefix(b.lines[0], "# overlay") {
		return "overlay"
	}
	for _, line := range b.lines {
		if strings.HasPrefix(line, "upstreams:") {
			return "config"
		}
	}
	return ""
}

// A comment that cites a rule of INTERFACE.md must use the name of an existing rule.
func TestCommentsCiteExistingFacts(t *testing.T) {
	t.Parallel()
	facts := proxytest.ReadFile(t, filepath.Join(module, "translate/billing/INTERFACE.md"))
	cited := regexp.MustCompile(`INTERFACE\.md, ([A-Z][a-z ]+)`)
	n := 0
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range cited.FindAllStringSubmatch(string(data), -1) {
			n++
			has(t, string(facts), "\n| "+m[1]+" | ", path, m[1])
		}
		return err
	})
	if err != nil || n < 8 {
		t.Errorf("%d citations, %v", n, err)
	}
}

// declaredTests returns the names of all tests, without fuzz targets and examples.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared, declaration := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range declaration.FindAllStringSubmatch(string(data), -1) {
			declared[m[1]] = true
		}
		return err
	})
	if err != nil || len(declared) < 100 {
		t.Fatalf("%d tests were found: %v", len(declared), err)
	}
	return declared
}

// Tests that a README or CONTRIBUTING.md names exist, and so do the tests of files with calls that it names.
func TestReadmesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	title, titles := regexp.MustCompile("`Test(?:Calls|OperatorDecisions)`([^|]*)"), string(proxytest.ReadFile(t, filepath.Join(module, "proxy/operate/testdata/decisions/decisions.txt")))
	files, err := filepath.Glob(filepath.Join(module, "proxy/store/testdata/calls/*.txt"))
	must(t, err)
	for _, file := range files {
		titles += string(proxytest.ReadFile(t, file))
	}
	declared, name, named := declaredTests(t), regexp.MustCompile(`\bTest[A-Z]\w*`), 0
	for _, file := range append(readmes(t), "CONTRIBUTING.md") {
		data := proxytest.ReadFile(t, filepath.Join(module, file))
		for i, line := range strings.Split(string(data), "\n") {
			for _, test := range name.FindAllString(line, -1) {
				if named++; !declared[test] {
					t.Errorf("%s:%d: the test %s does not exist", file, i+1, test)
				}
			}
			for _, of := range title.FindAllStringSubmatch(line, -1) {
				if text := strings.TrimSpace(of[1]); !strings.Contains(titles, "== "+strings.Trim(text, "()")+"\n") {
					t.Errorf("%s:%d: no test of a file is named %s", file, i+1, text)
				}
			}
		}
	}
	if named < 30 {
		t.Errorf("%d tests are named: too few", named)
	}
}

// SECURITY.md has one row for each promise, in their order, and each promise has tests with its number.
func TestSecurityListsEveryPromise(t *testing.T) {
	t.Parallel()
	data := proxytest.ReadFile(t, filepath.Join(module, "SECURITY.md"))
	tested := map[string]bool{}
	for test := range declaredTests(t) {
		for _, number := range regexp.MustCompile(`R\d\d_`).FindAllString(test, -1) {
			tested[strings.TrimSuffix(number, "_")] = true
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (R\d\d) \| .+ \|$`).FindAllSubmatch(data, -1)
	for i, row := range rows {
		number := string(row[1])
		if number != fmt.Sprintf("R%02d", i+1) {
			t.Errorf("row %d is %s", i+1, number)
		}
		if !tested[number] {
			t.Errorf("%s has no test", number)
		}
	}
	equal(t, len(rows), len(tested), "rows, and promises with tests")
}
