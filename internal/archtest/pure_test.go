package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// pureFolders hold state machines and values: time comes in as an argument, packets
// go out as bytes. That is what lets the same code run in the daemon, in the
// simulator and in tests with a virtual clock.
var pureFolders = []string{"dataplane/wire", "dataplane/transport", "pathsel", "congestion"}

// impureImports may not be imported there, nor any package below them.
var impureImports = []string{"net", "os", "syscall", "golang.org/x/sys"}

// clockUses of package time read a clock or wait for one. Durations are fine.
var clockUses = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func TestPurePackagesDoNoInputOutput(t *testing.T) {
	root := moduleRoot(t)
	for _, path := range files(t, root, isPureCode) {
		src := parse(t, root, path)
		for _, imported := range src.imports() {
			for _, impure := range impureImports {
				if imported == impure || strings.HasPrefix(imported, impure+"/") {
					t.Errorf("%s imports %q: packages %q do no I/O", path, imported, pureFolders)
				}
			}
		}
		src.uses("time", func(selector *ast.SelectorExpr) {
			if slices.Contains(clockUses, selector.Sel.Name) {
				t.Errorf("%s: time.%s: time is an argument here", src.line(selector), selector.Sel.Name)
			}
		})
		ast.Inspect(src.file, func(n ast.Node) bool {
			if statement, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: starts a goroutine; state machines have none", src.line(statement))
			}
			return true
		})
	}
}

func isPureCode(path string) bool {
	if !isGoCode(path) {
		return false
	}
	for _, folder := range pureFolders {
		if strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}
