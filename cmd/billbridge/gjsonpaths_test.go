package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Paths of gjson and sjson must not come from a message. All calls that take a path are listed here with the origin of
// the path. A new call must be justified here.
func TestR07_PathsAreConstants(t *testing.T) {
	t.Parallel()
	want := []string{
		// The name of the text of a failure, from the table, which allows plain characters only.
		"proxy/mask.go: gjson.GetBytes(name)",
		"proxy/mask.go: sjson.SetBytes(name)",
	}
	var got []string
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if line, takesPath := gjsonPathCall(call); takesPath {
				got = append(got, filepath.ToSlash(name)+": "+line)
			}
			return true
		})
		return nil
	})
	must(t, err)
	equal(t, got, want, "calls that take a path")
}

// gjsonPathCall describes a call of gjson or sjson that takes a path.
func gjsonPathCall(call *ast.CallExpr) (line string, takesPath bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 {
		return "", false
	}
	library, ok := f.X.(*ast.Ident)
	if !ok || library.Name != "gjson" && library.Name != "sjson" {
		return "", false
	}
	path := "an expression"
	if word, ok := call.Args[1].(*ast.Ident); ok {
		path = word.Name
	}
	return library.Name + "." + f.Sel.Name + "(" + path + ")", true
}
