package perf

import (
	"fmt"
	"io"
)

// Header prints the column titles of a table of rows.
func Header(w io.Writer) {
	fmt.Fprintf(w, "%10s %12s %10s %10s %10s %10s %10s\n",
		"size", "iterations", "Gb/s", "Mops/s", "p50 us", "p99 us", "max us")
}

// Print prints the row under Header's titles.
func (r Row) Print(w io.Writer) {
	fmt.Fprintf(w, "%10d %12d %10.3f %10.4f %10.1f %10.1f %10.1f\n",
		r.Size, r.Iterations, r.Gbps, r.Mops, r.LatencyUs.P50, r.LatencyUs.P99, r.LatencyUs.Max)
}

// Report is what --json prints.
type Report struct {
	Test    string `json:"test"` // bandwidth or latency
	Depth   int    `json:"depth"`
	Results []Row  `json:"results"`
}

// Sweep returns the sizes of a sweep from one size to another, doubling.
func Sweep(from, to int64) []int64 {
	var sizes []int64
	for size := from; size <= to; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}
