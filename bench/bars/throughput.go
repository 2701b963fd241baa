package bars

import (
	"context"
	"fmt"
	"strconv"

	"github.com/metaroced/metaroced/bench/lab"
	"github.com/metaroced/metaroced/bench/raw"
)

// Throughput compares the lab with raw packets, and with itself under loss.
type Throughput struct {
	Comparisons []Comparison `json:"comparisons"` // raw, raw with copy and CRC, clean lab, then losses
	Losses      []float64    `json:"losses"`
}

// Places in Throughput.Comparisons.
const (
	rawCopyPlace = 1
	cleanPlace   = 2
	lossPlace    = 3
)

// lossBar is what a lab with loss must keep of one without. Zero: no bar.
type lossBar struct {
	goodput    float64 // at least, as a ratio
	cpu        float64 // per GB, at most, as a ratio
	timerShare float64 // below
}

func lossBarOf(loss float64) lossBar {
	switch loss {
	case 0.01:
		return lossBar{goodput: 0.90, cpu: 1.3, timerShare: 0.05}
	case 0.10:
		return lossBar{goodput: 0.60}
	}
	return lossBar{}
}

// What a clean lab must reach of raw packets with a copy and a CRC-32C on each
// side, what it should, and how fast it must be there.
const (
	rawShareLimit = 0.75
	rawShareGoal  = 0.90
	setupLimitMs  = 3000
)

func (r *Report) measureThroughput(ctx context.Context, o *Options) ([]Bar, error) {
	contenders := []Contender{
		rawContender("raw", o, false), rawContender("raw, copy and CRC", o, true), labContender("lab", o.Lab),
	}
	for _, loss := range o.Losses {
		lossy := o.Lab
		lossy.Loss = loss
		contenders = append(contenders, labContender("lab, loss "+percent(loss), lossy))
	}
	comparisons, err := Compare(ctx, o.Rounds, contenders, o.Progress)
	if err != nil {
		return nil, err
	}
	r.Throughput = &Throughput{Comparisons: comparisons, Losses: o.Losses}
	return r.Throughput.bars(), nil
}

func (t *Throughput) bars() []Bar {
	clean := &t.Comparisons[cleanPlace]
	bars := []Bar{atLeast("goodput / raw, copy and CRC", clean.ratio(&t.Comparisons[rawCopyPlace], gbps), rawShareLimit).
		withGoal(rawShareGoal)}
	for i, loss := range t.Losses {
		lossy, bar, name := &t.Comparisons[lossPlace+i], lossBarOf(loss), percent(loss)
		if bar.goodput > 0 {
			bars = append(bars, atLeast("goodput with loss "+name+" / without", lossy.ratio(clean, gbps), bar.goodput))
		}
		if bar.cpu > 0 {
			bars = append(bars, atMost("CPU per GB with loss "+name+" / without", "", lossy.ratio(clean, cpuPerGB), bar.cpu))
		}
		if bar.timerShare > 0 {
			bars = append(bars, below("retransmissions by timer, loss "+name, "%", 100*lossy.Timer, 100*bar.timerShare))
		}
	}
	setup, failed := 0.0, 0
	for _, c := range t.Comparisons {
		for _, s := range c.Samples {
			setup = max(setup, s.SetupMs)
			if s.Failure != "" {
				failed++
			}
		}
	}
	return append(bars,
		below("start to first completed WRITE, maximum", "ms", setup, setupLimitMs),
		atMost("runs with an error or a wrong byte", "", float64(failed), 0))
}

// percent prints a probability the way people type it.
func percent(p float64) string { return strconv.FormatFloat(100*p, 'g', 12, 64) + "%" }

// rawContender measures packets without a transport between hosts like the lab's.
func rawContender(name string, o *Options, withCopy bool) Contender {
	config := raw.Config{
		Copy: withCopy, Planes: o.Lab.Planes, MTU: o.Lab.MTU, CPUA: o.Lab.CPUA, CPUB: o.Lab.CPUB, Duration: o.Lab.Duration,
		Command: o.RawCommand, Log: o.Lab.Log,
	}
	return Contender{Name: name, Run: func(ctx context.Context) (Sample, error) {
		r, err := raw.Run(ctx, config)
		if err != nil {
			return Sample{}, err
		}
		gigabytes := float64(r.Packets) * float64(r.PayloadBytes) / 1e9
		return Sample{Gbps: r.PayloadGbps, CPUPerGB: (r.CPUSender + r.CPUReceiver) / max(gigabytes, 1e-9)}, nil
	}}
}

// labContender measures a lab.
func labContender(name string, o lab.Options) Contender {
	return Contender{Name: name, Run: func(ctx context.Context) (Sample, error) {
		r, err := lab.Run(ctx, o)
		if err != nil {
			return Sample{}, err
		}
		if r.Bytes == 0 {
			return Sample{}, fmt.Errorf("lab: %s", r.Failure())
		}
		return labSample(r), nil
	}}
}

// wireOverheadBytes is what a frame takes on the wire beside itself: preamble, check
// sequence and gap.
const wireOverheadBytes = 24

// labSample takes out of a result, which has bytes, what is compared.
func labSample(r *lab.Result) Sample {
	s := Sample{
		Gbps: r.GoodputGbps, CPUPerGB: (r.CPUSeconds.DaemonA + r.CPUSeconds.DaemonB) / (float64(r.Bytes) / 1e9),
		SetupMs: r.SetupMs, Failure: r.Failure(),
	}
	if r.Retransmissions > 0 {
		s.TimerShare = float64(r.RetransmissionsTimer) / float64(r.Retransmissions)
	}
	var wireBytes uint64
	for _, p := range r.Planes {
		wireBytes += p.TxBytes
	}
	for _, p := range r.Paths {
		wireBytes += p.TxPackets * wireOverheadBytes
	}
	s.WireGbps = s.Gbps * float64(wireBytes) / float64(r.Bytes)
	return s
}
