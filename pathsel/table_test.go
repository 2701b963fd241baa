package pathsel

import (
	"math/rand/v2"
	"testing"
)

const (
	us = 1_000
	ms = 1_000_000
)

func newTable(cfg Config) *Table {
	t := new(Table)
	t.Init(cfg, 1)
	return t
}

func TestSourcePorts(t *testing.T) {
	var a, b, c Table
	cfg := Config{Planes: 8, PathsPerPlane: 64}
	a.Init(cfg, 1)
	b.Init(cfg, 1)
	c.Init(cfg, 2)
	same := 0
	for plane := range 8 {
		seen := map[uint16]bool{}
		for id := range 64 {
			port := a.Path(plane, id).SourcePort
			if port < defaultBasePort || seen[port] {
				t.Fatalf("plane %d path %d: port %d is out of range or taken", plane, id, port)
			}
			seen[port] = true
			if b.Path(plane, id).SourcePort != port {
				t.Fatal("the same seed gives other ports")
			}
			if c.Path(plane, id).SourcePort == port {
				same++
			}
		}
	}
	if same > 5 {
		t.Errorf("another seed gives %d of 512 ports again", same)
	}
}

// The paths in use follow the window, so that each is revisited within half an
// RTT: width = window / (2 x run).
func TestWorkingSetWidth(t *testing.T) {
	for _, tc := range []struct{ paths, window, want int }{
		{16, 0, 1},
		{16, 4, 1},
		{16, 15, 1},
		{16, 16, 2},
		{16, 64, 8},
		{16, 128, 16},
		{16, 1 << 20, 16},
		{64, 512, 64},
		{64, 1024, 64},
		{1, 1024, 1},
		{5, 24, 3},
	} {
		tb := newTable(Config{PathsPerPlane: tc.paths})
		used := map[int]int{}
		for i := range 4096 {
			id := tb.Pick(0, 0, int64(tc.window))
			tb.OnSent(0, 0, id)
			tb.OnAcked(0, 0, id, 1, 0, 0)
			if i >= 2048 {
				used[id]++
			}
		}
		if len(used) != tc.want {
			t.Errorf("%d paths, window %d: %d in use, want %d", tc.paths, tc.window, len(used), tc.want)
		}
		for id, n := range used {
			if mean := 2048 / tc.want; n < mean-4 || n > mean+8 {
				t.Errorf("%d paths, window %d: path %d took %d packets, want %d", tc.paths, tc.window, id, n, mean)
			}
		}
	}
}

func TestRunLength(t *testing.T) {
	for _, run := range []int{1, 3, 4, 16} {
		tb := newTable(Config{RunPackets: run})
		last, n := -1, 0
		for i := range 1000 {
			id := tb.Pick(0, 0, 1<<20)
			tb.OnSent(0, 0, id)
			tb.OnAcked(0, 0, id, 1, 0, 0)
			if id != last && last >= 0 && n != run && i > 64*run {
				t.Fatalf("run of %d packets, want %d", n, run)
			}
			if id != last {
				last, n = id, 0
			}
			n++
		}
	}
}

// No path takes more than F, and together they take all of it.
func TestPathInFlight(t *testing.T) {
	const paths, f = 6, 32
	tb := newTable(Config{PathsPerPlane: paths, PathInFlight: f})
	for i := range paths * f {
		id := tb.Pick(0, 0, 1<<20)
		if id < 0 {
			t.Fatalf("no path for packet %d of %d", i, paths*f)
		}
		tb.OnSent(0, 0, id)
		if n := tb.Path(0, id).InFlight; n > f {
			t.Fatalf("path %d has %d in flight, at most %d", id, n, f)
		}
	}
	if id := tb.Pick(0, 0, 1<<20); id != -1 {
		t.Errorf("all full, yet path %d is picked", id)
	}
	if id := tb.PickOther(0, 0, 2); id != -1 {
		t.Errorf("all full, yet path %d is picked as another", id)
	}
	tb.OnLost(0, 0, 3, 1)
	if id := tb.Pick(0, 0, 1<<20); id != 3 {
		t.Errorf("path %d is picked, want 3, the only one with room", id)
	}
	if id := tb.PickOther(0, 0, 3); id != -1 {
		t.Errorf("path %d is picked as other than 3", id)
	}
}

// A marked path is left for an RTT, and its part of the traffic shrinks.
func TestMarksSteerAway(t *testing.T) {
	tb := newTable(Config{PathsPerPlane: 8})
	const rtt = 100 * us
	used := make([]int, 8)
	now := int64(0)
	for range 2000 {
		now += rtt / 20
		for range 4 {
			id := tb.Pick(now, 0, 1024)
			tb.OnSent(now, 0, id)
			ce := 0
			if id == 5 {
				ce = 1
			}
			if now < tb.Path(0, id).restUntil {
				t.Fatalf("path %d is picked while it rests", id)
			}
			tb.OnAcked(now, 0, id, 1, ce, rtt)
			used[id]++
		}
	}
	if used[5]*3 > used[4] {
		t.Errorf("packets per path %v: the marked path 5 took too many", used)
	}
	if used[5] == 0 {
		t.Error("the marked path is never tried again")
	}
	if w := tb.Path(0, 5).Weight; w != minWeight {
		t.Errorf("weight %d after endless marks, want the least, %d", w, minWeight)
	}
	if f := tb.Path(0, 5).CEFraction; used[5] > 2*sampleEvents && f < 0.5 {
		t.Errorf("CE fraction %.2f, want near 1", f)
	}
	for i := range 20 {
		tb.OnAcked(now+int64(i+1)*2*rtt, 0, 5, 1, 0, rtt)
	}
	if w := tb.Path(0, 5).Weight; w != fullWeight {
		t.Errorf("weight %d after twenty clean RTTs, want full", w)
	}
}

func TestEstimates(t *testing.T) {
	tb := newTable(Config{Planes: 2, MinRTONanos: 1 * ms, AckDelayNanos: 100 * us})
	if got := tb.RTO(1); got != initialRTONanos {
		t.Errorf("RTO %d without samples, want %d", got, initialRTONanos)
	}
	for i := range int64(200) {
		tb.OnAcked(i*ms, 1, 3, 1, 0, 500*us+(i%2)*100*us)
	}
	p := tb.Path(1, 3)
	if p.SRTT < 530*us || p.SRTT > 570*us || p.RTTVar < 30*us || p.RTTVar > 70*us || p.MinRTT != 500*us {
		t.Errorf("SRTT %d, deviation %d, least %d; want 550 us, 50 us, 500 us", p.SRTT, p.RTTVar, p.MinRTT)
	}
	if got, want := tb.RTO(1), p.SRTT+4*p.RTTVar+100*us; got != max(want, ms) {
		t.Errorf("RTO %d, want %d", got, want)
	}
	if tb.PlaneSRTT(1) != p.SRTT || tb.PlaneMinRTT(1) != p.MinRTT || tb.PlaneSRTT(0) != 0 {
		t.Error("plane's estimates differ from its only path's, or reach another plane")
	}
	// A route that became longer: the least RTT is forgotten in time.
	for i := range int64(40) {
		tb.OnAcked(300*ms+i*1000*ms, 1, 3, 1, 0, 900*us)
	}
	if p.MinRTT != 900*us || tb.PlaneMinRTT(1) != 900*us {
		t.Errorf("least RTT %d, want 900 us after 40 s", p.MinRTT)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4000 {
		if rng.IntN(10) == 0 {
			tb.OnLost(0, 0, 0, 1)
		} else {
			tb.OnAcked(0, 0, 0, 1, 0, 0)
		}
	}
	if f := tb.Path(0, 0).LossFraction; f < 0.04 || f > 0.16 {
		t.Errorf("loss fraction %.3f, want 0.1", f)
	}
}

func TestStateNames(t *testing.T) {
	for s, want := range map[State]string{Active: "active", Suspect: "suspect", Probing: "probing", Down: "down", 9: "invalid"} {
		if s.String() != want {
			t.Errorf("state %d is %q, want %q", s, s.String(), want)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	tb := newTable(Config{Planes: 2})
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 10 * us
		id := tb.Pick(now, 0, 64)
		tb.OnSent(now, 0, id)
		tb.OnAcked(now, 0, id, 1, 1, 50*us)
		tb.OnTimeout(now, 0, id)
		tb.PickOther(now, 0, id)
		tb.NextProbe(now)
		tb.OnProbeAck(now, 0, id, 50*us)
		tb.PlaneSilent(now, 1)
		tb.SetPlaneUp(1, false)
		tb.SetPlaneUp(1, true)
	}); n != 0 {
		t.Errorf("%v allocations per run", n)
	}
}

func BenchmarkPickSentAcked(b *testing.B) {
	tb := newTable(Config{Planes: 4})
	now := int64(0)
	for b.Loop() {
		now += 2000
		for range 4 {
			tb.OnSent(now, 0, tb.Pick(now, 0, 1024))
		}
		tb.OnAcked(now, 0, int(tb.planes[0].current), 4, 0, 50*us)
	}
}

func BenchmarkPickMarked(b *testing.B) {
	tb := newTable(Config{Planes: 4})
	now := int64(0)
	for b.Loop() {
		now += 2000
		for range 4 {
			tb.OnSent(now, 0, tb.Pick(now, 0, 1024))
		}
		tb.OnAcked(now, 0, int(tb.planes[0].current), 4, 1, 50*us)
	}
}
