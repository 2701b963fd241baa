package fabric

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"
	"time"
)

const (
	many = 2000
	size = 1000
)

func TestEveryPlaneForwardsBothWays(t *testing.T) {
	f := open(t, Options{Planes: 3, Queues: 2})
	for plane := range 3 {
		for _, d := range []Direction{AToB, BToA} {
			w := connect(t, f, plane, d)
			w.send(100, 3470) // fills the MTU
			for n, a := range w.receive(100) {
				if !bytes.Equal(a.payload, payload(uint32(n), 3470)) || a.tos != 2 {
					t.Fatalf("plane %d, %v: packet %d differs, ToS %d", plane, d, n, a.tos)
				}
			}
		}
	}
	for plane, directions := range counters(t, f) {
		for d, c := range directions {
			if c.Packets != 100 || c.Forwarded != 100 || c.Overflowed != 0 || c.OtherFrames == 0 {
				t.Errorf("plane %d, %v: %+v", plane, Direction(d), c)
			}
			if err := Verify(Impairments{}, c); err != nil {
				t.Error(err)
			}
		}
	}
}

// Every impairment at one half and at 1, alone.
func TestImpairments(t *testing.T) {
	f := open(t, Options{Planes: 1})
	w := connect(t, f, 0, AToB)
	half := Chance{Probability: 0.5}
	for _, tc := range []struct {
		name        string
		impairments Impairments
		check       func(t *testing.T, all bool, got []arrival, c PortCounters)
	}{
		{"drop", Impairments{Drop: half}, checkDropped},
		{"mark", Impairments{Mark: half}, checkMarked},
		{"corrupt", Impairments{Corrupt: half}, checkCorrupted},
		{"hold", Impairments{Hold: half}, checkHeld},
		{"duplicate", Impairments{Duplicate: half}, checkDuplicated},
	} {
		for _, all := range []bool{false, true} {
			name, impairments := tc.name+" half", tc.impairments
			if all {
				name = tc.name + " all"
				for _, c := range []*Chance{&impairments.Drop, &impairments.Mark, &impairments.Corrupt, &impairments.Hold, &impairments.Duplicate} {
					c.Probability *= 2
				}
			}
			t.Run(name, func(t *testing.T) {
				w.t = t
				before := counters(t, f)
				impair(t, f, 0, AToB, impairments)
				w.send(many, size)
				got := w.receive(int(counters(t, f).Since(before)[0][AToB].Forwarded))
				c := counters(t, f).Since(before)[0][AToB]
				if c.Packets != many || c.Forwarded+c.Dropped != many || c.Overflowed != 0 || c.HoldMissed != 0 {
					t.Errorf("counters %+v", c)
				}
				if err := Verify(impairments, c); err != nil {
					t.Error(err)
				}
				if uint64(len(got)) != c.Forwarded+c.Duplicated {
					t.Fatalf("%d arrived, counters %+v", len(got), c)
				}
				tc.check(t, all, got, c)
			})
		}
	}
	if c := counters(t, f)[0][BToA]; c.Packets != 0 {
		t.Errorf("other direction: %+v", c)
	}
}

func undamaged(t *testing.T, got []arrival) {
	t.Helper()
	for _, a := range got {
		if !bytes.Equal(a.payload, payload(a.number(), size)) {
			t.Fatal("a payload changed")
		}
	}
}

func checkDropped(t *testing.T, all bool, got []arrival, _ PortCounters) {
	undamaged(t, got)
	if all && len(got) != 0 {
		t.Errorf("%d arrived", len(got))
	}
}

// The kernel delivers marked packets only when their header checksum is right.
func checkMarked(t *testing.T, _ bool, got []arrival, c PortCounters) {
	undamaged(t, got)
	marked := uint64(0)
	for _, a := range got {
		if a.tos == 3 {
			marked++
		}
	}
	if marked != c.Marked {
		t.Errorf("%d marks arrived, %d counted", marked, c.Marked)
	}
}

func checkCorrupted(t *testing.T, _ bool, got []arrival, c PortCounters) {
	changed := uint64(0)
	places := map[int]bool{}
	for n, a := range got {
		flipped := 0
		for i, want := range payload(uint32(n), size) {
			if delta := a.payload[i] ^ want; delta != 0 {
				flipped += bits.OnesCount8(delta)
				places[i/100] = true
			}
		}
		if flipped > 1 {
			t.Fatalf("%d bits of a packet flipped", flipped)
		}
		changed += uint64(flipped)
	}
	if changed != c.Corrupted || len(places) != size/100 {
		t.Errorf("%d packets changed, %d counted, in %d of %d places", changed, c.Corrupted, len(places), size/100)
	}
}

func checkDuplicated(t *testing.T, all bool, got []arrival, c PortCounters) {
	undamaged(t, got)
	copies := map[uint32]uint64{}
	for _, a := range got {
		copies[a.number()]++
	}
	twice := uint64(0)
	for n, k := range copies {
		if k > 2 || all && k != 2 {
			t.Fatalf("packet %d arrived %d times", n, k)
		}
		twice += k - 1
	}
	if twice != c.Duplicated || len(copies) != many {
		t.Errorf("%d arrived twice, %d counted, %d different", twice, c.Duplicated, len(copies))
	}
}

func checkHeld(t *testing.T, all bool, got []arrival, c PortCounters) {
	undamaged(t, got)
	var order []uint32
	for _, a := range got {
		order = append(order, a.number())
	}
	// All of them held are only late.
	if slices.IsSorted(order) != all {
		t.Errorf("in order: %v", !all)
	}
	slices.Sort(order)
	if len(slices.Compact(order)) != many {
		t.Errorf("%d different packets arrived", len(order))
	}
	if c.Reinjected != c.Held || c.HoldLost != 0 {
		t.Errorf("counters %+v", c)
	}
}

// A packet that is held as well as duplicated arrives twice.
func TestHeldDuplicate(t *testing.T) {
	f := open(t, Options{Planes: 1})
	w := connect(t, f, 0, BToA)
	impair(t, f, 0, BToA, Impairments{Hold: Always, Duplicate: Always})
	w.send(100, size)
	if got := w.receive(200); len(got) != 200 {
		t.Errorf("%d arrived", len(got))
	}
}

// Held packets go on behind as many others as were asked for, long before the time
// is over.
func TestHoldPackets(t *testing.T) {
	f := open(t, Options{Planes: 1})
	w := connect(t, f, 0, AToB)
	impair(t, f, 0, AToB, Impairments{Hold: Once(0), HoldPackets: 10, HoldTime: MaxHoldTime})
	start := time.Now()
	w.send(9, size)
	if got := w.receive(8); len(got) != 8 || got[0].number() != 1 {
		t.Fatalf("%d arrived, packet %d first", len(got), got[0].number())
	}
	w.send(2, size)
	got := w.receive(3)
	if elapsed := time.Since(start); elapsed < MaxHoldTime && len(got) != 3 {
		t.Errorf("%d arrived", len(got))
	}
}

// What is held when its plane fails vanishes with it.
func TestHeldPacketsFailWithTheirPlane(t *testing.T) {
	f := open(t, Options{Planes: 1})
	w := connect(t, f, 0, AToB)
	impair(t, f, 0, AToB, Impairments{Hold: Always, HoldPackets: many, HoldTime: MaxHoldTime})
	w.send(10, size)
	if err := f.FailPlane(0, LinkDown); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return counters(t, f)[0][AToB].HoldFailed == 10 })
	if c := counters(t, f)[0][AToB]; c.Held != 10 || c.Reinjected != 0 || c.HoldLost != 0 {
		t.Errorf("counters %+v", c)
	}
}

func TestSchedules(t *testing.T) {
	f := open(t, Options{Planes: 1})
	w := connect(t, f, 0, AToB)
	for _, tc := range []struct {
		name   string
		chance Chance
		lost   []uint32
	}{
		{"every hundredth", Chance{Period: 100, Pattern: 1}, []uint32{0, 100, 200}},
		{"list", Once(3, 5, 63), []uint32{3, 5, 63}},
		{"pattern", Chance{Period: 128, Pattern: 0b110, Probability: 1}, []uint32{1, 2, 129, 130}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			impair(t, f, 0, AToB, Impairments{Drop: tc.chance})
			w.send(250, size)
			var want, got []uint32
			for n := range uint32(250) {
				if !slices.Contains(tc.lost, n) {
					want = append(want, n)
				}
			}
			for _, a := range w.receive(len(want)) {
				got = append(got, a.number())
			}
			if !slices.Equal(got, want) {
				t.Errorf("arrived: %v", got)
			}
		})
	}
}

// Other traffic passes a switch that damages all it may.
func TestOtherTrafficIsLeftAlone(t *testing.T) {
	f := open(t, Options{Planes: 1, UDPPort: 1234})
	w := connect(t, f, 0, AToB)
	impair(t, f, 0, AToB, Impairments{Drop: Always, Corrupt: Always, Duplicate: Always, Hold: Always})
	w.to = w.toOther
	for range 10 {
		w.flush()
	}
	if c := counters(t, f)[0][AToB]; c.Packets != 0 {
		t.Errorf("counters %+v", c)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	f := open(t, Options{Planes: 2})
	for name, err := range map[string]error{
		"probability": f.SetImpairments(0, AToB, Impairments{Drop: Chance{Probability: 1.5}}),
		"hold time":   f.SetImpairments(0, AToB, Impairments{HoldTime: time.Hour}),
		"plane":       f.SetImpairments(2, AToB, Impairments{}),
		"fail":        f.FailPlane(-1, Silent),
		"rate":        f.SetRate(0, AToB, Rate{BitsPerSecond: 5}),
		"backlog":     f.SetRate(0, AToB, Rate{BitsPerSecond: 1e9, MarkBacklog: time.Second, DropBacklog: time.Millisecond}),
	} {
		if err == nil {
			t.Errorf("bad %s accepted", name)
		}
	}
	if _, err := Open(Options{Planes: MaxPlanes + 1}); err == nil {
		t.Error("too many planes accepted")
	}
}

func TestVerify(t *testing.T) {
	asked := Impairments{Drop: Chance{Probability: 0.01}}
	for _, tc := range []struct {
		name    string
		asked   Impairments
		counted PortCounters
		good    bool
	}{
		{"exact", asked, PortCounters{Packets: 100000, Dropped: 1000}, true},
		{"within chance", asked, PortCounters{Packets: 100, Dropped: 4}, true},
		{"too much", asked, PortCounters{Packets: 100000, Dropped: 1250}, false},
		{"too little", asked, PortCounters{Packets: 100000, Dropped: 750}, false},
		{"unasked", asked, PortCounters{Packets: 100000, Dropped: 1000, Corrupted: 1}, false},
		{"nothing sent", asked, PortCounters{}, false},
		{"black hole takes no part", asked, PortCounters{Packets: 150000, BlackHoled: 50000, Dropped: 1000}, true},
		{"held packet lost", Impairments{Hold: Always}, PortCounters{Packets: 10, Held: 10, HoldLost: 1}, false},
	} {
		if err := Verify(tc.asked, tc.counted); (err == nil) != tc.good {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
