package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// maxFileLines is when a file should be asked which concept inside it wants a name
// and a file of its own.
const maxFileLines = 500

func TestFilesAreShort(t *testing.T) {
	root := moduleRoot(t)
	source := func(p string) bool { return isGo(p) || strings.HasSuffix(p, ".c") || strings.HasSuffix(p, ".h") }
	for _, p := range files(t, root, source) {
		content, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		if isGo(p) && ast.IsGenerated(parse(t, root, p).file) {
			continue
		}
		if lines := bytes.Count(content, []byte{'\n'}); lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it by concept", p, lines, maxFileLines)
		}
	}
}

// Every package says in doc.go what it is for.
func TestPackagesAreDocumented(t *testing.T) {
	root := moduleRoot(t)
	documented := map[string]bool{}
	for _, p := range files(t, root, isGoCode) {
		folder := path.Dir(p)
		if _, seen := documented[folder]; !seen {
			documented[folder] = false
		}
		if path.Base(p) == "doc.go" && parse(t, root, p).file.Doc != nil {
			documented[folder] = true
		}
	}
	for folder, ok := range documented {
		if !ok {
			t.Errorf("%s has no doc.go with a package comment", folder)
		}
	}
}

// A test that sleeps is slow when it passes and wrong when the machine is busy. One
// that skips itself is not noticed in CI; testenv.RequireRoot is.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	root := moduleRoot(t)
	for _, p := range files(t, root, isGoTest) {
		src := parse(t, root, p)
		src.uses("time", func(selector *ast.SelectorExpr) {
			if selector.Sel.Name == "Sleep" {
				t.Errorf("%s: sleeps; wait for the event instead", src.line(selector))
			}
		})
		ast.Inspect(src.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
				switch selector.Sel.Name {
				case "Skip", "Skipf", "SkipNow":
					t.Errorf("%s: skips; only testenv.RequireRoot may", src.line(call))
				}
			}
			return true
		})
	}
}
