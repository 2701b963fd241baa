package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/metaroced/metaroced/dataplane/queue"
	"golang.org/x/sys/unix"
)

// ErrQueueFull is returned by Write when the submission queue is full or as many
// writes are under way as the completion queue has entries. Reap completions,
// then try again; Options.SQEntries and Options.CQEntries set the sizes.
var ErrQueueFull = errors.New("metaroced: queue full: reap completions first, or attach with larger Options.SQEntries and CQEntries")

// Op tells what a completion reports.
type Op = queue.Op

// What completions report.
const (
	OpWrite            = queue.CompletionWrite            // a posted write is over
	OpWriteImmReceived = queue.CompletionWriteImmReceived // a peer's write with immediate is placed
	OpConnClosed       = queue.CompletionConnClosed       // no more completions name Conn
)

// Status is the outcome of an operation; Status.Err puts it into words. The
// values and the errors to compare with are in package dataplane/queue.
type Status = queue.Status

// StatusOK is the Status of success.
const StatusOK = queue.StatusOK

// Completion is one reaped completion.
type Completion struct {
	UserData uint64 // OpWrite: as posted
	Conn     uint32
	Op       Op
	Status   Status
	Stream   uint16
	Imm      uint32 // OpWriteImmReceived
	Bytes    uint64 // payload of the message
}

// Write describes one RDMA WRITE.
type Write struct {
	Stream       uint16
	Local        *Region // may be nil when Length is 0
	LocalOffset  int64   // bytes
	Length       uint32  // bytes
	RemoteKey    uint64  // Region.Key at the peer
	RemoteOffset uint64  // bytes
	Imm          uint32  // delivered to the peer when HasImm
	HasImm       bool
	Fence        bool   // start after all earlier writes of the stream are placed
	UserData     uint64 // comes back in the completion
}

// Write posts w. It returns at once; the outcome comes as one completion of
// OpWrite. An error means that nothing was posted. Like Poll and Wait it is for
// one goroutine at a time. It makes a system call only when the worker sleeps.
func (c *Conn) Write(w Write) error {
	s := c.session
	if s.state.Load() != stateAlive {
		return s.Err()
	}
	if c.closed.Load() {
		return c.Err()
	}
	region, err := w.local(s)
	if err != nil {
		return err
	}
	if s.outstanding >= s.cq.Entries() {
		return ErrQueueFull
	}
	got, err := s.sq.Reserve(1)
	if err != nil {
		return s.broken(err)
	}
	if got == 0 {
		return ErrQueueFull
	}
	var flags uint8
	if w.HasImm {
		flags |= queue.FlagImmediate
	}
	if w.Fence {
		flags |= queue.FlagFence
	}
	*s.sq.Slot(0) = queue.SQE{
		Op:           queue.OpWrite,
		Flags:        flags,
		Stream:       w.Stream,
		Conn:         c.id,
		Region:       region,
		Length:       w.Length,
		LocalOffset:  uint64(w.LocalOffset),
		RemoteKey:    w.RemoteKey,
		RemoteOffset: w.RemoteOffset,
		UserData:     w.UserData,
		Imm:          w.Imm,
	}
	s.sq.Submit(1)
	s.outstanding++
	// After Submit: either the worker sees the entry in its last look before
	// sleeping, or we see that it wants to be woken (see Wait for the argument).
	if s.sq.NeedWakeup() {
		s.wakeWorker()
	}
	return nil
}

// local checks the local side of w and returns the region's number.
func (w *Write) local(s *Session) (uint32, error) {
	if w.Length == 0 {
		return 0, nil
	}
	r := w.Local
	if r == nil || r.session != s || r.memory == nil {
		return 0, fmt.Errorf("metaroced: write: local region is not an open region of this session: %w", queue.ErrLocalAccess)
	}
	if w.LocalOffset < 0 || w.LocalOffset > r.size || int64(w.Length) > r.size-w.LocalOffset {
		return 0, fmt.Errorf("metaroced: write: %d bytes at offset %d of a local region of %d bytes: %w",
			w.Length, w.LocalOffset, r.size, queue.ErrLocalAccess)
	}
	return r.id, nil
}

// wakeByte is what a wake is; only that a packet comes matters.
var wakeByte = [1]byte{1}

// wakeWorker sends a wake. When the socket is full the worker has wakes enough,
// and when it is broken the reader of the control socket finds out.
func (s *Session) wakeWorker() {
	_ = unix.Send(s.wakeFD, wakeByte[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// Poll reaps up to len(out) completions and returns how many. It makes no system
// call and does not allocate. Zero forever may mean that the session has ended:
// see Err. A caller that spins should Yield in every empty round.
func (s *Session) Poll(out []Completion) int {
	if s.state.Load() == stateClosed {
		return 0
	}
	n, err := s.cq.Peek(uint32(min(len(out), int(s.cq.Entries()))))
	if err != nil {
		_ = s.broken(err) // Err reports it
		return 0
	}
	for i := range n {
		e := s.cq.At(i)
		out[i] = Completion{
			UserData: e.UserData,
			Conn:     e.Conn,
			Op:       e.Op,
			Status:   e.Status,
			Stream:   e.Stream,
			Imm:      e.Imm,
			Bytes:    e.Bytes,
		}
		if e.Op == queue.CompletionWrite && s.outstanding > 0 {
			s.outstanding--
		}
	}
	if n > 0 {
		s.cq.Release(n)
	}
	return int(n)
}

// Yield gives the processor to another thread that is ready, if there is one.
// It is what a spinning caller of Poll does when it found nothing: without it a
// spinner keeps the very worker it waits for off the processor. It does not
// give way to goroutines of this process; runtime.Gosched does that.
func Yield() {
	// Raw: the call returns at once, so the scheduler need not know.
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// Wait reaps like Poll, but waits until there is at least one completion. It
// first polls for Options.Spin, then sleeps. The error is that of ctx, or Err
// when the session has ended and nothing is left to reap.
//
// No wake is lost. With F the flags word and P the ring's producer index, this
// side stores F, then loads P (the Poll below); the worker stores P, then loads
// F. All four are sequentially consistent, so they have one order, and in it
// either the worker's store of P comes before our load, and we find the entry,
// or our store of F comes before the worker's load, and it sends a wake, which
// stays in the socket until we poll it. Wakes are drained only before another
// Poll, so draining a wake never hides the entry it was sent for.
func (s *Session) Wait(ctx context.Context, out []Completion) (int, error) {
	if len(out) == 0 {
		return 0, errors.New("metaroced: wait: no room for a completion")
	}
	s.sleeping.Lock()
	defer s.sleeping.Unlock()
	if n := s.pollFor(s.spin, out); n > 0 {
		return n, nil
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, s.wakeSleeper)
		defer stop()
	}
	for {
		if err := s.Err(); err != nil {
			if n := s.Poll(out); n > 0 { // what came before the end
				return n, nil
			}
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		s.cq.SetNeedWakeup(true)
		n := s.Poll(out)
		if n == 0 {
			s.sleep(ctx)
		}
		s.cq.SetNeedWakeup(false)
		if n == 0 {
			n = s.Poll(out)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// pollFor polls at least once, and until d is over or there is something.
func (s *Session) pollFor(d time.Duration, out []Completion) int {
	if n := s.Poll(out); n > 0 || d <= 0 {
		return n
	}
	for start := time.Now(); time.Since(start) < d; {
		Yield()
		if n := s.Poll(out); n > 0 {
			return n
		}
	}
	return 0
}

// sleep blocks until the worker or wakeSleeper sent something, and takes it off.
func (s *Session) sleep(ctx context.Context) {
	fds := [2]unix.PollFd{
		{Fd: int32(s.wakeFD), Events: unix.POLLIN},
		{Fd: int32(s.interruptFD), Events: unix.POLLIN},
	}
	if _, err := unix.Poll(fds[:], -1); err != nil { // EINTR: the caller looks and comes back
		return
	}
	var buf [8]byte
	if fds[1].Revents != 0 {
		_, _ = unix.Read(s.interruptFD, buf[:]) // sets the counter to zero
	}
	if fds[0].Revents&unix.POLLIN != 0 {
		s.drainWakes(buf[:])
	} else if fds[0].Revents != 0 {
		// The daemon's end is gone, and the control socket is about to be.
		select {
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// drainWakes takes wakes off the socket. What a bounded number leaves behind
// costs one needless look at the ring.
func (s *Session) drainWakes(buf []byte) {
	for range 64 {
		if n, err := unix.Read(s.wakeFD, buf); err != nil || n == 0 {
			return
		}
	}
}

// broken ends the session because a ring cannot be trusted any more.
func (s *Session) broken(err error) error {
	s.fail(fmt.Errorf("metaroced: queues shared with the daemon: %w", err))
	return s.Err()
}
