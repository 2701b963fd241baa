package rings

import "sync/atomic"

// flagNeedWakeup is bit 0 of the flags word: the consumer sleeps and wants to be
// woken after a submit. The kernel calls it XDP_RING_NEED_WAKEUP.
const flagNeedWakeup = 1

// Producer is the producing side of a ring. It is for one goroutine at a time.
//
// Life of a slot: Reserve, write through Slot, Submit. Reservations accumulate
// until they are submitted, oldest first, or given back, newest first.
type Producer[T any] struct {
	shared[T]
	mask      uint32
	submitted uint32 // private copy of the published producer index
	reserved  uint32 // index behind the newest reserved slot
	consumed  uint32 // consumer index as last read and checked
}

// NewProducer attaches to the producing side of the ring that l describes inside
// mem. T must hold no pointers and its size be a multiple of 8 bytes.
//
// The indices found in mem are where the ring goes on. It is an error when they,
// the layout or the alignment are impossible.
func NewProducer[T any](mem []byte, l Layout) (*Producer[T], error) {
	s, err := attach[T](mem, l)
	if err != nil {
		return nil, err
	}
	p := &Producer[T]{
		shared:    s,
		mask:      l.Entries - 1,
		submitted: atomic.LoadUint32(s.producer),
		consumed:  atomic.LoadUint32(s.consumer),
	}
	p.reserved = p.submitted
	if p.submitted-p.consumed > l.Entries {
		return nil, p.corrupt(p.consumed)
	}
	return p, nil
}

// Reserve takes up to n free slots and returns how many it got. They are not
// visible to the consumer before Submit. The error is ErrCorrupt, with no slot
// taken, when the consumer's index is impossible.
func (p *Producer[T]) Reserve(n uint32) (got uint32, err error) {
	free := p.cachedFree()
	if free < n {
		if err := p.refresh(); err != nil {
			return 0, err
		}
		free = p.cachedFree()
	}
	got = min(n, free)
	p.reserved += got
	return got, nil
}

// Slot returns the i-th oldest reserved slot, for writing. i is below the number
// of reserved slots not yet submitted. The pointer is dead after the Submit or
// Unreserve that covers it.
func (p *Producer[T]) Slot(i uint32) *T {
	return &p.slots[(p.submitted+i)&p.mask]
}

// Submit publishes the n oldest reserved slots with one release store. It panics
// when fewer are reserved, since the consumer would read slots nobody wrote.
func (p *Producer[T]) Submit(n uint32) {
	if n > p.reserved-p.submitted {
		panic("rings: submit of more slots than are reserved")
	}
	p.submitted += n
	atomic.StoreUint32(p.producer, p.submitted)
}

// Unreserve gives the n newest reserved slots back. It panics when fewer are
// reserved.
func (p *Producer[T]) Unreserve(n uint32) {
	if n > p.reserved-p.submitted {
		panic("rings: unreserve of more slots than are reserved")
	}
	p.reserved -= n
}

// NeedWakeup reports whether the consumer asked to be woken. Call it after
// Submit: then either the consumer sees the new entries before it sleeps, or
// this sees its request.
func (p *Producer[T]) NeedWakeup() bool {
	return atomic.LoadUint32(p.flags)&flagNeedWakeup != 0
}

// Entries is the capacity of the ring.
func (p *Producer[T]) Entries() uint32 { return p.mask + 1 }

// Free returns how many slots can be reserved now. With an impossible consumer
// index it returns what was known before; Reserve reports that error.
func (p *Producer[T]) Free() uint32 {
	_ = p.refresh() // the state is unchanged on error, and Reserve will say so
	return p.cachedFree()
}

func (p *Producer[T]) cachedFree() uint32 {
	return p.Entries() - (p.reserved - p.consumed)
}

// refresh reads the consumer's index. Between its last value and what was
// submitted is all the room it has.
func (p *Producer[T]) refresh() error {
	consumed := atomic.LoadUint32(p.consumer)
	if p.submitted-consumed > p.submitted-p.consumed {
		return p.corrupt(consumed)
	}
	p.consumed = consumed
	return nil
}

func (p *Producer[T]) corrupt(consumed uint32) error {
	return &CorruptError{Producer: p.submitted, Consumer: consumed, Entries: p.Entries(), Side: "consumer"}
}
