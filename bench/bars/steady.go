package bars

import (
	"context"
	"errors"
	"time"

	"github.com/metaroced/metaroced/bench/lab"
)

// Mixed is a lab with everything at once that the switch can do to packets.
type Mixed struct {
	GoodputGbps     float64    `json:"goodput_gbps"`
	Operations      uint64     `json:"operations"`
	Bytes           uint64     `json:"bytes"`
	MismatchedBytes uint64     `json:"mismatched_bytes"`
	Errors          uint64     `json:"errors"`
	FramesLeaked    uint64     `json:"frames_leaked"`
	Switch          lab.Switch `json:"switch"`
	Failure         string     `json:"failure"` // why the run is not a success, "" when it is
}

const mixedDuration = 10 * time.Second

func (r *Report) measureMixed(ctx context.Context, o *Options) ([]Bar, error) {
	options := o.Lab
	options.Duration = mixedDuration
	options.Corrupt, options.Duplicate, options.Reorder, options.Loss = 0.01, 0.01, 0.05, 0.01
	result, err := lab.Run(ctx, options)
	if err != nil {
		return nil, err
	}
	o.Progress("everything at once: %.2f Gb/s", result.GoodputGbps)
	r.Mixed = &Mixed{
		GoodputGbps: result.GoodputGbps, Operations: result.Operations, Bytes: result.Bytes,
		MismatchedBytes: result.MismatchedBytes, Errors: result.Errors, FramesLeaked: result.FramesLeaked,
		Switch: result.Switch, Failure: result.Failure(),
	}
	return r.Mixed.bars()
}

// bars returns an error when the run does not count for another reason than a
// bar that is missed.
func (m *Mixed) bars() ([]Bar, error) {
	bars := []Bar{
		atMost("wrong bytes", "", float64(m.MismatchedBytes), 0),
		atMost("errors", "", float64(m.Errors), 0),
		atMost("leaked frames", "", float64(m.FramesLeaked), 0),
	}
	if m.Failure != "" && m.MismatchedBytes+m.Errors+m.FramesLeaked == 0 {
		return nil, errors.New(m.Failure)
	}
	return bars, nil
}

// Idle is what a daemon costs that is connected and has nothing to do.
type Idle struct {
	CPUFraction float64 `json:"cpu_fraction"` // of one core, the busier daemon
	Paths       int     `json:"paths"`        // connected
}

const (
	busyDuration = time.Second // before it gets idle
	idleDuration = 10 * time.Second
	idleLimit    = 1 // percent of a core
)

func (r *Report) measureIdle(ctx context.Context, o *Options) ([]Bar, error) {
	options := o.Lab
	options.Duration, options.Idle = busyDuration, idleDuration
	result, err := lab.Run(ctx, options)
	if err != nil {
		return nil, err
	}
	if failure := result.Failure(); failure != "" {
		return nil, errors.New(failure)
	}
	r.Idle = &Idle{CPUFraction: *result.IdleCPUFraction, Paths: len(result.Paths)}
	o.Progress("idle: %.2f %% of a core", 100*r.Idle.CPUFraction)
	return []Bar{below("idle daemon, share of a core", "%", 100*r.Idle.CPUFraction, idleLimit)}, nil
}
