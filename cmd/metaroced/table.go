package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/metaroced/metaroced/dataplane"
)

// table collects lines whose tab-separated columns are aligned when it is written.
type table struct {
	text   bytes.Buffer
	aligns *tabwriter.Writer
}

func newTable() *table {
	t := &table{}
	t.aligns = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	return t
}

// line adds text; an empty line ends a group of aligned columns. Writing to
// memory cannot fail.
func (t *table) line(format string, args ...any) { _, _ = fmt.Fprintf(t.aligns, format, args...) }

// counters adds those that are not zero, by name.
func (t *table) counters(all map[string]uint64) {
	title := "\ncounter\tvalue\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] > 0 {
			t.line("%s%s\t%d\n", title, name, all[name])
			title = ""
		}
	}
}

func (t *table) writeTo(w io.Writer) error {
	if err := t.aligns.Flush(); err != nil {
		return err
	}
	_, err := w.Write(t.text.Bytes())
	return err
}

// pathStates counts paths by state: "60 active 4 down".
func pathStates(paths []dataplane.PathStatus) string {
	count := map[string]int{}
	for _, p := range paths {
		count[p.State]++
	}
	texts := make([]string, 0, len(count))
	for _, state := range slices.Sorted(maps.Keys(count)) {
		texts = append(texts, fmt.Sprintf("%d %s", count[state], state))
	}
	return strings.Join(texts, " ")
}
