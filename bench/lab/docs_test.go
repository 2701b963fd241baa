package lab

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// docs/LAB.md names every field of the result, and no other.
func TestResultIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/LAB.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## The JSON object")
	section, _, _ = strings.Cut(section, "\n## ")
	fields := map[string]bool{}
	collect(reflect.TypeFor[Result](), fields)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(section, -1) {
		documented[m[1]] = true
		if !fields[m[1]] {
			t.Errorf("docs/LAB.md documents %q, which the result does not have", m[1])
		}
	}
	for name := range fields {
		if !documented[name] {
			t.Errorf("docs/LAB.md does not document %q", name)
		}
	}
}

// collect gathers the JSON names of a type and of the types in it.
func collect(t reflect.Type, names map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		collect(t.Elem(), names)
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			names[name] = true
			collect(t.Field(i).Type, names)
		}
	}
}
