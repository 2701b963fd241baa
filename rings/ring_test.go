package rings

import (
	"errors"
	"testing"
)

// entry is the size of a submission queue entry, with a check over its words.
type entry struct {
	Sequence, Inverse uint64
	Rest              [6]uint64
}

func makeEntry(sequence uint64) entry {
	e := entry{Sequence: sequence, Inverse: ^sequence}
	for i := range e.Rest {
		e.Rest[i] = sequence + uint64(i)
	}
	return e
}

// pair is a ring over heap memory, both sides in this process.
type pair struct {
	mem    []byte
	layout Layout
	p      *Producer[entry]
	c      *Consumer[entry]
	raw    shared[entry] // what a hostile side can write to
}

// newPair makes a ring whose indices start at start.
func newPair(t testing.TB, entries, start uint32) *pair {
	t.Helper()
	l, total := AppLayout(entries, 64)
	r := &pair{mem: make([]byte, total), layout: l}
	raw, err := attach[entry](r.mem, l)
	if err != nil {
		t.Fatal(err)
	}
	r.raw = raw
	*raw.producer, *raw.consumer = start, start
	r.attach(t)
	return r
}

// attach makes both sides anew from what the memory says.
func (r *pair) attach(t testing.TB) {
	t.Helper()
	var err error
	if r.p, err = NewProducer[entry](r.mem, r.layout); err != nil {
		t.Fatal(err)
	}
	if r.c, err = NewConsumer[entry](r.mem, r.layout); err != nil {
		t.Fatal(err)
	}
}

func (r *pair) reserve(t testing.TB, n, want uint32) {
	t.Helper()
	got, err := r.p.Reserve(n)
	if err != nil || got != want {
		t.Fatalf("Reserve(%d) = %d, %v; want %d", n, got, err, want)
	}
}

func (r *pair) peek(t testing.TB, n, want uint32) {
	t.Helper()
	got, err := r.c.Peek(n)
	if err != nil || got != want {
		t.Fatalf("Peek(%d) = %d, %v; want %d", n, got, err, want)
	}
}

func TestReserveMoreThanSubmitted(t *testing.T) {
	r := newPair(t, 8, ^uint32(0)-3) // wraps on the way
	r.reserve(t, 5, 5)
	for i := range uint32(5) {
		*r.p.Slot(i) = makeEntry(uint64(i))
	}
	r.peek(t, 8, 0)
	r.p.Submit(2)
	r.peek(t, 8, 2)
	r.reserve(t, 8, 3) // adds to the three still held
	for i := range uint32(3) {
		*r.p.Slot(3 + i) = makeEntry(uint64(5 + i))
	}
	r.reserve(t, 1, 0)
	if free := r.p.Free(); free != 0 {
		t.Fatalf("Free() = %d with everything reserved", free)
	}
	r.p.Unreserve(1)
	r.p.Submit(5)
	r.peek(t, 100, 7)
	r.peek(t, 3, 3)
	for i := range uint32(7) {
		if got := r.c.At(i); got != makeEntry(uint64(i)) {
			t.Fatalf("entry %d = %+v", i, got)
		}
	}
	r.c.Release(4)
	if free := r.p.Free(); free != 5 {
		t.Fatalf("Free() = %d, want 5", free)
	}
	r.peek(t, 100, 3)
	if got := r.c.At(0); got.Sequence != 4 {
		t.Fatalf("oldest entry after release is %d, want 4", got.Sequence)
	}
}

func TestNeedWakeup(t *testing.T) {
	r := newPair(t, 8, 0)
	for _, need := range []bool{false, true, true, false} {
		r.c.SetNeedWakeup(need)
		if r.p.NeedWakeup() != need {
			t.Fatalf("NeedWakeup() = %v, want %v", !need, need)
		}
	}
	*r.raw.flags = 0xfffffffe // bits that are not ours
	if r.p.NeedWakeup() {
		t.Fatal("NeedWakeup() looks at foreign bits")
	}
}

// TestOverclaimPanics covers the caller's own mistakes, which would hand slots
// to the other side that hold nothing.
func TestOverclaimPanics(t *testing.T) {
	for name, call := range map[string]func(*pair){
		"submit":    func(r *pair) { r.p.Submit(3) },
		"unreserve": func(r *pair) { r.p.Unreserve(3) },
		"release":   func(r *pair) { r.c.Release(1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newPair(t, 8, 0)
			r.reserve(t, 2, 2)
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			call(r)
		})
	}
}

func TestImpossibleIndex(t *testing.T) {
	start := ^uint32(0) - 2 // the indices wrap on the way
	// Eight entries, six submitted, of which four released and two readable.
	for _, tc := range []struct {
		name               string
		producer, consumer uint32 // relative to start
		produceOK, readOK  bool
	}{
		{"as it is", 6, 4, true, true},
		{"both at their limits", 12, 6, true, true},
		{"producer beyond the ring", 13, 4, true, false},
		{"producer moved back", 5, 4, true, false},
		{"producer behind the consumer", 3, 4, true, false},
		{"producer far away", 1 << 31, 4, true, false},
		{"consumer beyond the producer", 6, 7, false, true},
		{"consumer moved back", 6, 3, false, true},
		{"consumer far away", 6, 1 << 31, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPair(t, 8, start)
			r.reserve(t, 6, 6)
			r.p.Submit(6)
			r.peek(t, 6, 6)
			r.c.Release(4)
			r.reserve(t, 6, 6) // makes the producer see index 4
			r.p.Unreserve(6)

			*r.raw.producer, *r.raw.consumer = start+tc.producer, start+tc.consumer
			got, err := r.p.Reserve(8)
			checkCorrupt(t, "Reserve", got, err, tc.produceOK)
			got, err = r.c.Peek(8)
			checkCorrupt(t, "Peek", got, err, tc.readOK)

			// What the other side does to our own index changes nothing.
			*r.raw.producer, *r.raw.consumer = start+6, start+4
			r.peek(t, 1, 1)
		})
	}
}

func checkCorrupt(t *testing.T, call string, got uint32, err error, wantOK bool) {
	t.Helper()
	switch corrupt := (*CorruptError)(nil); {
	case wantOK && err != nil:
		t.Fatalf("%s: %v", call, err)
	case !wantOK && (!errors.Is(err, ErrCorrupt) || got != 0):
		t.Fatalf("%s = %d, %v; want ErrCorrupt", call, got, err)
	case !wantOK && (!errors.As(err, &corrupt) || corrupt.Entries != 8):
		t.Fatalf("%s: error %v does not describe the indices", call, err)
	}
}

// TestMovedInMemory keeps two rings going while their memory is exchanged, as
// when a process maps the same rings again elsewhere.
func TestMovedInMemory(t *testing.T) {
	a, b := newPair(t, 8, ^uint32(0)-5), newPair(t, 32, 7)
	var sentA, readA, sentB, readB uint64
	for range 50 {
		sentA, readA = a.step(t, 6, 4, sentA, readA)
		sentB, readB = b.step(t, 20, 17, sentB, readB)
		memA, memB := a.mem, b.mem
		a.mem, b.mem = append(make([]byte, 0, len(memA)), memA...), append(make([]byte, 0, len(memB)), memB...)
		clear(memA)
		clear(memB)
		a.attach(t)
		b.attach(t)
	}
	if readA == 0 || readB == 0 {
		t.Fatal("nothing moved")
	}
}

// step sends up to n entries and reads up to m, checking their order.
func (r *pair) step(t *testing.T, n, m uint32, sent, read uint64) (uint64, uint64) {
	t.Helper()
	got, err := r.p.Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		*r.p.Slot(i) = makeEntry(sent)
		sent++
	}
	r.p.Submit(got)
	got, err = r.c.Peek(m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if e := r.c.At(i); e != makeEntry(read) {
			t.Fatalf("read %+v, want sequence %d", e, read)
		}
		read++
	}
	r.c.Release(got)
	return sent, read
}

func TestNoAllocation(t *testing.T) {
	r := newPair(t, 64, 0)
	allocs := testing.AllocsPerRun(100, func() {
		n, _ := r.p.Reserve(32)
		for i := range n {
			r.p.Slot(i).Sequence = uint64(i)
		}
		r.p.Submit(n)
		n, _ = r.c.Peek(32)
		var sum uint64
		for i := range n {
			sum += r.c.At(i).Sequence
		}
		if sum != 31*32/2 || r.p.NeedWakeup() {
			t.Error("wrong content")
		}
		r.c.Release(n)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations per run", allocs)
	}
}

// BenchmarkEntry measures one entry of a 64-entry batch through the ring.
func BenchmarkEntry(b *testing.B) {
	r := newPair(b, 256, 0)
	var sum uint64
	for b.Loop() {
		n, _ := r.p.Reserve(64)
		for i := range n {
			r.p.Slot(i).Sequence = uint64(i)
		}
		r.p.Submit(n)
		n, _ = r.c.Peek(64)
		for i := range n {
			e := r.c.At(i)
			sum += e.Sequence
		}
		r.c.Release(n)
	}
	if sum == 0 {
		b.Fatal("nothing went through")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/entry")
}
