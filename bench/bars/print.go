package bars

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// printer writes aligned columns; Flush reports errors.
type printer struct{ *tabwriter.Writer }

func (p printer) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// WriteSummary prints the report for people: figures first, then every bar.
func (r *Report) WriteSummary(out io.Writer) error {
	p := printer{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if r.Throughput != nil {
		p.comparisons(r.Throughput.Comparisons)
	}
	if r.Failure != nil {
		p.failure(r.Failure)
	}
	if m := r.Mixed; m != nil {
		p.line("everything at once\t%.2f Gb/s, %d bytes verified, %d dropped, %d corrupted, %d duplicated, %d held\n\n",
			m.GoodputGbps, m.Bytes, m.Switch.Dropped, m.Switch.Corrupted, m.Switch.Duplicated, m.Switch.Held)
	}
	if r.Latency != nil {
		p.latency(r.Latency)
	}
	p.bars(r.Bars)
	for _, problem := range r.Problems {
		p.line("not measured: %s\n", problem)
	}
	return p.Flush()
}

// comparisons prints medians, with each contender's ratio to every one above it.
func (p printer) comparisons(results []Comparison) {
	p.line("medians\tGb/s\tCPU s/GB\tby timer")
	for i := range len(results) - 1 {
		p.line("\tx (%d)", i+1)
	}
	p.line("\n")
	for i, r := range results {
		p.line("(%d) %s\t%.2f\t%.3f\t%.1f %%", i+1, r.Name, r.Gbps, r.CPU, r.Timer*100)
		for _, ratio := range r.Ratios {
			p.line("\t%.2f", ratio)
		}
		p.line("\n")
		for round, s := range r.Samples {
			if s.Failure != "" {
				p.line("round %d: %s\n", round+1, s.Failure)
			}
		}
	}
	p.line("\n")
}

func (p printer) failure(f *Failure) {
	p.line("one plane lost, each limited to %.3f Gb/s\trecovery ms\tsteady from ms\tbefore Gb/s\tafter Gb/s\tratio\n", float64(f.PlaneRate)/1e9)
	for _, run := range f.Runs {
		ratio := 0.0
		if run.BeforeGbps > 0 {
			ratio = run.AfterGbps / run.BeforeGbps
		}
		p.line("%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%s\n", run.Mode, orNever(run.RecoveryMs), orNever(run.SteadyMs),
			run.BeforeGbps, run.AfterGbps, ratio, run.Failure)
	}
	p.line("\n")
}

func (p printer) latency(l *Latency) {
	p.line("round trip of 64 B, p50 of %d runs, us\tmin\tmedian\tmax\n", len(l.Runs))
	for _, row := range []struct {
		name   string
		spread Spread
	}{
		{"WRITE, spinning with yield", l.Spinning},
		{"WRITE, sleeping", l.Sleeping},
		{"kernel UDP, sleeping", l.UDP},
		{"spinning / UDP, within a run", l.ToUDP},
	} {
		p.line("%s\t%.2f\t%.2f\t%.2f\n", row.name, row.spread.Min, row.spread.Median, row.spread.Max)
	}
	p.line("spinning was lower in %d of %d runs\n\n", l.Lower, len(l.Runs))
}

func (p printer) bars(bars []Bar) {
	p.line("bar\t\tmeasured\tmust be\tverdict\n")
	for i := range bars {
		b := &bars[i]
		p.line("%s\t%s\t%s\t%s %s\t%s\n", b.Part, b.What, b.measured(), b.Relation, b.number(b.Limit), b.verdict())
	}
}

// orNever prints milliseconds that may not have come.
func orNever(ms *float64) string {
	if ms == nil {
		return "never"
	}
	return fmt.Sprintf("%.0f", *ms)
}
