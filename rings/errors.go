package rings

import (
	"errors"
	"fmt"
)

// ErrCorrupt is what errors.Is finds in the error of a ring whose other side
// published an impossible index.
var ErrCorrupt = errors.New("metaroced: ring: impossible index in shared memory")

// CorruptError describes an impossible index.
type CorruptError struct {
	Producer, Consumer uint32 // as seen by this side: one is its own, one the other side's
	Entries            uint32 // capacity of the ring
	Side               string // whose index is impossible: "producer" or "consumer"
}

// Error names both indices and the size of the ring.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s index is not possible (producer %d, consumer %d, %d entries)",
		ErrCorrupt, e.Side, e.Producer, e.Consumer, e.Entries)
}

// Unwrap makes errors.Is(err, ErrCorrupt) hold.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
