package perf

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/bench/lab/histogram"
)

func TestHelloSurvivesEncoding(t *testing.T) {
	for _, h := range []hello{{testBandwidth, 1, 0}, {testLatency, MaxSize, math.MaxUint64}} {
		if got, err := decodeHello(h.encode()); err != nil || got != h {
			t.Errorf("%+v reads back as %+v, %v", h, got, err)
		}
	}
}

func TestHelloOfOthersIsRefused(t *testing.T) {
	good := hello{test: testLatency, size: 64, key: 1}
	for name, change := range map[string]func([]byte) []byte{
		"nothing":      func([]byte) []byte { return nil },
		"truncated":    func(b []byte) []byte { return b[:helloBytes-1] },
		"too long":     func(b []byte) []byte { return append(b, 0) },
		"version":      func(b []byte) []byte { b[0]++; return b },
		"unknown test": func(b []byte) []byte { b[2] = 9; return b },
		"no bytes":     func(b []byte) []byte { clear(b[8:16]); return b },
		"too much":     func(b []byte) []byte { b[15] = 1; return b },
	} {
		if _, err := decodeHello(change(good.encode())); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := decodeKey([]byte{1, 2}); err == nil {
		t.Error("a key of two bytes is accepted")
	}
}

func TestSweep(t *testing.T) {
	if got := Sweep(64, 512); !slices.Equal(got, []int64{64, 128, 256, 512}) {
		t.Errorf("%v", got)
	}
	if got := Sweep(64, 4<<20); len(got) != 17 || got[16] != 4<<20 {
		t.Errorf("%v", got)
	}
	if got := Sweep(100, 100); !slices.Equal(got, []int64{100}) {
		t.Errorf("%v", got)
	}
}

func TestMeasureIsOver(t *testing.T) {
	byTime, byCount := Measure{Duration: time.Second}, Measure{Duration: time.Second, Iterations: 10}
	if byTime.over(time.Second-1, 1<<40) || !byTime.over(time.Second, 0) {
		t.Error("duration")
	}
	if byCount.over(time.Hour, 9) || !byCount.over(0, 10) {
		t.Error("iterations")
	}
}

func TestRowAndTable(t *testing.T) {
	var h histogram.Histogram
	h.Record(2000)
	r := newRow(1<<20, 1000, time.Second, &h)
	if math.Abs(r.Gbps-8.388608) > 1e-9 || math.Abs(r.Mops-0.001) > 1e-12 || r.LatencyUs.Max != 2 {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	Header(&out)
	r.Print(&out)
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) != 2 || len(lines[0]) != len(lines[1]) || len(strings.Fields(lines[1])) != 7 {
		t.Errorf("table:\n%s", out.String())
	}
}

func TestWarmUpOfFewIterationsIsNotATime(t *testing.T) {
	for iterations, want := range map[uint64]uint64{0: 0, 1: 1, 9: 1, 10: 1, 1000: 100} {
		m := Measure{Duration: time.Second, Iterations: iterations}
		if got := m.warmUp(); got.Iterations != want || got.Duration != 100*time.Millisecond {
			t.Errorf("%d iterations: warm-up of %+v, want %d iterations", iterations, got, want)
		}
	}
}
