package bars

import (
	"context"
	"fmt"

	"github.com/metaroced/metaroced/bench/lab"
	"github.com/metaroced/metaroced/bench/lab/histogram"
)

// Latency is the round trip of a small WRITE beside that of the kernel's UDP.
//
// The kernel's UDP has two speeds on a virtual machine: a few microseconds while
// the CPU's halt polling keeps the core awake, several times that when it sleeps.
// Which one a run meets is chance, so the report shows minimum, median and
// maximum, and compares within runs.
type Latency struct {
	Runs     []lab.LatencyResult `json:"runs"`
	Spinning Spread              `json:"write_spinning_p50_us"` // of the runs' p50
	Sleeping Spread              `json:"write_sleeping_p50_us"`
	UDP      Spread              `json:"udp_sleeping_p50_us"`
	ToUDP    Spread              `json:"spinning_to_udp"` // ratios of p50 within runs
	Lower    int                 `json:"spinning_lower"`  // runs in which spinning was lower
}

// Spread is how a value differed between runs.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

func (r *Report) measureLatency(ctx context.Context, o *Options) ([]Bar, error) {
	var runs []lab.LatencyResult
	for round := range o.Rounds {
		result, err := lab.RunLatency(ctx, o.Lab)
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", round+1, err)
		}
		o.Progress("run %d: round trip: spinning %.1f us, sleeping %.1f us, UDP %.1f us",
			round+1, result.Spinning.P50, result.Sleeping.P50, result.UDP.P50)
		runs = append(runs, *result)
	}
	r.Latency = newLatency(runs)
	return r.Latency.bars(), nil
}

func newLatency(runs []lab.LatencyResult) *Latency {
	l := &Latency{Runs: runs}
	p50 := func(of func(*lab.LatencyResult) histogram.Micros) []float64 {
		values := make([]float64, len(runs))
		for i := range runs {
			values[i] = of(&runs[i]).P50
		}
		return values
	}
	spinning := p50(func(r *lab.LatencyResult) histogram.Micros { return r.Spinning })
	udp := p50(func(r *lab.LatencyResult) histogram.Micros { return r.UDP })
	ratios := make([]float64, len(runs))
	for i := range runs {
		ratios[i] = spinning[i] / udp[i]
		if spinning[i] < udp[i] {
			l.Lower++
		}
	}
	l.Spinning, l.UDP, l.ToUDP = spreadOf(spinning), spreadOf(udp), spreadOf(ratios)
	l.Sleeping = spreadOf(p50(func(r *lab.LatencyResult) histogram.Micros { return r.Sleeping }))
	return l
}

// spreadOf returns the spread of at least one value.
func spreadOf(values []float64) Spread {
	s := Spread{Min: values[0], Median: lab.Median(values), Max: values[0]}
	for _, v := range values {
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	return s
}

func (l *Latency) bars() []Bar {
	return []Bar{below("p50 of WRITE, spinning / kernel UDP, sleeping", "", l.ToUDP.Median, 1)}
}
