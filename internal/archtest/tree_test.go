package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/metaroced/metaroced"

// moduleRoot returns the folder of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = parent
	}
}

// files returns the slash-separated paths, relative to the module's root, of all
// files below the folders for which keep holds. Hidden folders, built binaries and
// test data are left out.
func files(t *testing.T, root string, keep func(path string) bool) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if relative != "." && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if slash := filepath.ToSlash(relative); keep(slash) {
			found = append(found, slash)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("found no file: the test looks in the wrong place")
	}
	return found
}

func isGo(path string) bool     { return strings.HasSuffix(path, ".go") }
func isGoTest(path string) bool { return strings.HasSuffix(path, "_test.go") }
func isGoCode(path string) bool { return isGo(path) && !isGoTest(path) }

// source is one parsed Go file.
type source struct {
	path string
	set  *token.FileSet
	file *ast.File
}

func parse(t *testing.T, root, path string) source {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return source{path, set, file}
}

// line returns "path:line" of a node.
func (s source) line(n ast.Node) string {
	position := s.set.Position(n.Pos())
	return fmt.Sprintf("%s:%d", s.path, position.Line)
}

// imports returns the file's import paths by the names it uses them under.
func (s source) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range s.file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}

// uses calls found for every selector pkg.Name of the import path in the file.
func (s source) uses(importPath string, found func(selector *ast.SelectorExpr)) {
	names := s.imports()
	ast.Inspect(s.file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := selector.X.(*ast.Ident); ok && names[id.Name] == importPath {
				found(selector)
			}
		}
		return true
	})
}
