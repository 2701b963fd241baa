package lab

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
)

// Contender is something whose throughput is compared with that of others.
type Contender struct {
	Name string
	Run  func(ctx context.Context) (Sample, error)
}

// Sample is one measurement of a contender.
type Sample struct {
	Gbps       float64 `json:"gbps"`
	CPUPerGB   float64 `json:"cpu_seconds_per_gb"` // both hosts; 0: not measured
	TimerShare float64 `json:"timer_share"`        // of retransmissions, those a timer caused
}

// Comparison is what several rounds gave for one contender.
type Comparison struct {
	Name    string    `json:"name"`
	Samples []Sample  `json:"samples"` // one per round
	Gbps    float64   `json:"gbps"`    // medians
	CPU     float64   `json:"cpu_seconds_per_gb"`
	Timer   float64   `json:"timer_share"`
	Ratios  []float64 `json:"ratios"` // medians of the rounds' ratios to the contenders before it
}

// Compare measures all contenders in turn, several rounds, so that what else the
// machine does meets all of them. Ratios are taken within a round, then their
// median. progress, which may be nil, hears of every sample.
func Compare(ctx context.Context, rounds int, contenders []Contender, progress func(name string, round int, s Sample)) ([]Comparison, error) {
	results := make([]Comparison, len(contenders))
	for round := range rounds {
		for i, c := range contenders {
			sample, err := c.Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", c.Name, round+1, err)
			}
			if progress != nil {
				progress(c.Name, round+1, sample)
			}
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
	c.Gbps = c.median(func(s Sample) float64 { return s.Gbps })
	c.CPU = c.median(func(s Sample) float64 { return s.CPUPerGB })
	c.Timer = c.median(func(s Sample) float64 { return s.TimerShare })
	for _, other := range before {
		ratios := make([]float64, len(c.Samples))
		for round, s := range c.Samples {
			if base := other.Samples[round].Gbps; base > 0 {
				ratios[round] = s.Gbps / base
			}
		}
		c.Ratios = append(c.Ratios, Median(ratios))
	}
}

func (c *Comparison) median(value func(Sample) float64) float64 {
	values := make([]float64, len(c.Samples))
	for i, s := range c.Samples {
		values[i] = value(s)
	}
	return Median(values)
}

// WriteComparisons prints a table of medians, with each one's ratio to every one
// above it.
func WriteComparisons(out io.Writer, results []Comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush reports
	line("medians\tGb/s\tCPU s/GB\tby timer")
	for i := range len(results) - 1 {
		line("\tx (%d)", i+1)
	}
	line("\n")
	for i, r := range results {
		line("(%d) %s\t%.2f\t%.3f\t%.1f %%", i+1, r.Name, r.Gbps, r.CPU, r.Timer*100)
		for _, ratio := range r.Ratios {
			line("\t%.2f", ratio)
		}
		line("\n")
	}
	return w.Flush()
}

// LabContender is a lab whose result must be a success.
func LabContender(name string, o Options) Contender {
	return Contender{Name: name, Run: func(ctx context.Context) (Sample, error) {
		r, err := Run(ctx, o)
		if err != nil {
			return Sample{}, err
		}
		if failure := r.Failure(); failure != "" {
			return Sample{}, fmt.Errorf("lab: %s", failure)
		}
		s := Sample{Gbps: r.GoodputGbps}
		if r.Bytes > 0 {
			s.CPUPerGB = (r.CPUSeconds.DaemonA + r.CPUSeconds.DaemonB) / (float64(r.Bytes) / 1e9)
		}
		if r.Retransmissions > 0 {
			s.TimerShare = float64(r.RetransmissionsTimer) / float64(r.Retransmissions)
		}
		return s, nil
	}}
}
