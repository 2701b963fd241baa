package umem

import (
	"errors"
	"fmt"
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrFrameState: a frame is not in the state the caller says it is in.
	ErrFrameState = errors.New("metaroced: umem: frame is in another state")
	// ErrForeignFrame: an address lies in no frame of the pool.
	ErrForeignFrame = errors.New("metaroced: umem: frame of another pool")
	// ErrNoSlabs: the arena has no fitting slabs left for this tenant. The caller
	// makes a plain region instead.
	ErrNoSlabs = errors.New("metaroced: umem: no fitting slabs left in the arena")
	// ErrNoMemory: the machine, or the control group, has not enough memory.
	ErrNoMemory = errors.New("metaroced: umem: not enough memory")
	// ErrMemlock: the limit of locked memory is too low to register the arena.
	ErrMemlock = errors.New("metaroced: umem: limit of locked memory too low")
	// ErrFreed: the region, pool or arena was freed before.
	ErrFreed = errors.New("metaroced: umem: already freed")
	// ErrInUse: something still uses the arena or pool that is to be closed.
	ErrInUse = errors.New("metaroced: umem: still in use")
)

// FrameStateError tells which frame was refused and why. errors.Is finds
// ErrFrameState in it.
type FrameStateError struct {
	Addr     uint64 // start of the frame, offset in the arena
	From, To State  // the move that was asked for
	Actual   State  // the state the frame is in
}

// Error names the frame, the move and the state the frame is in.
func (e *FrameStateError) Error() string {
	return fmt.Sprintf("%v: frame %#x cannot go from %v to %v, it is %v", ErrFrameState, e.Addr, e.From, e.To, e.Actual)
}

// Unwrap makes errors.Is(err, ErrFrameState) hold.
func (e *FrameStateError) Unwrap() error { return ErrFrameState }

// mebibytes renders a size for an operator.
func mebibytes(bytes int64) string {
	return fmt.Sprintf("%.1f MiB (%d bytes)", float64(bytes)/(1<<20), bytes)
}
