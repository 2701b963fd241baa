package dataplane

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrStopped says that the dataplane is shutting down.
var ErrStopped = errors.New("metaroced: the daemon is stopping")

// mailbox carries requests of other goroutines into the worker, which owns all
// protocol state. The worker pays one atomic load per loop while it is empty.
type mailbox struct {
	wakeFD  int // eventfd that ends the worker's sleep
	waiting atomic.Bool
	mu      sync.Mutex
	queue   []func()
	closed  bool
}

func (m *mailbox) init() error {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("metaroced: eventfd: %w", err)
	}
	m.wakeFD = fd
	return nil
}

// do runs f on the worker and returns when it has run.
func (m *mailbox) do(f func()) error {
	done := make(chan struct{})
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrStopped
	}
	m.queue = append(m.queue, func() {
		defer close(done)
		f()
	})
	m.waiting.Store(true)
	m.mu.Unlock()
	m.wake()
	<-done
	return nil
}

// wake ends the worker's sleep.
func (m *mailbox) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(m.wakeFD, one[:]) // full means it is awake already
}

// serve runs what waits. Worker only.
func (m *mailbox) serve() {
	if !m.waiting.Load() {
		return
	}
	m.mu.Lock()
	queue := m.queue
	m.queue = nil
	m.waiting.Store(false)
	m.mu.Unlock()
	for _, f := range queue {
		f()
	}
}

// drain empties the eventfd after a sleep.
func (m *mailbox) drain() {
	var b [8]byte
	_, _ = unix.Read(m.wakeFD, b[:])
}

// close refuses further requests and runs those that wait.
func (m *mailbox) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.serve()
}
