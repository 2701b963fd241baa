package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What the documentation tells people to type must exist: make targets, and
// subcommands and flags of metaroced. Read are blocks fenced as ```sh.
func TestDocumentedCommandsExist(t *testing.T) {
	root := moduleRoot(t)
	targets := makeTargets(t, root)
	literals := commandLiterals(t, root)
	checked := 0
	for _, path := range files(t, root, func(p string) bool { return strings.HasSuffix(p, ".md") }) {
		for _, words := range shellCommands(t, filepath.Join(root, path)) {
			switch words[0] {
			case "make":
				checked++
				checkMake(t, path, words[1:], targets)
			case "metaroced", "bin/metaroced", "./bin/metaroced":
				checked++
				checkMetaroced(t, path, words[1:], literals)
			}
		}
	}
	if checked == 0 {
		t.Fatal("found no command in the documentation: the test looks in the wrong place")
	}
}

var fileMention = regexp.MustCompile(`\b(?:docs|deploy|bench|dataplane|bpf|\.ci)/[\w./-]*\.(?:md|toml|service|go|c|txt)\b`)

// Files that the documentation mentions exist.
func TestDocumentedFilesExist(t *testing.T) {
	root := moduleRoot(t)
	for _, path := range files(t, root, func(p string) bool { return strings.HasSuffix(p, ".md") }) {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, mention := range fileMention.FindAllString(string(content), -1) {
			if _, err := os.Stat(filepath.Join(root, mention)); err != nil {
				t.Errorf("%s mentions %s: %v", path, mention, err)
			}
		}
	}
}

func checkMake(t *testing.T, path string, words []string, targets map[string]bool) {
	t.Helper()
	for _, word := range words {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue // an option or a variable
		}
		if !targets[word] {
			t.Errorf("%s: `make %s`: no such target", path, word)
		}
	}
}

// checkMetaroced compares words with the string literals of the command's sources,
// which is where its library takes subcommands and flags from.
func checkMetaroced(t *testing.T, path string, words []string, literals map[string]bool) {
	t.Helper()
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") && !literals[words[0]] {
		t.Errorf("%s: `metaroced %s`: no such subcommand", path, words[0])
	}
	for _, word := range words {
		flag, isFlag := strings.CutPrefix(word, "--")
		flag, _, _ = strings.Cut(flag, "=")
		if isFlag && flag != "" && flag != "help" && !literals[flag] {
			t.Errorf("%s: `metaroced %s`: no flag --%s", path, strings.Join(words, " "), flag)
		}
	}
}

var targetLine = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

func makeTargets(t *testing.T, root string) map[string]bool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, match := range targetLine.FindAllStringSubmatch(string(content), -1) {
		targets[match[1]] = true
	}
	return targets
}

// commandLiterals returns every string literal below cmd/, and of those with
// several words ("client ADDRESS") the first.
func commandLiterals(t *testing.T, root string) map[string]bool {
	t.Helper()
	literals := map[string]bool{}
	for _, path := range files(t, root, func(p string) bool { return isGoCode(p) && strings.HasPrefix(p, "cmd/") }) {
		ast.Inspect(parse(t, root, path).file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					first, _, _ := strings.Cut(text, " ")
					literals[text], literals[first] = true, true
				}
			}
			return true
		})
	}
	return literals
}

// shellCommands returns the commands of a document's ```sh blocks, split at
// spaces, without prompt, sudo and variable assignments in front.
func shellCommands(t *testing.T, path string) [][]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var commands [][]string
	inside := false
	for _, line := range strings.Split(strings.ReplaceAll(string(content), "\\\n", " "), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			inside = !inside && trimmed == "```sh"
		case inside && trimmed != "" && !strings.HasPrefix(trimmed, "#"):
			line, _, _ = strings.Cut(trimmed, " #")
			if words := bareCommand(strings.Fields(line)); len(words) > 0 {
				commands = append(commands, words)
			}
		}
	}
	return commands
}

func bareCommand(words []string) []string {
	for len(words) > 0 && (words[0] == "$" || words[0] == "sudo" || strings.Contains(words[0], "=")) {
		words = words[1:]
	}
	return words
}
