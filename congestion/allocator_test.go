package congestion

import (
	"math/rand/v2"
	"testing"
)

// model is the allocator's rule written down naively: every sender's class
// follows from when it was last heard.
type model struct {
	since map[int]int64
	class map[int]class
}

func (m *model) arrive(now int64, id int, backlog int64) {
	m.age(now)
	switch c := m.class[id]; {
	case backlog > 0:
		m.class[id], m.since[id] = hungry, now
	case c == hungry:
		m.class[id], m.since[id] = fed, now
	case c != fed:
		m.class[id], m.since[id] = modest, now
	}
}

// age applies what time alone does; each step starts the next class's time.
func (m *model) age(now int64) {
	for id, c := range m.class {
		if c == hungry && now-m.since[id] >= hungryNanos || c == modest && now-m.since[id] >= quietNanos {
			m.class[id] = absent
		}
		if c == fed && now-m.since[id] >= quietNanos {
			m.class[id], m.since[id] = modest, now
		}
	}
}

func (m *model) count(of ...class) (n int64) {
	for _, c := range m.class {
		for _, o := range of {
			if c == o {
				n++
			}
		}
	}
	return n
}

func TestAllocatorAgainstModel(t *testing.T) {
	const link, most = 10 * gbps, 24
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var a Allocator
		a.Init(link, 1, most)
		m := model{since: map[int]int64{}, class: map[int]class{}}
		now := int64(0)
		for step := range 5000 {
			now += rng.Int64N(1 << rng.IntN(23))
			m.age(now)
			a.expire(now)
			switch rng.IntN(10) {
			case 0:
				id, ok := a.Add(now)
				if ok != (len(m.class) < most) {
					t.Fatalf("seed %d step %d: Add is %v with %d of %d registered", seed, step, ok, len(m.class), most)
				}
				if ok {
					if _, taken := m.class[id]; taken {
						t.Fatalf("seed %d step %d: identifier %d given twice", seed, step, id)
					}
					m.class[id] = absent
				}
			case 1:
				id := rng.IntN(most)
				a.Remove(id)
				delete(m.class, id)
			default:
				id := rng.IntN(most)
				backlog := rng.Int64N(2)
				if _, ok := m.class[id]; ok {
					m.arrive(now, id, backlog)
				}
				a.OnArrival(now, id, 0, backlog)
			}
			for id, c := range m.class {
				n := m.count(hungry, fed)
				want := int64(link) / (n + 1)
				if c.counted() {
					want = link / n
				}
				got := a.Share(now, id)
				if d := got - want; d > want/25 || -d > want/25 {
					t.Fatalf("seed %d step %d: share %d of a sender in class %d, want %d", seed, step, got, c, want)
				}
			}
			present := m.count(hungry, fed, modest)
			if got, want := a.StartAllowance(now), min(max(1, 128/max(present, 1)), 16); got != want {
				t.Fatalf("seed %d step %d: start allowance %d with %d senders, want %d", seed, step, got, present, want)
			}
		}
	}
}

// Senders limited elsewhere take what they send, the hungry share the rest.
func TestModestSendersLeaveTheirShare(t *testing.T) {
	const link = 10 * gbps
	var a Allocator
	a.Init(link, 1, 16)
	bulk, _ := a.Add(0)
	var small []int
	for range 8 {
		id, _ := a.Add(0)
		small = append(small, id)
	}
	// Each small one sends 100 Mb/s: 1250 bytes per 100 us.
	var now int64
	for now = 0; now < 20*ms; now += 100 * us {
		for _, id := range small {
			a.OnArrival(now, id, 1250, 0)
		}
		a.OnArrival(now, bulk, 1, 1)
		a.Share(now, bulk)
	}
	if got, want := a.Share(now, bulk), int64(link-8*100_000_000); got < want*95/100 || got > want*105/100 {
		t.Errorf("bulk share %d, want about %d", got, want)
	}
	if got := a.Share(now, small[0]); got < link/2*95/100 || got > link/2*105/100 {
		t.Errorf("small share %d, want half the link: as one of two that want it", got)
	}
}

func TestShareBounds(t *testing.T) {
	var a Allocator
	a.Init(1*gbps, 0, 4096)
	now := int64(1)
	for range 4096 {
		id, ok := a.Add(now)
		if !ok {
			t.Fatal("Add failed below the limit")
		}
		a.OnArrival(now, id, packet, 1)
	}
	if _, ok := a.Add(now); ok {
		t.Error("Add succeeded above the limit")
	}
	if got := a.Share(now, 7); got != minShareBits {
		t.Errorf("share %d of one of 4096, want the least, %d", got, minShareBits)
	}
	if got := a.StartAllowance(now); got != 1 {
		t.Errorf("start allowance %d, want 1", got)
	}
	a.Remove(-1)
	a.Remove(5000)
	a.OnArrival(now, 5000, 1, 1)
	if got := a.Share(now+hungryNanos, 9999); got != 1*gbps*98/100 {
		t.Errorf("share %d when all are gone, want the link less the headroom", got)
	}
}

// A change below 3 % is not a change.
func TestShareHysteresis(t *testing.T) {
	share := int64(1000 * minShareBits)
	for _, step := range []struct{ to, want int64 }{
		{1020, 1000}, {985, 1000}, {1040, 1040}, {1010, 1040}, {1000, 1000}, {0, 1},
	} {
		settle(&share, step.to*minShareBits)
		if share != step.want*minShareBits {
			t.Errorf("towards %d: %d, want %d", step.to, share/minShareBits, step.want)
		}
	}
}
