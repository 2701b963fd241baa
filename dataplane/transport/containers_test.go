package transport

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// TestRecvPathModel compares what a path records with the set of all PSNs that
// arrived. It starts below the wrap of PSNs.
func TestRecvPathModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 6))
		var p recvPath
		p.start(3)
		base := wire.PSN(0) - wire.PSN(r.IntN(600))
		p.highest = base - 1
		arrived := map[int64]bool{} // by distance from base
		highest := int64(-1)
		steps := []int64{3, 70, 300}[r.IntN(3)]
		for range 400 {
			at := highest + 1
			switch r.IntN(4) {
			case 0:
				at += r.Int64N(steps)
			case 1:
				at -= r.Int64N(steps)
			}
			if at < 0 {
				continue
			}
			want := psnFilled
			switch {
			case at == highest+1:
				want = psnInOrder
			case at > highest:
				want = psnHole
			case highest-at >= bitvectorPackets:
				want = psnOld
			case arrived[at]:
				want = psnDuplicate
			}
			if got := p.record(base + wire.PSN(at)); got != want {
				t.Fatalf("seed %d: PSN %d after %d is %d, want %d", seed, at, highest, got, want)
			}
			arrived[at] = true
			highest = max(highest, at)
			if p.highest != base+wire.PSN(highest) {
				t.Fatalf("seed %d: highest is %d", seed, p.highest)
			}
			for i := range int64(bitvectorPackets) {
				if got := p.bits[i>>6]>>(i&63)&1 != 0; got != arrived[highest-i] {
					t.Fatalf("seed %d: %d below %d: bit is %v", seed, i, highest, got)
				}
			}
		}
	}
}

// TestRecvPathFarPSN covers jumps that no sender makes: as far as serial
// comparison goes, and beyond.
func TestRecvPathFarPSN(t *testing.T) {
	for _, c := range []struct {
		jump wire.PSN
		want psnResult
		bits [4]uint64
	}{
		{1, psnInOrder, [4]uint64{3}},
		{64, psnHole, [4]uint64{1, 1}},
		{255, psnHole, [4]uint64{1, 0, 0, 1 << 63}},
		{256, psnHole, [4]uint64{1}},
		{1<<31 - 1, psnHole, [4]uint64{1}},
		{1 << 31, psnOld, [4]uint64{1}},
		{^wire.PSN(0) - 255, psnOld, [4]uint64{1}},
		{^wire.PSN(0) - 254, psnFilled, [4]uint64{1, 0, 0, 1 << 63}},
		{0, psnDuplicate, [4]uint64{1}},
	} {
		var p recvPath
		p.start(0)
		p.record(0)
		if got := p.record(c.jump); got != c.want || p.bits != c.bits {
			t.Errorf("PSN %d after 0: %d and %x, want %d and %x", c.jump, got, p.bits, c.want, c.bits)
		}
	}
}

func TestFifoModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		var f fifo[int]
		var model []int
		for i := range 1000 {
			if r.IntN(100) < 40+int(seed%25) {
				f.push(i)
				model = append(model, i)
			} else if len(model) > 0 {
				if got := f.pop(); got != model[0] {
					t.Fatalf("seed %d: popped %d, want %d", seed, got, model[0])
				}
				model = model[1:]
			}
			if f.len() != len(model) {
				t.Fatalf("seed %d: length %d, want %d", seed, f.len(), len(model))
			}
			if len(model) > 0 && (*f.front() != model[0] || *f.back() != model[len(model)-1]) {
				t.Fatalf("seed %d: ends are %d and %d, want %d and %d", seed, *f.front(), *f.back(), model[0], model[len(model)-1])
			}
		}
	}
}

// What left a fifo is not kept alive by it.
func TestFifoForgets(t *testing.T) {
	var f fifo[*int]
	for range 3 {
		f.push(new(int))
		f.pop()
	}
	for i, v := range f.buf {
		if v != nil {
			t.Errorf("place %d still refers to what left", i)
		}
	}
}

// TestHeapModel arms, moves and removes connections and compares the next one
// with a plain search.
func TestHeapModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 8))
		var h deadlineHeap
		conns := make([]*Conn, 1+r.IntN(40))
		model := map[*Conn]int64{}
		for i := range conns {
			conns[i] = &Conn{heapIndex: -1}
		}
		for range 600 {
			c := conns[r.IntN(len(conns))]
			switch at := r.Int64N(50); r.IntN(4) {
			case 0, 1:
				h.arm(c, at)
				if old, ok := model[c]; !ok || at < old {
					model[c] = at
				}
			case 2:
				h.remove(c)
				delete(model, c)
			default:
				h.arm(c, never) // asks for nothing
				if len(model) > 0 {
					c = h.pop()
					for _, at := range model {
						if at < model[c] {
							t.Fatalf("seed %d: popped %d before %d", seed, model[c], at)
						}
					}
					delete(model, c)
				}
			}
			want := never
			for _, at := range model {
				want = min(want, at)
			}
			if h.next() != want || len(h.conns) != len(model) {
				t.Fatalf("seed %d: next is %d of %d, want %d of %d", seed, h.next(), len(h.conns), want, len(model))
			}
			for i, c := range h.conns {
				if c.heapIndex != i || c.deadline != model[c] {
					t.Fatalf("seed %d: place %d says %d at %d, want %d", seed, i, c.heapIndex, c.deadline, model[c])
				}
			}
		}
	}
}

// TestRegionTableModel compares the table with a map. Keys share their low
// bits, so that probe chains are long, meet and wrap around the table's end.
func TestRegionTableModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 9))
		var table regionTable
		limit := 10 + r.IntN(300)
		table.init(limit)
		model := map[uint64]uint32{}
		key := func() uint64 { return uint64(r.IntN(40))<<32 | uint64(60+r.IntN(8)) | uint64(r.IntN(2))<<7 }
		for i := range 2000 {
			k := key()
			_, exists := model[k]
			if r.IntN(3) > 0 {
				err := table.add(Region{Key: k, Owner: uint32(i)})
				switch {
				case exists && err != ErrRegionKey, !exists && len(model) >= limit && err != ErrRegionLimit,
					!exists && len(model) < limit && err != nil:
					t.Fatalf("seed %d: add: %v; %d regions, the limit is %d, exists: %v", seed, err, len(model), limit, exists)
				case err == nil:
					model[k] = uint32(i)
				}
			} else if table.remove(k) != exists {
				t.Fatalf("seed %d: remove(%x) of a key that exists: %v", seed, k, exists)
			} else {
				delete(model, k)
			}
			k = key()
			if g, owner := table.find(k), model[k]; (g != nil) != hasKey(model, k) || g != nil && (g.Key != k || g.Owner != owner) {
				t.Fatalf("seed %d: find(%x) is %+v, want owner %d", seed, k, g, owner)
			}
			if table.count != len(model) {
				t.Fatalf("seed %d: %d regions, want %d", seed, table.count, len(model))
			}
		}
		for k, owner := range model {
			if g := table.find(k); g == nil || g.Owner != owner {
				t.Fatalf("seed %d: %x is lost", seed, k)
			}
		}
		if table.find(0) != nil || table.add(Region{}) != ErrRegionKey || table.remove(0) {
			t.Fatal("key 0 names a region")
		}
	}
}

func hasKey(m map[uint64]uint32, k uint64) bool {
	_, ok := m[k]
	return ok
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		size   int
		offset uint64
		length int
		want   bool
	}{
		{0, 0, 0, true},
		{0, 0, 1, false},
		{10, 10, 0, true},
		{10, 11, 0, false},
		{10, 9, 1, true},
		{10, 9, 2, false},
		{10, ^uint64(0), 0, false},
		{10, ^uint64(0), 2, false},
		{10, 1 << 63, 1, false},
		{10, ^uint64(0) - 4, 10, false},
	} {
		if got := contains(c.size, c.offset, c.length); got != c.want {
			t.Errorf("contains(%d, %d, %d) is %v", c.size, c.offset, c.length, got)
		}
	}
}

// TestSendPathModel takes PSNs and resolves them in any order, across the wrap.
func TestSendPathModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 10))
		first := wire.PSN(0) - wire.PSN(r.IntN(300))
		s := sendPath{next: first, una: first}
		var open []wire.PSN // unresolved, oldest first
		dsn := map[wire.PSN]wire.DSN{}
		for i := range 1000 {
			if len(open) == 0 || s.span() < bitvectorPackets && r.IntN(5) < 3 {
				psn := s.push(sentPacket{dsn: wire.DSN(i), state: sentOut})
				open, dsn[psn] = append(open, psn), wire.DSN(i)
			} else {
				k := r.IntN(min(len(open), 1+r.IntN(100)))
				s.at(open[k]).state = sentAcked
				open = slices.Delete(open, k, k+1)
				s.settle()
			}
			oldest := s.next
			if len(open) > 0 {
				oldest = open[0]
			}
			if s.una != oldest || s.span() != int(int32(s.next-oldest)) {
				t.Fatalf("seed %d: oldest is %d of %d, want %d", seed, s.una, s.next, oldest)
			}
			for _, psn := range open {
				if p := s.at(psn); p.state != sentOut || p.dsn != dsn[psn] {
					t.Fatalf("seed %d: PSN %d is %+v, want DSN %d", seed, psn, *p, dsn[psn])
				}
			}
		}
	}
}

// TestDSNLogModel grows a log while its window moves across 2^32.
func TestDSNLogModel(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 11))
		var l dsnLog
		l.init(1024)
		l.next = 1<<32 - wire.DSN(r.IntN(2000))
		l.cumulative = l.next
		for range 3000 {
			if l.room(0) && r.IntN(5) < 3 {
				d := l.push(dsnRecord{})
				l.at(d).index = uint32(d)
			} else if l.next > l.cumulative {
				l.cumulative += wire.DSN(r.IntN(int(l.next-l.cumulative) + 1))
			}
			if n := l.next - l.cumulative; n > l.window {
				t.Fatalf("seed %d: %d DSNs, the window is %d", seed, n, l.window)
			}
		}
		for d := l.cumulative; d < l.next; d++ {
			if l.at(d).index != uint32(d) {
				t.Fatalf("seed %d: DSN %d has the record of another", seed, d)
			}
		}
	}
}
