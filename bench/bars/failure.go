package bars

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/metaroced/metaroced/bench/fabric"
	"github.com/metaroced/metaroced/bench/lab"
)

// How a plane is lost. All planes together carry planesShare of what the lab
// reaches without limits.
const (
	planesShare  = 0.6
	failDuration = 3 * time.Second
	failAt       = 1500 * time.Millisecond
	failPlane    = 1
)

// Goodput must be back graceMs after the fault. The timeline has steps of stepMs,
// so the first whole step after that begins less than a step later.
const (
	graceMs = 50
	stepMs  = 10
)

// Failure is what losing one plane cost, several times in each of the two ways.
type Failure struct {
	CleanWireGbps float64      `json:"clean_wire_gbps"` // what PlaneRate comes from
	PlaneRate     int64        `json:"plane_rate_bps"`
	Runs          []FailureRun `json:"runs"`
}

// FailureRun is one lab that lost a plane.
type FailureRun struct {
	Mode            lab.FailMode `json:"mode"`
	RecoveryMs      *float64     `json:"recovery_ms"`    // the lab's: five good steps in a row, from the fault on
	SteadyMs        *float64     `json:"steady_from_ms"` // the same, from 50 ms after the fault on
	BeforeGbps      float64      `json:"before_gbps"`    // median of the steps before the fault
	AfterGbps       float64      `json:"after_gbps"`     // median of those from 50 ms after the fault to the end of the job
	Errors          uint64       `json:"errors"`
	MismatchedBytes uint64       `json:"mismatched_bytes"`
	Failure         string       `json:"failure"` // why the run is not a success, "" when it is
}

func (r *Report) measureFailure(ctx context.Context, o *Options) ([]Bar, error) {
	wire, err := r.cleanWireGbps(ctx, o)
	if err != nil {
		return nil, err
	}
	f := &Failure{CleanWireGbps: wire, PlaneRate: planeRate(wire, o.Lab.Planes)}
	for round := range o.Rounds {
		for _, mode := range []lab.FailMode{lab.FailSilent, lab.FailLinkDown} {
			options := o.Lab
			options.PlaneRate, options.Duration, options.FailMode = f.PlaneRate, failDuration, mode
			options.FailPlanes = []lab.PlaneEvent{{Plane: failPlane, At: failAt}}
			result, err := lab.Run(ctx, options)
			if err != nil {
				return nil, fmt.Errorf("%s, run %d: %w", mode, round+1, err)
			}
			run := newFailureRun(mode, result)
			o.Progress("run %d: plane lost (%s): steady from %s ms", round+1, mode, orNever(run.SteadyMs))
			f.Runs = append(f.Runs, run)
		}
	}
	r.Failure = f
	return f.bars(), nil
}

// cleanWireGbps returns what a clean lab puts on the wire: the throughput part's
// median, or a measurement of its own.
func (r *Report) cleanWireGbps(ctx context.Context, o *Options) (float64, error) {
	if r.Throughput != nil {
		return r.Throughput.Comparisons[cleanPlace].median(wireGbps), nil
	}
	comparisons, err := Compare(ctx, 1, []Contender{labContender("lab", o.Lab)}, o.Progress)
	if err != nil {
		return 0, err
	}
	return comparisons[0].median(wireGbps), nil
}

// planeRate returns the rate of each plane in bits per second.
func planeRate(wireGbps float64, planes int) int64 {
	return max(int64(planesShare*wireGbps*1e9/float64(planes)), fabric.MinRate)
}

func newFailureRun(mode lab.FailMode, r *lab.Result) FailureRun {
	run := FailureRun{
		Mode: mode, RecoveryMs: r.RecoveryMs, Errors: r.Errors, MismatchedBytes: r.MismatchedBytes, Failure: r.Failure(),
	}
	if r.FaultMs == nil {
		return run
	}
	fault := *r.FaultMs
	jobMs := fault + float64((failDuration - failAt).Milliseconds())
	run.BeforeGbps = lab.GoodputBefore(r.Timeline, fault)
	run.AfterGbps = lab.MedianGoodput(r.Timeline, fault+graceMs, jobMs)
	if steady, ok := lab.SteadyMs(r.Timeline, fault, graceMs, jobMs); ok {
		run.SteadyMs = &steady
	}
	return run
}

func (f *Failure) bars() []Bar {
	var bars []Bar
	for _, mode := range []lab.FailMode{lab.FailSilent, lab.FailLinkDown} {
		var steady []float64
		var wrong uint64
		failed := 0
		for _, run := range f.Runs {
			if run.Mode != mode {
				continue
			}
			steady = append(steady, orInfinite(run.SteadyMs))
			wrong += run.Errors + run.MismatchedBytes
			if run.Failure != "" {
				failed++
			}
		}
		bars = append(bars,
			below(fmt.Sprintf("%s: five steps >= 0.70 in a row from (after the fault)", mode), "ms", lab.Median(steady), graceMs+stepMs),
			atMost(fmt.Sprintf("%s: errors and wrong bytes", mode), "", float64(wrong), 0),
			atMost(fmt.Sprintf("%s: runs that are no success", mode), "", float64(failed), 0))
	}
	return bars
}

// orInfinite makes what never happened come last.
func orInfinite(value *float64) float64 {
	if value == nil {
		return math.Inf(1)
	}
	return *value
}
