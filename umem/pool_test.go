package umem

import (
	"errors"
	"math/rand/v2"
	"testing"
)

func newTestPool(t testing.TB, frames uint32) (*Arena, *Pool) {
	t.Helper()
	a := newArena(t)
	p, err := a.NewPool(frames)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the arena's own
		p.Reclaim()
		if err := p.Close(); err != nil && !errors.Is(err, ErrFreed) {
			t.Error(err)
		}
	})
	return a, p
}

// checkSum verifies that no frame is lost or counted twice.
func checkSum(t testing.TB, p *Pool) {
	t.Helper()
	var sum uint64
	for _, count := range p.Counts() {
		sum += count
	}
	if sum != uint64(p.Frames()) || p.Counts()[Free] != uint64(len(p.free)) {
		t.Fatalf("counts %v of a pool of %d frames with %d on its stack", p.Counts(), p.Frames(), len(p.free))
	}
}

// TestPoolAgainstModel makes random calls, right and wrong ones, and compares
// with a map from frame to state.
func TestPoolAgainstModel(t *testing.T) {
	_, p := newTestPool(t, 48)
	random := rand.New(rand.NewPCG(1, 2))
	model := make(map[uint64]State)
	base := p.first * testFrame
	for i := range uint64(48) {
		model[base+i*testFrame] = Free
	}
	for range 20_000 {
		frame := base + random.Uint64N(50)*testFrame // two of them foreign
		actual, known := model[frame]
		from, to := State(random.IntN(NumStates+1)), State(random.IntN(NumStates+1))
		inside := frame + random.Uint64N(testFrame)
		switch random.IntN(3) {
		case 0:
			addrs := make([]uint64, random.IntN(6))
			for _, addr := range addrs[:p.Get(addrs)] {
				if s, ok := model[addr]; !ok || s != Free {
					t.Fatalf("Get gave frame %#x, which is %v", addr, s)
				}
				model[addr] = Pending
			}
		case 1:
			if checkMove(t, p.Put(inside, from), known, from == actual && from != Free) {
				model[frame] = Free
			}
		case 2:
			if checkMove(t, p.Move(inside, from, to), known, from == actual && from != Free && to != Free && to < NumStates) {
				model[frame] = to
			}
		}
		var counts [NumStates]uint64
		for _, s := range model {
			counts[s]++
		}
		if counts != p.Counts() {
			t.Fatalf("counts %v, want %v", p.Counts(), counts)
		}
		checkSum(t, p)
	}
	for addr, want := range model {
		if s, ok := p.State(addr); !ok || s != want {
			t.Fatalf("frame %#x is %v, want %v", addr, s, want)
		}
	}
}

// checkMove verifies the error of a Put or Move and reports whether it was made.
func checkMove(t *testing.T, err error, known, allowed bool) bool {
	t.Helper()
	want := error(nil)
	switch {
	case !known:
		want = ErrForeignFrame
	case !allowed:
		want = ErrFrameState
	}
	if !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
	return err == nil
}

func TestFrameStateErrorNamesAll(t *testing.T) {
	_, p := newTestPool(t, 4)
	var addr [1]uint64
	p.Get(addr[:])
	var state *FrameStateError
	err := p.Move(addr[0]+300, Fill, Rx)
	if !errors.As(err, &state) || *state != (FrameStateError{Addr: addr[0], From: Fill, To: Rx, Actual: Pending}) {
		t.Fatalf("%v", err)
	}
	if err := p.Put(addr[0], Pending); err != nil {
		t.Fatal(err)
	}
	if err := p.Put(addr[0], Pending); !errors.Is(err, ErrFrameState) {
		t.Fatalf("second Put of a frame: %v", err)
	}
	for _, foreign := range []uint64{4 * testFrame, ^uint64(0), 1 << 63} {
		if err := p.Put(foreign, Tx); !errors.Is(err, ErrForeignFrame) {
			t.Fatalf("address %#x: %v", foreign, err)
		}
	}
}

func TestLeaked(t *testing.T) {
	a, p := newTestPool(t, 10)
	addrs := make([]uint64, 4)
	p.Get(addrs)
	for _, addr := range addrs[:3] {
		if err := p.Move(addr, Pending, Fill); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		held [NumStates]uint64
		want uint64
	}{
		{[NumStates]uint64{Fill: 3, Pending: 1}, 0},
		{[NumStates]uint64{Fill: 2, Pending: 1}, 1},
		{[NumStates]uint64{Fill: 9}, 1}, // more of one state does not make up for another
		{[NumStates]uint64{}, 4},
	} {
		if got := p.Leaked(tc.held); got != tc.want {
			t.Errorf("Leaked(%v) = %d, want %d", tc.held, got, tc.want)
		}
	}
	if err := p.Close(); !errors.Is(err, ErrInUse) {
		t.Fatalf("Close with frames out: %v", err)
	}
	if before := p.Reclaim(); before != [NumStates]uint64{Free: 6, Fill: 3, Pending: 1} {
		t.Fatalf("reclaimed from %v", before)
	}
	checkSum(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := a.NewPool(64); err != nil {
		t.Fatalf("frames did not come back: %v", err)
	} else if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPoolsAreApart takes the arena apart into pools, gives them back in every
// order and expects the arena whole again.
func TestPoolsAreApart(t *testing.T) {
	a := newArena(t)
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		owner := make(map[uint64]int)
		var pools []*Pool
		for left := a.FrameCount(); left > 0; {
			n := 1 + random.Uint32N(left)
			p, err := a.NewPool(n)
			if err != nil {
				t.Fatal(err)
			}
			addrs := make([]uint64, n+1)
			if got := p.Get(addrs); got != int(n) {
				t.Fatalf("Get = %d of %d", got, n)
			}
			for _, addr := range addrs[:n] {
				if _, taken := owner[addr]; taken || addr%testFrame != 0 || addr >= 64*testFrame {
					t.Fatalf("frame %#x is in two pools or none", addr)
				}
				owner[addr] = len(pools)
			}
			pools = append(pools, p)
			left -= n
		}
		if _, err := a.NewPool(1); err == nil {
			t.Fatal("a pool from an empty arena")
		}
		random.Shuffle(len(pools), func(i, j int) { pools[i], pools[j] = pools[j], pools[i] })
		for _, p := range pools {
			p.Reclaim()
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(a.frames) != 1 || a.frames.total() != 64 {
			t.Fatalf("seed %d: arena is left with %v", seed, a.frames)
		}
	}
}

func TestFramePathDoesNotAllocate(t *testing.T) {
	_, p := newTestPool(t, 32)
	addrs := make([]uint64, 16)
	allocs := testing.AllocsPerRun(100, func() {
		for _, addr := range addrs[:p.Get(addrs)] {
			if p.Move(addr, Pending, Fill) != nil || p.Move(addr+256, Fill, Rx) != nil || p.Put(addr+256, Rx) != nil {
				t.Error("refused")
			}
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations per run", allocs)
	}
}

// BenchmarkFrame measures one frame taken, sent, completed and given back.
func BenchmarkFrame(b *testing.B) {
	_, p := newTestPool(b, 64)
	addrs := make([]uint64, 64)
	for b.Loop() {
		for _, addr := range addrs[:p.Get(addrs)] {
			if p.Move(addr, Pending, Tx) != nil || p.Put(addr, Tx) != nil {
				b.Fatal("refused")
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/frame")
}
