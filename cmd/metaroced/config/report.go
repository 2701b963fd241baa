package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/metaroced/metaroced/cmd/metaroced/units"
)

// report collects what is wrong with a file and knows on which line a key is.
type report struct {
	name  string
	lines map[string]int // by key path; plane[1].queue for the second [[plane]]
	errs  []error
}

func newReport(name string, data []byte) *report {
	return &report{name: name, lines: keyLines(data)}
}

// keyLines finds the line of every key and table header in a file that has been
// decoded without error.
func keyLines(data []byte) map[string]int {
	lines := map[string]int{}
	seen := map[string]int{} // how many [[tables]] of a name there were
	table := ""
	parser := unstable.Parser{}
	parser.Reset(data)
	for parser.NextExpression() {
		expression := parser.Expression()
		var parts []string
		line := 0
		for it := expression.Key(); it.Next(); {
			node := it.Node()
			parts = append(parts, string(node.Data))
			line = parser.Shape(node.Raw).Start.Line
		}
		path := strings.ToLower(strings.Join(parts, ".")) // the decoder ignores case too
		switch expression.Kind {
		case unstable.Table:
			table = path + "."
		case unstable.ArrayTable:
			nth := seen[path]
			seen[path]++
			path = fmt.Sprintf("%s[%d]", path, nth)
			table = path + "."
		case unstable.KeyValue:
			path = table + path
		default:
			continue
		}
		lines[path] = line
	}
	return lines
}

// fault adds an error about a key. Keys the file does not have are reported
// without a line.
func (r *report) fault(key, format string, args ...any) {
	where := r.name
	if line, found := r.lines[key]; found {
		where = fmt.Sprintf("%s:%d", r.name, line)
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %s %s", where, key, fmt.Sprintf(format, args...)))
}

// err returns all faults as one error, nil when there are none.
func (r *report) err() error { return errors.Join(r.errs...) }

// integer checks that a value is within bounds, both included.
func (r *report) integer(key string, value, low, high int64) int64 {
	if value < low || value > high {
		r.fault(key, "= %d is outside %d to %d", value, low, high)
	}
	return value
}

// powerOfTwo checks that a value is a power of two within bounds.
func (r *report) powerOfTwo(key string, value, low, high int64) int64 {
	if value < low || value > high || value&(value-1) != 0 {
		r.fault(key, "= %d is not a power of two within %d to %d", value, low, high)
	}
	return value
}

// duration reads a time such as "30s" within bounds.
func (r *report) duration(key, text string, low, high time.Duration) time.Duration {
	value, err := time.ParseDuration(text)
	if err != nil || value < low || value > high {
		r.fault(key, "= %q is not a time within %v to %v, written like %q", text, low, high, "30s")
	}
	return value
}

// rate reads a rate in bits per second; an empty text is 0.
func (r *report) rate(key, text string) int64 {
	if text == "" {
		return 0
	}
	value, err := units.ParseBitRate(text)
	if err != nil {
		r.fault(key, "= %v", err)
	}
	return int64(value)
}

// size reads a size within bounds.
func (r *report) size(key, text string, low, high units.ByteSize) int64 {
	value, err := units.ParseByteSize(text)
	switch {
	case err != nil:
		r.fault(key, "= %v", err)
	case value < low || value > high:
		r.fault(key, "= %q is outside %s to %s", text, low.String(), high.String())
	}
	return int64(value)
}

// oneOf looks a text up among the choices.
func oneOf[T any](r *report, key, text string, choices []choice[T]) T {
	names := make([]string, len(choices))
	for i, c := range choices {
		if c.name == text {
			return c.value
		}
		names[i] = c.name
	}
	r.fault(key, "= %q is not one of %s", text, strings.Join(names, ", "))
	var none T
	return none
}

type choice[T any] struct {
	name  string
	value T
}
