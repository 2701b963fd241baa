package bars

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/metaroced/metaroced/bench/lab"
	"github.com/metaroced/metaroced/bench/lab/histogram"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		bar               Bar
		measured, verdict string
	}{
		{atLeast("", 0.75, 0.75), "0.75", "pass"},
		{atLeast("", 0.7499, 0.75), "0.75", "FAIL"},
		{atLeast("", 0.80, 0.75).withGoal(0.90), "0.80", "pass, goal 0.90 not reached"},
		{atLeast("", 0.90, 0.75).withGoal(0.90), "0.90", "pass, goal reached"},
		{atLeast("", 0.1, 0.75).withGoal(0.90), "0.10", "FAIL"},
		{atMost("", "", 1.3, 1.3), "1.30", "pass"},
		{atMost("", "", 1, 0), "1", "FAIL"},
		{below("", "%", 1, 1), "1 %", "FAIL"},
		{below("", "ms", 2999.5, 3000), "2999.50 ms", "pass"},
		{below("", "ms", math.Inf(1), 60), "never", "FAIL"},
		{atMost("", "", math.NaN(), 1.3), "never", "FAIL"},
	} {
		if m, v := c.bar.measured(), c.bar.verdict(); m != c.measured || v != c.verdict {
			t.Errorf("%+v: %q, %q, want %q, %q", c.bar, m, v, c.measured, c.verdict)
		}
	}
	if _, err := json.Marshal(below("", "", math.Inf(1), 1)); err != nil {
		t.Error(err)
	}
}

// throughputOf has one sample per contender: raw, raw with copy, clean, 1 %, 10 %, 3 %.
func throughputOf(samples ...Sample) *Throughput {
	t := &Throughput{Losses: []float64{0.01, 0.10, 0.03}}
	for _, s := range samples {
		c := Comparison{Samples: []Sample{s}}
		c.summarize(t.Comparisons)
		t.Comparisons = append(t.Comparisons, c)
	}
	return t
}

func TestThroughputBars(t *testing.T) {
	bars := throughputOf(
		Sample{Gbps: 20},
		Sample{Gbps: 10},
		Sample{Gbps: 8, CPUPerGB: 1, SetupMs: 400},
		Sample{Gbps: 7.2, CPUPerGB: 1.4, TimerShare: 0.05, SetupMs: 3500},
		Sample{Gbps: 4, CPUPerGB: 9, TimerShare: 0.9, Failure: "2 bytes were wrong"},
		Sample{Gbps: 1},
	).bars()
	want := []struct {
		what  string
		value float64
		pass  bool
	}{
		{"goodput / raw, copy and CRC", 0.8, true},
		{"goodput with loss 1% / without", 0.9, true},
		{"CPU per GB with loss 1% / without", 1.4, false},
		{"retransmissions by timer, loss 1%", 5, false},
		{"goodput with loss 10% / without", 0.5, false},
		{"start to first completed WRITE, maximum", 3500, false},
		{"runs with an error or a wrong byte", 1, false},
	}
	if len(bars) != len(want) {
		t.Fatalf("%d bars, want %d: %+v", len(bars), len(want), bars)
	}
	for i, w := range want {
		if b := bars[i]; b.What != w.what || math.Abs(*b.Value-w.value) > 1e-9 || b.Pass != w.pass {
			t.Errorf("%s %v %v, want %+v", b.What, *b.Value, b.Pass, w)
		}
	}
}

func TestWireRate(t *testing.T) {
	s := labSample(&lab.Result{
		GoodputGbps: 8, Bytes: 1e9, Operations: 1, Retransmissions: 4, RetransmissionsTimer: 1,
		CPUSeconds: lab.CPUSeconds{DaemonA: 0.5, DaemonB: 1},
		Planes:     []lab.Plane{{TxBytes: 6e8}, {TxBytes: 5e8}},
		Paths:      []lab.Path{{TxPackets: 4e6}, {TxPackets: 1e6}},
	})
	// 1.1 GB of frames and 5 M times 24 B for 1 GB of memory.
	if math.Abs(s.WireGbps-8*1.22) > 1e-9 || s.CPUPerGB != 1.5 || s.TimerShare != 0.25 || s.Failure != "" {
		t.Errorf("%+v", s)
	}
	if got := planeRate(10, 4); got != 1_500_000_000 {
		t.Errorf("plane rate %d", got)
	}
}

// timeline repeats goodput for a number of steps: (count, goodput) pairs.
func timeline(pairs ...float64) []lab.TimelinePoint {
	var points []lab.TimelinePoint
	for i := 0; i < len(pairs); i += 2 {
		for range int(pairs[i]) {
			points = append(points, lab.TimelinePoint{TimeMs: int64(len(points)) * stepMs, GoodputGbps: pairs[i+1]})
		}
	}
	return points
}

func TestFailureRuns(t *testing.T) {
	fault := 1505.0
	for name, c := range map[string]struct {
		points []lab.TimelinePoint
		want   float64 // +Inf: never
		after  float64
	}{
		"no dip":                          {timeline(150, 8, 160, 6), 55, 6},
		"back within the grace":           {timeline(150, 8, 5, 0, 155, 6), 55, 6},
		"a dip after the grace":           {timeline(150, 8, 7, 6, 1, 1, 152, 6), 75, 6},
		"never":                           {timeline(150, 8, 160, 5), math.Inf(1), 5},
		"what the drain does not count":   {timeline(150, 8, 149, 0, 20, 8), math.Inf(1), 0},
		"start-up is not what was before": {timeline(20, 1, 130, 8, 160, 2), math.Inf(1), 2},
	} {
		run := newFailureRun(lab.FailSilent, &lab.Result{FaultMs: &fault, Timeline: c.points, Operations: 1})
		if got := orInfinite(run.SteadyMs); got != c.want || run.BeforeGbps != 8 || run.AfterGbps != c.after {
			t.Errorf("%s: steady from %v, %v before, %v after, want %+v", name, got, run.BeforeGbps, run.AfterGbps, c)
		}
	}
}

func TestFailureBars(t *testing.T) {
	at := func(ms float64) *float64 { return &ms }
	f := &Failure{Runs: []FailureRun{
		{Mode: lab.FailSilent, SteadyMs: at(59)},
		{Mode: lab.FailLinkDown, SteadyMs: at(51)},
		{Mode: lab.FailSilent},
		{Mode: lab.FailLinkDown, Errors: 1, MismatchedBytes: 2, Failure: "2 bytes were wrong"},
		{Mode: lab.FailSilent, SteadyMs: at(51)},
		{Mode: lab.FailLinkDown},
	}}
	bars := f.bars()
	if len(bars) != 6 {
		t.Fatalf("%+v", bars)
	}
	if b := bars[0]; !b.Pass || *b.Value != 59 {
		t.Errorf("silent: %+v", b)
	}
	if b := bars[3]; b.Pass || b.Value != nil {
		t.Errorf("link-down came back in one of three runs: %+v", b)
	}
	if *bars[1].Value != 0 || *bars[4].Value != 3 || bars[4].Pass || *bars[5].Value != 1 {
		t.Errorf("errors: %+v", bars)
	}
}

func TestMixedBars(t *testing.T) {
	if bars, err := (&Mixed{Operations: 1}).bars(); err != nil || len(bars) != 3 || !bars[0].Pass {
		t.Errorf("success: %+v, %v", bars, err)
	}
	bars, err := (&Mixed{FramesLeaked: 1, Failure: "1 frames leaked"}).bars()
	if err != nil || bars[2].Pass {
		t.Errorf("leak: %+v, %v", bars, err)
	}
	if _, err := (&Mixed{Failure: "the run is void: x"}).bars(); err == nil || err.Error() != "the run is void: x" {
		t.Errorf("void: %v", err)
	}
}

func TestLatencyIsComparedWithinRuns(t *testing.T) {
	run := func(spinning, udp float64) lab.LatencyResult {
		return lab.LatencyResult{
			Spinning: histogram.Micros{P50: spinning}, Sleeping: histogram.Micros{P50: 30}, UDP: histogram.Micros{P50: udp},
		}
	}
	// The medians are 20 and 40; within runs UDP is twice lower.
	l := newLatency([]lab.LatencyResult{run(20, 10), run(10, 40), run(60, 50)})
	if l.Spinning != (Spread{10, 20, 60}) || l.UDP != (Spread{10, 40, 50}) || l.ToUDP != (Spread{0.25, 1.2, 2}) || l.Lower != 1 {
		t.Errorf("%+v", l)
	}
	if bars := l.bars(); len(bars) != 1 || bars[0].Pass {
		t.Errorf("%+v", bars)
	}
}

func TestSummaryShowsEveryPart(t *testing.T) {
	steady := 52.0
	r := &Report{
		Throughput: throughputOf(Sample{Gbps: 20}, Sample{Gbps: 10}, Sample{Gbps: 8, Failure: "broken"}),
		Failure:    &Failure{PlaneRate: 1_500_000_000, Runs: []FailureRun{{Mode: lab.FailSilent, SteadyMs: &steady, BeforeGbps: 4, AfterGbps: 3}}},
		Mixed:      &Mixed{Bytes: 7777},
		Latency:    newLatency([]lab.LatencyResult{{Spinning: histogram.Micros{P50: 3}, UDP: histogram.Micros{P50: 4}}}),
		Bars:       []Bar{atLeast("goodput", 0.5, 0.75)},
		Problems:   []string{"idle: no network"},
	}
	var out bytes.Buffer
	if err := r.WriteSummary(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"(3) ", "0.80", "round 1: broken", "1.500 Gb/s", "52", "0.75", "7777 bytes", "lower in 1 of 1", ">= 0.75", "FAIL", "not measured: idle: no network",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestOptions(t *testing.T) {
	good := Options{Rounds: 5, Parts: AllParts(), Lab: lab.Options{Planes: 4}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, o := range map[string]Options{
		"--rounds 0 is outside 1 to 1000":                                        {},
		`--only "speed" is not one of throughput, failure, mixed, idle, latency`: {Rounds: 1, Parts: []Part{"speed"}},
		"--only names no part":                                                   {Rounds: 1},
		"--planes 1":                                                             {Rounds: 1, Parts: []Part{PartFailure}, Lab: lab.Options{Planes: 1}},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
