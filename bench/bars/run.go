package bars

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/metaroced/metaroced/bench/lab"
)

// Part is one group of bars that can be measured alone.
type Part string

// Parts, in the order in which they are measured.
const (
	PartThroughput Part = "throughput"
	PartFailure    Part = "failure"
	PartMixed      Part = "mixed"
	PartIdle       Part = "idle"
	PartLatency    Part = "latency"
)

// AllParts returns every part, in order.
func AllParts() []Part {
	return []Part{PartThroughput, PartFailure, PartMixed, PartIdle, PartLatency}
}

// MaxRounds bounds Options.Rounds.
const MaxRounds = 1000

// Options says what is measured.
type Options struct {
	Lab        lab.Options // of a lab without faults
	RawCommand []string    // starts a side of a raw measurement, see raw.Config
	Parts      []Part
	Rounds     int       // measurements of each contender, failures of each kind, measurements of latency
	Losses     []float64 // of the throughput part

	Progress func(format string, args ...any) // hears of every measurement
}

// Validate checks what a caller may have got from a person. Errors name the flag.
func (o *Options) Validate() error {
	if o.Rounds < 1 || o.Rounds > MaxRounds {
		return fmt.Errorf("--rounds %d is outside 1 to %d", o.Rounds, MaxRounds)
	}
	if len(o.Parts) == 0 {
		return fmt.Errorf("--only names no part; there are %s", strings.Join(PartNames(), ", "))
	}
	for _, p := range o.Parts {
		if !slices.Contains(AllParts(), p) {
			return fmt.Errorf("--only %q is not one of %s", p, strings.Join(PartNames(), ", "))
		}
	}
	if o.measures(PartFailure) && o.Lab.Planes < 2 {
		return fmt.Errorf("--planes %d: losing a plane needs at least two (leave failure out with --only)", o.Lab.Planes)
	}
	return nil
}

func (o *Options) measures(p Part) bool { return slices.Contains(o.Parts, p) }

// PartNames returns the names of every part, in order.
func PartNames() []string {
	var names []string
	for _, p := range AllParts() {
		names = append(names, string(p))
	}
	return names
}

// Report is what Run measured; parts that were not asked for are nil.
type Report struct {
	Throughput *Throughput `json:"throughput"`
	Failure    *Failure    `json:"failure"`
	Mixed      *Mixed      `json:"mixed"`
	Idle       *Idle       `json:"idle"`
	Latency    *Latency    `json:"latency"`

	Bars     []Bar    `json:"bars"`
	Passed   bool     `json:"passed"`   // every bar, and nothing kept a part from being measured
	Problems []string `json:"problems"` // what did
}

// Run measures the parts that are asked for. A part that cannot be measured is a
// problem in the report and does not keep others from being measured; the error
// is that of ctx only.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Bars: []Bar{}, Problems: []string{}}
	measure := map[Part]func(context.Context, *Options) ([]Bar, error){
		PartThroughput: r.measureThroughput, PartFailure: r.measureFailure, PartMixed: r.measureMixed,
		PartIdle: r.measureIdle, PartLatency: r.measureLatency,
	}
	for _, p := range AllParts() {
		if !o.measures(p) {
			continue
		}
		bars, err := measure[p](ctx, &o)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", p, err))
			continue
		}
		for _, b := range bars {
			b.Part = p
			r.Bars = append(r.Bars, b)
		}
	}
	r.Passed = len(r.Problems) == 0 && !slices.ContainsFunc(r.Bars, func(b Bar) bool { return !b.Pass })
	return r, nil
}
