package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// module is the root of the module.
const module = "../.."

// A layer has the import rules of a package.
type layer struct {
	of    []string // packages of this module that it may import
	never []string // other packages that it must not import; a name that ends in / includes all packages below
}

// layersOf returns the rules of testdata/layers.txt by package.
func layersOf(t *testing.T) map[string]layer {
	t.Helper()
	all := map[string]layer{}
	designed := string(proxytest.ReadFile(t, "testdata/layers.txt"))
	for line := range strings.Lines(strings.NewReplacer(" web", " net/http net/http/", " process", " os os/ flag").Replace(designed)) {
		if folder, rule, ok := strings.Cut(line, ":"); ok && line[0] != '#' {
			of, never, _ := strings.Cut(rule, "!")
			before := all[folder]
			all[folder] = layer{append(before.of, strings.Fields(of)...), append(before.never, strings.Fields(never)...)}
		}
	}
	return all
}

// A source has the imports of a file. Packages of this module are named by their folder.
type source struct {
	file         string
	ours, others []string
}

// sources returns the imports of all Go files but tests, by folder.
func sources(t *testing.T) map[string][]source {
	t.Helper()
	byFolder := map[string][]source{}
	err := filepath.WalkDir(module, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != module && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(module, name)
		if err != nil {
			return err
		}
		s := source{file: filepath.ToSlash(relative)}
		for _, imported := range file.Imports {
			full := strings.Trim(imported.Path.Value, `"`)
			if ours, ok := strings.CutPrefix(full, "billbridge/"); ok {
				s.ours = append(s.ours, ours)
			} else {
				s.others = append(s.others, full)
			}
		}
		byFolder[path.Dir(s.file)] = append(byFolder[path.Dir(s.file)], s)
		return nil
	})
	must(t, err)
	if len(byFolder) < 4 {
		t.Fatalf("only %d packages were found below %s", len(byFolder), module)
	}
	return byFolder
}

func TestPackagesImportOnlyWhatTheDesignAllows(t *testing.T) {
	t.Parallel()
	layers := layersOf(t)
	for folder, files := range sources(t) {
		rule, ok := layers[folder]
		if !ok {
			t.Errorf("package %s has no layer: add one to testdata/layers.txt", folder)
			continue
		}
		for _, f := range files {
			for _, imported := range f.ours {
				if !slices.Contains(rule.of, imported) {
					t.Errorf("%s imports %s: %s must not", f.file, imported, folder)
				}
			}
			for _, imported := range f.others {
				if matches(rule.never, imported) {
					t.Errorf("%s imports %s: %s must not", f.file, imported, folder)
				}
			}
		}
	}
}

func matches(names []string, imported string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == imported || strings.HasSuffix(name, "/") && strings.HasPrefix(imported, name)
	})
}

// A package must not get a forbidden import through another package of this module either.
func TestForbiddenImportsAreNotReachedIndirectly(t *testing.T) {
	t.Parallel()
	tree, layers := sources(t), layersOf(t)
	for _, folder := range []string{"translate", "translate/billing", "translate/openapi", "config", "proxy/sandbox"} {
		seen := map[string]bool{}
		var follow func(at string)
		follow = func(at string) {
			if seen[at] {
				return
			}
			seen[at] = true
			for _, f := range tree[at] {
				for _, imported := range f.others {
					if matches(layers[folder].never, imported) {
						t.Errorf("%s gets %s by %s", folder, imported, f.file)
					}
				}
				for _, ours := range f.ours {
					follow(ours)
				}
			}
		}
		follow(folder)
	}
}

// The API of jsontext is not stable, so one file uses it.
func TestOneFileImportsJSONText(t *testing.T) {
	t.Parallel()
	const unfrozen = "github.com/go-json-experiment/json"
	var users []string
	for _, files := range sources(t) {
		for _, f := range files {
			if slices.ContainsFunc(f.others, func(imported string) bool { return matches([]string{unfrozen, unfrozen + "/"}, imported) }) {
				users = append(users, f.file)
			}
		}
	}
	if len(users) != 1 || path.Dir(users[0]) != "translate" {
		t.Errorf("%v import it, want one file of translate", users)
	}
}

// The top-level folders are those of the design. Hidden folders are ignored.
func TestTopLevelFolders(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(module)
	must(t, err)
	var got []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			got = append(got, e.Name())
		}
	}
	want := []string{"cmd", "config", "proxy", "translate"}
	equal(t, got, want)
}

// Every printed time is in RFC 3339. Only sandboxes have other formats, those of the interface, and pages short ones with
// the whole time in a title.
func TestTimesAreRFC3339(t *testing.T) {
	t.Parallel()
	printed := regexp.MustCompile(`\.(?:Format|AppendFormat)\(.*`)
	for folder, files := range sources(t) {
		for _, f := range files {
			for _, call := range printed.FindAllString(string(proxytest.ReadFile(t, filepath.Join(module, f.file))), -1) {
				if folder != "proxy/sandbox" && f.file != "cmd/billbridge/sandbox.go" &&
					!strings.Contains(call, "shortLayout(") && !strings.Contains(call, "time.RFC3339") && !strings.Contains(call, "jsontext") {
					t.Errorf("%s: %s", f.file, call)
				}
			}
		}
	}
}

// Only main.go uses the streams, arguments, environment and exit of the process. Commands take a system, so that tests
// can call them.
func TestOnlyMainTouchesTheProcess(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || !slices.Contains(files, "main.go") {
		t.Fatalf("no program here: %v, %v", files, err)
	}
	for _, name := range files {
		if name == "main.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := proxytest.ReadFile(t, name)
		for _, process := range []string{"os.Stdin", "os.Stdout", "os.Stderr", "os.Args", "os.Exit", "os.Getenv", "os.LookupEnv", "signal."} {
			lacks(t, string(text), process, name)
		}
	}
}
