package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// anything lets a folder import every other one.
const anything = "*"

// mayImport is the table "Folders, and who may import whom" of
// docs/ARCHITECTURE.md. A package belongs to the longest entry that is its path or
// a folder above it; packages of one entry may import each other. Tests may import
// what they like, as long as the compiler finds no cycle.
var mayImport = map[string][]string{
	"dataplane/wire":      {},
	"congestion":          {},
	"pathsel":             {},
	"dataplane/transport": {"dataplane/wire", "congestion", "pathsel"},
	"umem":                {},
	"rings":               {},
	"bpf":                 {},
	"dataplane/queue":     {"rings"},
	"dataplane/port":      {"umem", "rings", "bpf", "dataplane/wire"},
	"dataplane/frame":     {"dataplane/wire"},
	"dataplane/neighbor":  {"dataplane/frame", "dataplane/wire"},
	"dataplane": {
		"dataplane/wire", "congestion", "pathsel", "dataplane/transport", "umem", "rings", "bpf",
		"dataplane/queue", "dataplane/port", "dataplane/frame", "dataplane/neighbor",
	},
	"ctrl/msg":      {"dataplane/queue"},
	"ctrl":          {"umem", "rings", "dataplane/queue", "dataplane", "ctrl/msg"},
	"client":        {"umem", "rings", "dataplane/queue", "ctrl/msg"},
	"cmd/metaroced": {anything},
	"bench":         {anything},

	"deploy": {}, // a test of the example configuration

	// For tests only: nothing else imports them.
	"internal/testenv":  {},
	"internal/archtest": {},
}

// testOnly are the entries that no code outside of tests may import, not even one
// that may import anything.
var testOnly = []string{"internal/testenv", "internal/archtest"}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func TestImportsPointTheRightWay(t *testing.T) {
	checked := 0
	for _, p := range listPackages(t) {
		folder, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			continue
		}
		checked++
		from := entryOf(folder)
		if from == "" {
			t.Errorf("%s: has no entry in mayImport; decide what it may import", folder)
			continue
		}
		for _, path := range p.Imports {
			imported, ours := strings.CutPrefix(path, module+"/")
			if !ours {
				continue
			}
			if to := entryOf(imported); !allowed(from, to) {
				t.Errorf("%s imports %s: %s may import only %q", folder, imported, from, mayImport[from])
			}
		}
	}
	if checked < 2 {
		t.Fatalf("only %d packages of ours were listed", checked)
	}
}

func allowed(from, to string) bool {
	if from == to {
		return true
	}
	if slices.Contains(testOnly, to) {
		return false
	}
	return slices.Contains(mayImport[from], to) || slices.Contains(mayImport[from], anything)
}

// entryOf returns the entry of mayImport a folder belongs to, "" when none.
func entryOf(folder string) string {
	for {
		if _, ok := mayImport[folder]; ok {
			return folder
		}
		slash := strings.LastIndexByte(folder, '/')
		if slash < 0 {
			return ""
		}
		folder = folder[:slash]
	}
}

// The table itself must not allow a circle, else "the right way" means nothing.
func TestTableHasNoCircle(t *testing.T) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(entry string)
	visit = func(entry string) {
		state[entry] = visiting
		for _, next := range mayImport[entry] {
			if _, known := mayImport[next]; !known && next != anything {
				t.Errorf("%s: unknown entry %q", entry, next)
			}
			switch state[next] {
			case visiting:
				t.Errorf("circle through %s and %s", entry, next)
			case 0:
				visit(next)
			}
		}
		state[entry] = done
	}
	for entry := range mayImport {
		if state[entry] == 0 {
			visit(entry)
		}
	}
}

// listPackages returns all packages of the module and what they depend on, for the
// building platform. Packages that do not build are listed, too.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Imports", "./...")
	cmd.Dir = moduleRoot(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []goPackage
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
