package lab

import (
	"math"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func TestTimelineSpreadsAnOperationOverItsTime(t *testing.T) {
	const start = 1_000_000_000
	tl := NewTimeline(start, time.Second)
	tl.Add(start+5*ms, 500)   // 0..5 ms
	tl.Add(start+5*ms, 100)   // at the same instant
	tl.Add(start+35*ms, 3000) // 5..35 ms: 500, 1000, 1000, 500
	tl.Add(start+30*ms, 7)    // a clock that stands still must not go back
	want := []float64{1100, 1000, 1000, 507}
	points := tl.Points()
	if len(points) != len(want) {
		t.Fatalf("%d steps, want %d", len(points), len(want))
	}
	for i, p := range points {
		if gbps := want[i] * 8 / 1e7; math.Abs(p.GoodputGbps-gbps) > 1e-9 || p.TimeMs != int64(i)*10 {
			t.Errorf("step %d: %+v, want %v Gb/s", i, p, gbps)
		}
	}
}

func TestTimelineKeepsEveryByte(t *testing.T) {
	tl := NewTimeline(0, time.Second)
	total := 0.0
	for now := int64(0); now < 2e9; now += 3_333_333 {
		tl.Add(now, 1<<20)
		total += 1 << 20
	}
	sum := 0.0
	for _, p := range tl.Points() {
		sum += p.GoodputGbps * 1e7 / 8
	}
	if math.Abs(sum-total) > 1 {
		t.Errorf("the steps add up to %v bytes, want %v", sum, total)
	}
}

func TestTimelineIsBounded(t *testing.T) {
	tl := NewTimeline(0, 100*time.Hour)
	tl.Add(int64(time.Hour), 1)
	tl.Add(-5, 1)
	if len(tl.Points()) > maxTimelineBuckets {
		t.Errorf("%d steps", len(tl.Points()))
	}
}

// steps builds a timeline from (count, goodput) pairs.
func steps(pairs ...float64) []TimelinePoint {
	var points []TimelinePoint
	for i := 0; i < len(pairs); i += 2 {
		for range int(pairs[i]) {
			points = append(points, TimelinePoint{TimeMs: int64(len(points)) * 10, GoodputGbps: pairs[i+1]})
		}
	}
	return points
}

func TestRecovery(t *testing.T) {
	for name, c := range map[string]struct {
		points  []TimelinePoint
		faultMs float64
		jobMs   float64
		want    float64
		ok      bool
	}{
		"back at once":                     {steps(100, 10, 100, 8), 1000, 2000, 0, true},
		"after 40 ms":                      {steps(100, 10, 4, 0, 96, 7.5), 1000, 2000, 40, true},
		"fault in the middle of a step":    {steps(100, 10, 1, 5, 99, 7.5), 1004, 2000, 6, true},
		"exactly the threshold":            {steps(100, 10, 2, 1, 98, 7), 1000, 2000, 20, true},
		"a dip restarts the count":         {steps(100, 10, 4, 8, 1, 6, 50, 8), 1000, 2000, 50, true},
		"never":                            {steps(100, 10, 100, 6.9), 1000, 2000, 0, false},
		"only four before the end":         {steps(100, 10, 10, 0, 4, 8), 1000, 1140, 0, false},
		"the drain after the job":          {steps(100, 10, 10, 0, 10, 8), 1000, 1120, 0, false},
		"start-up is not before the fault": {steps(20, 1, 80, 10, 10, 2, 90, 8), 1000, 2000, 100, true},
		"fault during start-up":            {steps(10, 4, 2, 0, 50, 4), 100, 600, 20, true},
		"nothing before":                   {steps(100, 10), 0, 1000, 0, false},
		"no points":                        {nil, 1000, 2000, 0, false},
	} {
		got, ok := RecoveryMs(c.points, c.faultMs, c.jobMs)
		if ok != c.ok || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func TestSteadyLooksOnlyAfterTheGrace(t *testing.T) {
	points := steps(100, 10, 8, 8, 2, 1, 90, 8)
	for grace, want := range map[float64]float64{0: 0, 20: 20, 40: 100, 50: 100, 120: 120} {
		if got, ok := SteadyMs(points, 1000, grace, 2000); !ok || got != want {
			t.Errorf("from %v ms on: %v, %v, want %v", grace, got, ok, want)
		}
	}
	if got := MedianGoodput(points, 1000, 1030); got != 8 {
		t.Errorf("median goodput %v", got)
	}
	if got := MedianGoodput(points, 5000, 6000); got != 0 {
		t.Errorf("median goodput of nothing %v", got)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}
