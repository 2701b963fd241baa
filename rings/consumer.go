package rings

import "sync/atomic"

// Consumer is the consuming side of a ring. It is for one goroutine at a time.
//
// Life of an entry: Peek, copy out with At, Release.
type Consumer[T any] struct {
	shared[T]
	mask     uint32
	released uint32 // private copy of the published consumer index
	produced uint32 // producer index as last read and checked
}

// NewConsumer attaches to the consuming side of the ring that l describes inside
// mem. T must hold no pointers and its size be a multiple of 8 bytes.
//
// The indices found in mem are where the ring goes on. It is an error when they,
// the layout or the alignment are impossible.
func NewConsumer[T any](mem []byte, l Layout) (*Consumer[T], error) {
	s, err := attach[T](mem, l)
	if err != nil {
		return nil, err
	}
	c := &Consumer[T]{
		shared:   s,
		mask:     l.Entries - 1,
		released: atomic.LoadUint32(s.consumer),
	}
	c.produced = c.released
	if err := c.refresh(); err != nil {
		return nil, err
	}
	return c, nil
}

// Peek returns how many entries can be read with At, at most limit. Called again
// without Release it counts the same entries again. The error is ErrCorrupt, with
// n zero, when the producer's index is impossible.
func (c *Consumer[T]) Peek(limit uint32) (n uint32, err error) {
	if c.produced-c.released < limit {
		if err := c.refresh(); err != nil {
			return 0, err
		}
	}
	return min(limit, c.produced-c.released), nil
}

// At returns a copy of the i-th oldest entry not yet released. i is below what
// Peek returned. The other side may change the entry at any time: copy once,
// then check the copy.
func (c *Consumer[T]) At(i uint32) T {
	return c.slots[(c.released+i)&c.mask]
}

// Release hands the n oldest slots back to the producer with one release store.
// It panics when fewer were peeked, since the producer would be told of reads
// that did not happen.
func (c *Consumer[T]) Release(n uint32) {
	if n > c.produced-c.released {
		panic("rings: release of more entries than were peeked")
	}
	c.released += n
	atomic.StoreUint32(c.consumer, c.released)
}

// SetNeedWakeup tells the producer whether to wake this side after a submit. It
// is for rings between daemon and application, where the consumer owns the flags
// word; in AF_XDP rings the kernel does.
//
// To sleep: SetNeedWakeup(true), then Peek once more, and sleep only when that
// found nothing. Store and load are sequentially consistent on both sides, so no
// entry is missed. After waking: SetNeedWakeup(false).
func (c *Consumer[T]) SetNeedWakeup(need bool) {
	var word uint32
	if need {
		word = flagNeedWakeup
	}
	atomic.StoreUint32(c.flags, word)
}

// Entries is the capacity of the ring.
func (c *Consumer[T]) Entries() uint32 { return c.mask + 1 }

// refresh reads the producer's index. It can be neither behind its last value
// nor more than the ring's capacity ahead of what was released.
func (c *Consumer[T]) refresh() error {
	produced := atomic.LoadUint32(c.producer)
	ahead := produced - c.released
	if ahead > c.Entries() || ahead < c.produced-c.released {
		return &CorruptError{Producer: produced, Consumer: c.released, Entries: c.Entries(), Side: "producer"}
	}
	c.produced = produced
	return nil
}
