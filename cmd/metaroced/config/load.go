package config

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/pelletier/go-toml/v2"

	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/dataplane"
)

// DefaultFile is the configuration of the daemon as a service.
const DefaultFile = "/etc/metaroced/metaroced.toml"

// Config is a validated configuration.
type Config struct {
	LogLevel  slog.Level
	Control   ctrl.Config
	Dataplane dataplane.Config
}

// Load reads and validates the file at path.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return parse(path, data)
}

// parse validates data; name is how errors call the file.
func parse(name string, data []byte) (*Config, error) {
	f := defaults()
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&f)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		return nil, unknownKeys(name, unknown)
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		if key := strings.Join(wrong.Key(), "."); key != "" {
			return nil, fmt.Errorf("%s:%d: %s: %s", name, line, key, strings.TrimPrefix(wrong.Error(), "toml: "))
		}
		return nil, fmt.Errorf("%s:%d: %s", name, line, strings.TrimPrefix(wrong.Error(), "toml: "))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return validate(&f, newReport(name, data))
}

// unknownKeys makes one error of all keys the file has and we do not.
func unknownKeys(name string, unknown *toml.StrictMissingError) error {
	var all []error
	for i := range unknown.Errors {
		line, _ := unknown.Errors[i].Position()
		all = append(all, fmt.Errorf("%s:%d: %s", name, line, describeUnknown(unknown.Errors[i].Key())))
	}
	return errors.Join(all...)
}

// describeUnknown says which part of a key is unknown and what is nearest to it.
func describeUnknown(key []string) string {
	table := reflect.TypeFor[file]()
	for depth, part := range key {
		known := keysOf(table)
		if next, found := known[part]; found {
			if next.Kind() == reflect.Slice {
				next = next.Elem()
			}
			table = next
			continue
		}
		where := "the file"
		if depth > 0 {
			where = "[" + strings.Join(key[:depth], ".") + "]"
		}
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		unknown := fmt.Sprintf("unknown key %q", strings.Join(key[:depth+1], "."))
		if near := nearest(part, names); near != "" {
			return fmt.Sprintf("%s; did you mean %q?", unknown, near)
		}
		return fmt.Sprintf("%s; %s has: %s", unknown, where, strings.Join(names, ", "))
	}
	return fmt.Sprintf("%q is not a table", strings.Join(key, "."))
}

// keysOf returns the TOML names of a table's keys with their types, none when the
// type is not a table.
func keysOf(table reflect.Type) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	if table.Kind() != reflect.Struct {
		return keys
	}
	for i := range table.NumField() {
		keys[table.Field(i).Tag.Get("toml")] = table.Field(i).Type
	}
	return keys
}

// nearest returns the name most like part, "" when none is alike enough to be
// what was meant: at most a third of the letters, and always two, may differ.
func nearest(part string, names []string) string {
	best, bestDistance := "", max(len(part)/3, 2)+1
	for _, name := range names {
		if d := levenshtein.Distance(strings.ToLower(part), name, nil); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}
