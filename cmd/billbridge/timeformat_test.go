package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// layouts are the other formats that files may use: those of the interface (Resources and fields).
var layouts = map[string][]string{
	"cmd/billbridge/sandbox.go": {time.DateOnly},         // expire_dt
	"proxy/sandbox/bill.go":     {"20060102150405"},      // 14 digits
	"proxy/sandbox/mapping.go":  {"2006-01-02T15:04:05"}, // regDt and updDt
}

// A goPackage is a package in the output of go list.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// Every printed time is in RFC 3339. The test finds calls of Format with another layout, and times passed to functions
// that format their arguments.
func TestTimesAreRFC3339(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	command.Dir = module
	command.Stderr = new(bytes.Buffer)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, command.Stderr)
	}
	exports, ours := map[string]string{}, []goPackage{}
	for all := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := all.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	if len(ours) < 8 {
		t.Fatalf("%d packages", len(ours))
	}
	root, err := filepath.Abs(module)
	must(t, err)
	files := token.NewFileSet()
	compiled := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	used := map[string]bool{}
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			must(t, err)
			parsed = append(parsed, file)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
		works(t)((&types.Config{Importer: compiled}).Check(p.ImportPath, files, parsed, info))
		for _, file := range parsed {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				at := files.Position(call.Pos())
				name, err := filepath.Rel(root, at.Filename)
				must(t, err)
				if layout, wrong := printedTime(info, call); wrong {
					for _, allowed := range layouts[name] {
						if layout == allowed {
							used[name+layout] = true
							return true
						}
					}
					t.Errorf("%s:%d: a time is printed as %q, not in RFC 3339 with a zone", name, at.Line, layout)
				}
				return true
			})
		}
	}
	for name, all := range layouts {
		for _, layout := range all {
			if !used[name+layout] {
				t.Errorf("%s does not print a time as %q: remove it from layouts", name, layout)
			}
		}
	}
}

// printedTime reports whether a call prints a time in another format, and its layout.
func printedTime(info *types.Info, call *ast.CallExpr) (layout string, wrong bool) {
	const own = "2006-01-02 15:04:05.999999999 -0700 MST" // of time.Time.String
	isTime := func(e ast.Expr) bool {
		of := info.TypeOf(e)
		if pointer, ok := of.(*types.Pointer); ok {
			of = pointer.Elem()
		}
		named, ok := of.(*types.Named)
		return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time" && named.Obj().Name() == "Time"
	}
	if method, ok := call.Fun.(*ast.SelectorExpr); ok && isTime(method.X) {
		switch method.Sel.Name {
		case "String", "GoString":
			return own, true
		case "Format", "AppendFormat":
			value := info.Types[call.Args[len(call.Args)-1]].Value
			if value == nil {
				return "a layout that is no constant", true
			}
			layout = constant.StringVal(value)
			return layout, layout != time.RFC3339 && layout != time.RFC3339Nano
		}
	}
	signature, ok := info.TypeOf(call.Fun).(*types.Signature)
	if !ok || !signature.Variadic() || printsNoTime(info, call) {
		return "", false
	}
	last, ok := signature.Params().At(signature.Params().Len() - 1).Type().(*types.Slice)
	if !ok { // append to bytes
		return "", false
	}
	if empty, ok := last.Elem().Underlying().(*types.Interface); !ok || !empty.Empty() {
		return "", false
	}
	for i, argument := range call.Args {
		if i >= signature.Params().Len()-1 && isTime(argument) {
			return own, true
		}
	}
	return "", false
}

// quiet are packages whose variadic functions print no time, or RFC 3339: log/slog, statements of SQL, and the reasons for operators, which
// package operate words.
var quiet = []string{"log/slog", "database/sql", "billbridge/proxy/store", "billbridge/proxy/rollout/evidence"}

// printsNoTime reports whether a call is of a quiet package.
func printsNoTime(info *types.Info, call *ast.CallExpr) bool {
	called := call.Fun
	if generic, ok := called.(*ast.IndexExpr); ok {
		called = generic.X
	}
	name, _ := called.(*ast.Ident)
	if selected, ok := called.(*ast.SelectorExpr); ok {
		name = selected.Sel
	}
	if name == nil || info.Uses[name] == nil || info.Uses[name].Pkg() == nil {
		_, builtin := info.Uses[name].(*types.Builtin) // append
		return builtin
	}
	return slices.Contains(quiet, info.Uses[name].Pkg().Path())
}
