package bars

import (
	"context"
	"fmt"

	"github.com/metaroced/metaroced/bench/lab"
)

// Contender is something whose throughput is compared with that of others.
type Contender struct {
	Name string
	Run  func(ctx context.Context) (Sample, error)
}

// Sample is one measurement of a contender. What raw packets do not have is 0.
type Sample struct {
	Gbps       float64 `json:"gbps"`
	CPUPerGB   float64 `json:"cpu_seconds_per_gb"` // both hosts
	TimerShare float64 `json:"timer_share"`        // of retransmissions, those a timer caused
	WireGbps   float64 `json:"wire_gbps"`          // what host-a put on the wire for that goodput
	SetupMs    float64 `json:"setup_ms"`
	Failure    string  `json:"failure"` // why the run is not a success, "" when it is
}

// Comparison is what several rounds gave for one contender.
type Comparison struct {
	Name    string    `json:"name"`
	Samples []Sample  `json:"samples"` // one per round
	Gbps    float64   `json:"gbps"`    // medians
	CPU     float64   `json:"cpu_seconds_per_gb"`
	Timer   float64   `json:"timer_share"`
	Ratios  []float64 `json:"ratios"` // goodput: medians of the rounds' ratios to the contenders before it
}

// Values of samples.
func gbps(s Sample) float64       { return s.Gbps }
func cpuPerGB(s Sample) float64   { return s.CPUPerGB }
func timerShare(s Sample) float64 { return s.TimerShare }
func wireGbps(s Sample) float64   { return s.WireGbps }

// Compare measures all contenders in turn, several rounds, so that what else the
// machine does meets all of them. Ratios are taken within a round, then their
// median.
func Compare(ctx context.Context, rounds int, contenders []Contender, progress func(format string, args ...any)) ([]Comparison, error) {
	results := make([]Comparison, len(contenders))
	for round := range rounds {
		for i, c := range contenders {
			sample, err := c.Run(ctx)
			if err == nil && sample.Gbps <= 0 {
				err = fmt.Errorf("nothing was moved: %s", sample.Failure)
			}
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", c.Name, round+1, err)
			}
			progress("round %d: %s: %.2f Gb/s", round+1, c.Name, sample.Gbps)
			results[i].Name = c.Name
			results[i].Samples = append(results[i].Samples, sample)
		}
	}
	for i := range results {
		results[i].summarize(results[:i])
	}
	return results, nil
}

func (c *Comparison) summarize(before []Comparison) {
	c.Gbps, c.CPU, c.Timer = c.median(gbps), c.median(cpuPerGB), c.median(timerShare)
	c.Ratios = make([]float64, len(before))
	for i := range before {
		c.Ratios[i] = c.ratio(&before[i], gbps)
	}
}

func (c *Comparison) median(value func(Sample) float64) float64 {
	values := make([]float64, len(c.Samples))
	for i, s := range c.Samples {
		values[i] = value(s)
	}
	return lab.Median(values)
}

// ratio returns the median of the rounds' ratios to another contender.
func (c *Comparison) ratio(base *Comparison, value func(Sample) float64) float64 {
	ratios := make([]float64, len(c.Samples))
	for round, s := range c.Samples {
		ratios[round] = value(s) / value(base.Samples[round])
	}
	return lab.Median(ratios)
}
