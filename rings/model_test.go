package rings

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestAgainstQueue runs random calls on both sides of a ring and on the simplest
// queue there is, from starts around the index wrap and with several sizes.
func TestAgainstQueue(t *testing.T) {
	for _, entries := range []uint32{1, 2, 8, 64} {
		for seed := range uint64(20) {
			random := rand.New(rand.NewPCG(seed, uint64(entries)))
			r := newPair(t, entries, -random.Uint32N(200))
			m := &model{pair: r, capacity: entries}
			for range 2000 {
				m.step(t, random)
			}
			if m.nextRead == 0 {
				t.Fatalf("%d entries, seed %d: nothing went through", entries, seed)
			}
		}
	}
}

// model is the queue the ring must behave like.
type model struct {
	*pair
	capacity  uint32
	reserved  uint32   // taken, not submitted
	queue     []uint64 // submitted, not released
	nextWrite uint64
	nextRead  uint64
}

func (m *model) step(t *testing.T, random *rand.Rand) {
	n := random.Uint32N(m.capacity + 2)
	switch random.IntN(4) {
	case 0:
		want := min(n, m.capacity-m.reserved-uint32(len(m.queue)))
		m.pair.reserve(t, n, want)
		m.reserved += want
	case 1:
		n = min(n, m.reserved)
		for i := range n {
			*m.p.Slot(i) = makeEntry(m.nextWrite)
			m.queue = append(m.queue, m.nextWrite)
			m.nextWrite++
		}
		m.p.Submit(n)
		m.reserved -= n
	case 2:
		n = min(n, m.reserved)
		m.p.Unreserve(n)
		m.reserved -= n
	case 3:
		want := min(n, uint32(len(m.queue)))
		m.pair.peek(t, n, want)
		for i := range want {
			if got := m.c.At(i); got != makeEntry(m.queue[i]) || m.queue[i] != m.nextRead+uint64(i) {
				t.Fatalf("entry %d is %+v, want sequence %d", i, got, m.queue[i])
			}
		}
		n = random.Uint32N(want + 1)
		m.c.Release(n)
		m.queue = m.queue[n:]
		m.nextRead += uint64(n)
	}
	if free := m.p.Free(); free != m.capacity-m.reserved-uint32(len(m.queue)) {
		t.Fatalf("Free() = %d with %d reserved and %d queued of %d", free, m.reserved, len(m.queue), m.capacity)
	}
}

// TestConcurrent has both sides run at once over memory that the race detector
// sees, once around the index wrap.
func TestConcurrent(t *testing.T) {
	const total = 50_000
	r := newPair(t, 16, ^uint32(0)-total/2)
	var sides sync.WaitGroup
	sides.Go(func() {
		for sent := uint64(0); sent < total; {
			n, err := r.p.Reserve(uint32(1 + sent%20))
			if err != nil {
				t.Error(err)
				return
			}
			if n == 0 {
				runtime.Gosched()
				continue
			}
			for i := range n {
				*r.p.Slot(i) = makeEntry(sent + uint64(i))
			}
			publish := 1 + uint32(sent)%n
			r.p.Submit(publish)
			r.p.Unreserve(n - publish)
			sent += uint64(publish)
		}
	})
	sides.Go(func() {
		for read := uint64(0); read < total; {
			n, err := r.c.Peek(uint32(1 + read%9))
			if err != nil {
				t.Error(err)
				return
			}
			if n == 0 {
				runtime.Gosched()
				continue
			}
			for i := range n {
				if e := r.c.At(i); e != makeEntry(read+uint64(i)) {
					t.Errorf("read %+v, want sequence %d", e, read+uint64(i))
					return
				}
			}
			r.c.Release(n)
			read += uint64(n)
		}
	})
	sides.Wait()
}

// descriptor has the shape of struct xdp_desc.
type descriptor struct {
	Addr         uint64
	Len, Options uint32
}

// kernelMove is what a kernel does between two rings of an AF_XDP socket: take
// one entry, if there is one and room for it, and pass it on. It uses nothing of
// this package but the addresses of the words.
func kernelMove[A, B any](from shared[A], to shared[B], convert func(A) B) bool {
	consumer, producer := atomic.LoadUint32(from.consumer), atomic.LoadUint32(to.producer)
	if consumer == atomic.LoadUint32(from.producer) ||
		producer == atomic.LoadUint32(to.consumer)+uint32(len(to.slots)) {
		return false
	}
	to.slots[producer%uint32(len(to.slots))] = convert(from.slots[consumer%uint32(len(from.slots))])
	atomic.StoreUint32(to.producer, producer+1)
	atomic.StoreUint32(from.consumer, consumer+1)
	return true
}

// kernelRing makes the memory of one ring and both views of it, its indices just
// before their wrap.
func kernelRing[T any](t *testing.T, entries uint32, entryBytes uintptr) ([]byte, Layout, shared[T]) {
	t.Helper()
	l, total := AppLayout(entries, entryBytes)
	mem := make([]byte, total)
	raw, err := attach[T](mem, l)
	if err != nil {
		t.Fatal(err)
	}
	*raw.producer, *raw.consumer = ^uint32(99), ^uint32(99)
	return mem, l, raw
}

// TestSocketAgainstKernel has frames circulate through the four rings of a
// socket: fill, received, sent, completed and filled again.
func TestSocketAgainstKernel(t *testing.T) {
	const frames, rounds = 32, 20_000
	fillMem, fillLayout, kernelFill := kernelRing[uint64](t, 64, 8)
	rxMem, rxLayout, kernelRx := kernelRing[descriptor](t, 16, 16)
	txMem, txLayout, kernelTx := kernelRing[descriptor](t, 8, 16)
	doneMem, doneLayout, kernelDone := kernelRing[uint64](t, 32, 8)

	fill, err1 := NewProducer[uint64](fillMem, fillLayout)
	rx, err2 := NewConsumer[descriptor](rxMem, rxLayout)
	tx, err3 := NewProducer[descriptor](txMem, txLayout)
	done, err4 := NewConsumer[uint64](doneMem, doneLayout)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}

	var stop atomic.Bool
	var other sync.WaitGroup
	other.Go(func() {
		for !stop.Load() {
			received := kernelMove(kernelFill, kernelRx, func(addr uint64) descriptor { return descriptor{Addr: addr, Len: uint32(addr)} })
			sent := kernelMove(kernelTx, kernelDone, func(d descriptor) uint64 { return d.Addr })
			if !received && !sent {
				runtime.Gosched()
			}
		}
	})
	defer other.Wait()
	defer stop.Store(true)

	ready := make([]uint64, 0, frames) // for the fill ring
	for i := range uint64(frames) {
		ready = append(ready, i<<12)
	}
	var out [frames]bool // which frames are on some ring
	for completed := 0; completed < rounds; {
		n, err := fill.Reserve(uint32(len(ready)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			*fill.Slot(i) = ready[i]
			out[ready[i]>>12] = true
		}
		fill.Submit(n)
		ready = append(ready[:0], ready[n:]...)

		received, err := rx.Peek(8)
		if err != nil {
			t.Fatal(err)
		}
		room, err := tx.Reserve(received)
		if err != nil {
			t.Fatal(err)
		}
		for i := range room {
			d := rx.At(i)
			if d.Len != uint32(d.Addr) || !out[d.Addr>>12] {
				t.Fatalf("received %+v", d)
			}
			*tx.Slot(i) = d
		}
		tx.Submit(room)
		rx.Release(room)

		n, err = done.Peek(frames)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			addr := done.At(i)
			if !out[addr>>12] {
				t.Fatalf("frame %#x completed twice", addr)
			}
			out[addr>>12] = false
			ready = append(ready, addr)
		}
		done.Release(n)
		completed += int(n)
		if n == 0 {
			runtime.Gosched()
		}
	}
}
