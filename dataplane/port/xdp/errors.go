package xdp

import (
	"errors"
	"fmt"
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrUnsuitable: the interface is of a kind AF_XDP cannot serve.
	ErrUnsuitable = errors.New("interface is not suitable")
	// ErrNoInterface: there is no interface of that name.
	ErrNoInterface = errors.New("no such interface")
	// ErrNoQueue: the interface has no queue of that number.
	ErrNoQueue = errors.New("no such queue")
	// ErrMTU: the interface's packets do not fit a frame.
	ErrMTU = errors.New("MTU too large for a frame")
	// ErrZeroCopy: zero-copy is required but cannot be had.
	ErrZeroCopy = errors.New("zero-copy is required but not possible")
	// ErrQueueBusy: somebody else has the queue.
	ErrQueueBusy = errors.New("device busy")
	// ErrClosed: the group is closed.
	ErrClosed = errors.New("metaroced: group of ports is closed")
)

// CapabilityError names a capability the process lacks.
type CapabilityError struct {
	Name string // as in capabilities(7)
	Use  string // what it is needed for
}

// Error says what is missing, what for and where to get it.
func (e *CapabilityError) Error() string {
	return fmt.Sprintf("%s is needed to %s; run as root or grant it (systemd: AmbientCapabilities=%s)", e.Name, e.Use, e.Name)
}
