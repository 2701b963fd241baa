package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/cmd/metaroced/config"
)

// root is the top of the source tree.
const root = "../.."

// documents returns the text of README.md and docs/*.md by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no documents", err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		texts[path] = read(t, path)
	}
	return texts
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fenced returns a text's blocks of code in a language.
func fenced(text, language string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// words finds those of a command line; a quoted text belongs to its word.
var words = regexp.MustCompile(`[^\s"]*"[^"]*"|\S+`)

// Every metaroced and make command in the documents would be understood.
func TestDocumentedCommands(t *testing.T) {
	checked := 0
	for path, text := range documents(t) {
		for _, block := range fenced(text, "sh") {
			for line := range strings.Lines(block) {
				line, _, _ = strings.Cut(line, " #")
				args := words.FindAllString(line, -1)
				if len(args) > 0 && args[0] == "sudo" {
					args = args[1:]
				}
				if len(args) == 0 {
					continue
				}
				switch args[0] {
				case "make":
					checkMake(t, path, args[1:])
				case "metaroced", "bin/metaroced":
					checkCommand(t, path, args[1:])
				default:
					continue
				}
				checked++
			}
		}
	}
	if checked < 10 {
		t.Errorf("found only %d commands: the test looks in the wrong place", checked)
	}
}

func checkMake(t *testing.T, path string, args []string) {
	t.Helper()
	makefile := read(t, filepath.Join(root, "Makefile"))
	for _, arg := range args {
		name, value, isVariable := strings.Cut(arg, "=")
		pattern := `(?m)^` + regexp.QuoteMeta(arg) + `:`
		if isVariable {
			pattern = `(?m)^` + regexp.QuoteMeta(name) + ` \?=`
		}
		if !regexp.MustCompile(pattern).MatchString(makefile) {
			t.Errorf("%s: make %s: the Makefile has no %s", path, strings.Join(args, " "), arg)
		}
		if name == "LAB" || name == "BENCH" {
			checkCommand(t, path, append([]string{strings.ToLower(name)}, strings.Fields(strings.Trim(value, `"`))...))
		}
	}
}

// checkCommand does all of a command but run it.
func checkCommand(t *testing.T, path string, args []string) {
	t.Helper()
	command, rest, err := newRoot().Find(args)
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err == nil {
		err = command.ValidateArgs(command.Flags().Args())
	}
	if err == nil && command.Name() == "lab" {
		flags, parser := &labFlags{}, &cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}
		flags.register(parser)
		flags.registerFaults(parser)
		if err = parser.ParseFlags(rest); err == nil {
			_, err = flags.parse()
		}
	}
	if err != nil {
		t.Errorf("%s: metaroced %s: %v", path, strings.Join(args, " "), err)
	}
}

// Configurations in the documents load, and code in them is part of the tested
// examples.
func TestDocumentedCode(t *testing.T) {
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	examples := squeeze(read(t, filepath.Join(root, "client/example_test.go")))
	for path, text := range documents(t) {
		for _, block := range fenced(text, "toml") {
			file := filepath.Join(t.TempDir(), "documented.toml")
			if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(file); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		for _, block := range fenced(text, "go") {
			if !strings.Contains(examples, squeeze(block)) {
				t.Errorf("%s: this is not in client/example_test.go:\n%s", path, block)
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#]+)`)
	mention = regexp.MustCompile("[a-z.][A-Za-z0-9_.-]*/[A-Za-z0-9_./-]*[A-Za-z0-9]")
)

// Links lead to files, and files and folders of the source tree that the
// documents name are there.
func TestDocumentedPaths(t *testing.T) {
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil && !strings.Contains(m[1], "://") {
				t.Errorf("%s: link to %s: %v", path, m[1], err)
			}
		}
		for _, name := range mention.FindAllString(text, -1) {
			top, _, _ := strings.Cut(name, "/")
			if info, err := os.Stat(filepath.Join(root, top)); err != nil || !info.IsDir() || top == "bin" || top == ".." {
				continue // not of the source tree
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s: %v", path, name, err)
			}
		}
	}
}
