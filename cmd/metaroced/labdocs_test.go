package main

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metaroced/metaroced/bench/bars"
	"github.com/metaroced/metaroced/bench/lab"
	"github.com/metaroced/metaroced/cmd/metaroced/perf"
)

// rows returns the cells of the table below a heading of docs/LAB.md.
func rows(t *testing.T, heading string) (table [][]string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, filepath.Join(root, "docs/LAB.md")), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			table = append(table, cells[1:])
		}
	}
	if !found || len(table) == 0 {
		t.Fatalf("docs/LAB.md has no table below %q", heading)
	}
	return table
}

// names finds what stands between backquotes.
var names = regexp.MustCompile("`([^`]+)`")

// docs/LAB.md has every flag with its default, and no other.
func TestDocumentedFlags(t *testing.T) {
	for heading, commands := range map[string][]*cobra.Command{
		"### Flags":          {newLab()},
		"### Flags of bench": {newBench()},
		"### Flags of perf":  {newPerfClient(), newPerfServer()},
	} {
		documented := map[string]bool{}
		for _, cells := range rows(t, heading) {
			flags := names.FindAllStringSubmatch(cells[0], -1)
			for _, m := range flags {
				name := strings.TrimPrefix(m[1], "--")
				f := commands[0].Flags().Lookup(name)
				if f == nil {
					t.Errorf("docs/LAB.md, %s: there is no %s", heading, m[1])
				} else if !slices.Contains([]string{f.DefValue, strings.Trim(f.DefValue, "[]")}, cells[1]) && len(flags) == 1 && f.DefValue != "false" {
					t.Errorf("docs/LAB.md, %s: the default of %s is %q, not %q", heading, m[1], f.DefValue, cells[1])
				}
				documented[name] = true
			}
		}
		for _, c := range commands {
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if !documented[f.Name] && f.Name != "help" {
					t.Errorf("docs/LAB.md, %s: --%s is missing", heading, f.Name)
				}
			})
		}
	}
}

// docs/LAB.md has every field that --json prints with its type, and no other.
func TestDocumentedFields(t *testing.T) {
	for heading, of := range map[string]reflect.Type{
		"### The JSON object":          reflect.TypeFor[lab.Result](),
		"### The JSON object of --lat": reflect.TypeFor[lab.LatencyResult](),
		"### The bars in JSON":         reflect.TypeFor[bars.Bar](),
		"### The JSON object of perf":  reflect.TypeFor[perf.Report](),
	} {
		fields := map[string]string{}
		collect(of, "", fields)
		for _, cells := range rows(t, heading) {
			for _, m := range names.FindAllStringSubmatch(cells[0], -1) {
				if fields[m[1]] != cells[1] {
					t.Errorf("docs/LAB.md, %s: %s is of type %q, documented as %q", heading, m[1], fields[m[1]], cells[1])
				}
				delete(fields, m[1])
			}
		}
		for name := range fields {
			t.Errorf("docs/LAB.md, %s: %s is missing", heading, name)
		}
	}
}

// collect gathers the fields of a type as people write them, with their types.
func collect(t reflect.Type, name string, fields map[string]string) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			field, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			collect(t.Field(i).Type, strings.TrimPrefix(name+"."+field, "."), fields)
		}
	case reflect.Slice:
		collect(t.Elem(), name+"[]", fields)
	case reflect.Pointer:
		collect(t.Elem(), name, fields)
		fields[name] += " or null"
	case reflect.Float64:
		fields[name] = "number"
	case reflect.String:
		fields[name] = "text"
	case reflect.Bool:
		fields[name] = "true or false"
	default:
		fields[name] = "integer"
	}
}
