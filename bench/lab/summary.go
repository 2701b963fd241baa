package lab

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteSummary prints a result for people.
func (r *Result) WriteSummary(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush reports
	line("goodput\t%.2f Gb/s, %d operations, %d bytes verified in %.0f ms\n", r.GoodputGbps, r.Operations, r.Bytes, r.DurationMs)
	line("wrong bytes, errors\t%d, %d\n", r.MismatchedBytes, r.Errors)
	line("latency\tp50 %.0f us, p99 %.0f us, p99.9 %.0f us, max %.0f us\n",
		r.LatencyUs.P50, r.LatencyUs.P99, r.LatencyUs.P999, r.LatencyUs.Max)
	line("retransmissions\t%d, by timer %d; duplicates received %d\n", r.Retransmissions, r.RetransmissionsTimer, r.Duplicates)
	line("switch\tforwarded %d, dropped %d, marked %d, corrupted %d, duplicated %d, held %d\n", r.Switch.Forwarded,
		r.Switch.Dropped, r.Switch.Marked, r.Switch.Corrupted, r.Switch.Duplicated, r.Switch.Held)
	if r.RateDropped+r.RateMarked+r.Overflowed > 0 {
		line("switch, beyond that\tdropped %d by rate or failed plane, marked %d by rate, %d found a ring full\n",
			r.RateDropped, r.RateMarked, r.Overflowed)
	}
	line("CPU\tdaemon a %.2f s, daemon b %.2f s", r.CPUSeconds.DaemonA, r.CPUSeconds.DaemonB)
	if gigabytes := float64(r.Bytes) / 1e9; gigabytes > 0 {
		line(", together %.3f s per GB", (r.CPUSeconds.DaemonA+r.CPUSeconds.DaemonB)/gigabytes)
	}
	line("\nset-up\t%.0f ms to the first completed WRITE\n", r.SetupMs)
	line("frames leaked\t%d\n", r.FramesLeaked)
	if r.RecoveryMs != nil {
		line("recovery\t%.0f ms after the fault\n", *r.RecoveryMs)
	}
	if r.IdleCPUFraction != nil {
		line("idle\t%.2f %% of a core\n", *r.IdleCPUFraction*100)
	}
	for _, p := range r.Planes {
		line("plane %s\t%s, %s, sent %d bytes, received %d bytes\n", p.Name, p.State, p.Mode, p.TxBytes, p.RxBytes)
	}
	line("seed\t%d\n", r.Seed)
	return w.Flush()
}
