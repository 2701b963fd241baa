package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// docs/LAB.md has every flag of metaroced lab in its table, and no other.
func TestLabFlagsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/LAB.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Flags")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
				documented[m[1]] = true
			}
		}
	}
	flags := newLab().Flags()
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && !documented[f.Name] {
			t.Errorf("docs/LAB.md does not document --%s", f.Name)
		}
		delete(documented, f.Name)
	})
	for name := range documented {
		t.Errorf("docs/LAB.md documents --%s, which metaroced lab does not have", name)
	}
}
