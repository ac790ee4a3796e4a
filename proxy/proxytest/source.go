package proxytest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Said returns the first arguments of all calls of a function in the sources that match patterns, with the number of
// the other arguments. Each must be a text: then a test can compare all with another list.
func Said(t testing.TB, function string, patterns ...string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if Must(t, err); len(names) == 0 {
			t.Fatalf("%s: no file", pattern)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			Must(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				f := call.Fun
				if s, ok := f.(*ast.SelectorExpr); ok {
					f = s.Sel
				}
				if id, ok := f.(*ast.Ident); ok && id.Name == function {
					all[literal(t, name, call.Args[0])] = len(call.Args) - 1
				}
				return true
			})
		}
	}
	return all
}

// literal returns a text of a source.
func literal(t testing.TB, file string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		Must(t, err)
		return text
	case *ast.BinaryExpr:
		return literal(t, file, e.X) + literal(t, file, e.Y)
	}
	t.Fatalf("%s: not a literal: %T", file, e)
	return ""
}
