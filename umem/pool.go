package umem

import (
	"fmt"
	"math/bits"
)

// State says who owns a frame.
type State uint8

// States of a frame; the picture in the package documentation shows the moves.
const (
	Free    State = iota // in the pool
	Fill                 // on a fill ring: the kernel's, to receive into
	Rx                   // received: the worker's, to read
	Tx                   // on a transmit or completion ring: the kernel's, to send from
	Pending              // taken from the pool: the worker's, to fill

	// NumStates is the number of states.
	NumStates = 5
)

// String names the state.
func (s State) String() string {
	if int(s) < NumStates {
		return [NumStates]string{"free", "fill", "rx", "tx", "pending"}[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Pool is a fixed set of frames of the arena with the state of each. It is for
// one goroutine at a time. Get, Put and Move take constant time per frame and do
// not allocate unless they return an error.
//
// Frames are named by their address: a byte offset in the arena, as in AF_XDP
// descriptors. Any address inside a frame names it, since received packets start
// behind a headroom.
type Pool struct {
	arena  *Arena // nil after Close
	first  uint64 // index of the pool's first frame in the arena
	shift  uint   // log2 of the frame size in bytes
	states []State
	free   []uint32 // indices in states; used as a stack, so that warm frames go first
	counts [NumStates]uint64
}

func newPool(arena *Arena, first, frames uint32, frameSize uint32) *Pool {
	p := &Pool{
		arena:  arena,
		first:  uint64(first),
		shift:  uint(bits.TrailingZeros32(frameSize)),
		states: make([]State, frames),
		free:   make([]uint32, 0, frames),
	}
	p.Reclaim()
	return p
}

// Frames is the size of the pool.
func (p *Pool) Frames() uint32 { return uint32(len(p.states)) }

// Get takes up to len(addrs) free frames, writes the address of the start of each
// to addrs and returns how many it took. They are Pending from then on.
func (p *Pool) Get(addrs []uint64) int {
	n := min(len(addrs), len(p.free))
	left := len(p.free) - n
	for i, index := range p.free[left:] {
		p.states[index] = Pending
		addrs[i] = (p.first + uint64(index)) << p.shift
	}
	p.free = p.free[:left]
	p.counts[Free] -= uint64(n)
	p.counts[Pending] += uint64(n)
	return n
}

// Put gives the frame at addr, which the caller holds in state from, back to the
// pool. It fails with ErrFrameState when the frame is in another state, and with
// ErrForeignFrame when it is not one of the pool's; nothing changes then.
func (p *Pool) Put(addr uint64, from State) error {
	index := addr>>p.shift - p.first
	if index >= uint64(len(p.states)) {
		return p.foreign(addr)
	}
	if p.states[index] != from || from == Free {
		return p.wrongState(index, from, Free)
	}
	p.states[index] = Free
	p.counts[from]--
	p.counts[Free]++
	p.free = append(p.free, uint32(index)) // within capacity: each frame is free once
	return nil
}

// Move changes the state of the frame at addr. Frames leave Free by Get and
// enter it by Put only. Errors are those of Put.
func (p *Pool) Move(addr uint64, from, to State) error {
	index := addr>>p.shift - p.first
	if index >= uint64(len(p.states)) {
		return p.foreign(addr)
	}
	if p.states[index] != from || from == Free || to == Free || to >= NumStates {
		return p.wrongState(index, from, to)
	}
	p.states[index] = to
	p.counts[from]--
	p.counts[to]++
	return nil
}

// State returns the state of the frame at addr; ok is false when the frame is
// not one of the pool's.
func (p *Pool) State(addr uint64) (s State, ok bool) {
	index := addr>>p.shift - p.first
	if index >= uint64(len(p.states)) {
		return Free, false
	}
	return p.states[index], true
}

// Counts returns the number of frames in each state. Their sum is Frames.
func (p *Pool) Counts() [NumStates]uint64 { return p.counts }

// Leaked returns how many frames are out of the pool beyond those that the caller
// can account for: held is what it knows to be on its rings and in its hands, by
// state. A port without traffic has its fill ring's frames and nothing else.
func (p *Pool) Leaked(held [NumStates]uint64) uint64 {
	var leaked uint64
	for state := Fill; state < NumStates; state++ {
		if p.counts[state] > held[state] {
			leaked += p.counts[state] - held[state]
		}
	}
	return leaked
}

// Reclaim makes every frame free, whatever its state, and returns how many were
// in each state before. It is for the time after the sockets that held them are
// closed and unmapped, when the kernel has let go of them.
func (p *Pool) Reclaim() (before [NumStates]uint64) {
	before = p.counts
	clear(p.states)
	p.free = p.free[:0]
	for index := len(p.states) - 1; index >= 0; index-- {
		p.free = append(p.free, uint32(index)) // lowest address on top
	}
	p.counts = [NumStates]uint64{Free: uint64(len(p.states))}
	return before
}

// Close gives the frames back to the arena. It fails with ErrInUse while frames
// are not free (see Reclaim), and with ErrFreed when called again.
func (p *Pool) Close() error {
	if p.arena == nil {
		return fmt.Errorf("%w: frame pool", ErrFreed)
	}
	if out := p.Leaked([NumStates]uint64{}); out > 0 {
		return fmt.Errorf("%w: %d of %d frames are not back in their pool: %v", ErrInUse, out, len(p.states), p.countsText())
	}
	p.arena.returnFrames(uint32(p.first), p.Frames())
	*p = Pool{}
	return nil
}

func (p *Pool) countsText() string {
	text := ""
	for state := Fill; state < NumStates; state++ {
		text += fmt.Sprintf(" %d %v", p.counts[state], state)
	}
	return text[1:]
}

func (p *Pool) wrongState(index uint64, from, to State) error {
	return &FrameStateError{Addr: (p.first + index) << p.shift, From: from, To: to, Actual: p.states[index]}
}

func (p *Pool) foreign(addr uint64) error {
	return fmt.Errorf("%w: address %#x, the pool has frames %#x to %#x", ErrForeignFrame,
		addr, p.first<<p.shift, (p.first+uint64(len(p.states)))<<p.shift)
}
