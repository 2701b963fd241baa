package dataplane

import (
	"fmt"

	"github.com/metaroced/metaroced/dataplane/queue"
	"github.com/metaroced/metaroced/dataplane/transport"
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/rings"
	"golang.org/x/sys/unix"
)

const (
	// sqBatch is how many submissions of one session a worker takes per loop, so
	// that sessions share it round-robin.
	sqBatch = 16
	// idleNanos is how long an unused submission queue is looked at before the
	// worker asks to be woken instead.
	idleNanos = 1_000_000
	// maxIdleWakes is how many wakes without work a session may send in a row
	// before its wake socket is ignored for restNanos.
	maxIdleWakes = 64
	restNanos    = 1_000_000
)

// appQueue is the worker's side of one session: its two rings, its wake socket
// and what it owes the application. Only the worker touches it.
type appQueue struct {
	owner    uint32
	sq       *rings.Consumer[queue.SQE]
	cq       *rings.Producer[queue.CQE]
	wakeFD   int
	regions  []uint64 // key by region ID, 0 = none
	mem      [][]byte // of the regions, to find whose memory faulted
	reserved uint32   // CQ entries promised to accepted submissions
	ready    uint32   // CQ entries written and not yet published
	overflow []transport.Event
	active   bool  // in the worker's list of queues to look at
	blocked  bool  // its next submission waits until messages of its stream have ended
	lastWork int64 // when it last had a submission
	wakes    int   // without work since
	restTill int64 // its wake socket is ignored until then
	failed   error // why the session must end, once it must
	hungUp   bool  // the application closed its end of the wake socket
	gone     bool  // removed from the worker
	unread   bool  // in the worker's list of queues to publish
	slot     int   // in the worker's table
	session  *Session
}

// take moves submissions into the engine and returns how many.
func (w *worker) take(s *appQueue, now int64) int {
	n, err := s.sq.Peek(sqBatch)
	if err != nil {
		s.fail(fmt.Errorf("submission queue: %w", err))
		return 0
	}
	taken := uint32(0)
	s.blocked = false
	for ; taken < n; taken++ {
		if s.cq.Free() <= s.reserved {
			break // no room to answer: the application must reap first
		}
		e := s.sq.At(taken)
		status := w.post(s, now, &e)
		if status == transport.StatusRetry {
			s.blocked = true
			break
		}
		s.reserved++
		if status != transport.StatusOK {
			w.complete(s, &queue.CQE{UserData: e.UserData, Conn: e.Conn, Op: queue.CompletionWrite, Status: queue.Status(status), Stream: e.Stream})
		}
	}
	if taken > 0 {
		s.sq.Release(taken)
		s.lastWork, s.wakes = now, 0
	}
	return int(taken)
}

// post checks one submission, which an untrusted application wrote, and hands
// it to its connection.
func (w *worker) post(s *appQueue, now int64, e *queue.SQE) transport.Status {
	if e.Op != queue.OpWrite || e.Flags&^(queue.FlagImmediate|queue.FlagFence) != 0 || e.Reserved != [3]uint32{} {
		return transport.StatusBadRequest
	}
	c := w.engine.Conn(wire.ConnID(e.Conn))
	if c == nil || c.Owner() != s.owner {
		return transport.StatusFlushed
	}
	if e.Region >= uint32(len(s.regions)) || s.regions[e.Region] == 0 {
		return transport.StatusLocalAccess
	}
	w.work = transport.Work{
		Owner: s.owner, Stream: e.Stream, HasImm: e.Flags&queue.FlagImmediate != 0, Imm: e.Imm,
		Fence:    e.Flags&queue.FlagFence != 0,
		LocalKey: s.regions[e.Region], LocalOffset: e.LocalOffset, Length: e.Length,
		RemoteKey: e.RemoteKey, RemoteOffset: e.RemoteOffset, UserData: e.UserData,
	}
	return c.Post(now, &w.work)
}

// complete writes the answer to an accepted submission; there is room for it.
func (w *worker) complete(s *appQueue, e *queue.CQE) {
	s.reserved--
	w.push(s, e)
}

// completeSent answers a submission whose operation has ended.
func (w *worker) completeSent(s *appQueue, ev *transport.Event) {
	w.complete(s, &queue.CQE{
		UserData: ev.UserData, Conn: uint32(ev.Conn), Op: queue.CompletionWrite,
		Status: queue.Status(ev.Status), Stream: ev.Stream, Bytes: ev.Bytes, MSN: ev.MSN,
	})
}

// push writes a completion; publish, which will look at the session, makes it
// visible.
func (w *worker) push(s *appQueue, e *queue.CQE) {
	if !s.unread {
		s.unread = true
		w.dirty = append(w.dirty, s)
	}
	got, err := s.cq.Reserve(1)
	if err != nil || got != 1 {
		s.fail(fmt.Errorf("completion queue: no room for a completion that had room: %w", err))
		return
	}
	*s.cq.Slot(s.ready) = *e
	s.ready++
}

// deliverReceived tells the application of a peer's message, or keeps it until there
// is room; only then the peer's credit grows.
func (w *worker) deliverReceived(s *appQueue, ev *transport.Event) {
	if len(s.overflow) > 0 || s.cq.Free() <= s.reserved {
		s.overflow = append(s.overflow, *ev)
		w.activate(s)
		return
	}
	w.deliver(s, ev)
}

// deliver writes one such completion, or the end of a connection.
func (w *worker) deliver(s *appQueue, ev *transport.Event) {
	if ev.Kind == transport.EventClosed {
		w.push(s, &queue.CQE{Conn: uint32(ev.Conn), Op: queue.CompletionConnClosed})
		return
	}
	w.push(s, &queue.CQE{
		Conn: uint32(ev.Conn), Op: queue.CompletionWriteImmReceived, Stream: ev.Stream,
		Bytes: ev.Bytes, Imm: ev.Imm, MSN: ev.MSN,
	})
	if c := w.engine.Conn(ev.Conn); c != nil {
		c.Consumed(ev.Stream)
	}
}

// retry delivers what did not fit before.
func (w *worker) retry(s *appQueue) {
	n := 0
	for n < len(s.overflow) && s.cq.Free() > s.reserved {
		w.deliver(s, &s.overflow[n])
		n++
	}
	s.overflow = s.overflow[n:]
}

// publish makes written completions visible and wakes a sleeping application.
func (s *appQueue) publish() {
	if s.ready == 0 {
		return
	}
	s.cq.Submit(s.ready)
	s.ready = 0
	if s.cq.NeedWakeup() {
		s.ring()
	}
}

var wakeByte = []byte{1}

// ring sends one byte on the wake socket. A full socket means that the
// application has wakes it did not look at.
func (s *appQueue) ring() {
	_ = unix.Send(s.wakeFD, wakeByte, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// hush reads the wakes of the application.
func (s *appQueue) hush() {
	var b [16]byte
	for range 8 {
		n, _, err := unix.Recvfrom(s.wakeFD, b[:], unix.MSG_DONTWAIT)
		if err != nil || n == 0 {
			return
		}
	}
}

// fail marks a session that broke its own queues; the worker ends it.
func (s *appQueue) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// activate has the worker look at a session's queue in every loop.
func (w *worker) activate(s *appQueue) {
	if !s.active {
		s.active = true
		s.sq.SetNeedWakeup(false)
		w.active = append(w.active, s)
	}
}

// serveQueues takes submissions from every active session. Queues that have
// been idle ask for a wake and leave the list.
func (w *worker) serveQueues(now int64) (work int) {
	kept := w.active[:0]
	for _, s := range w.active {
		if len(s.overflow) > 0 {
			w.retry(s)
		}
		work += w.take(s, now)
		if s.failed != nil {
			w.broken = append(w.broken, s)
			s.active = false
			continue
		}
		if len(s.overflow) == 0 && now-s.lastWork > idleNanos && w.rest(s) {
			continue
		}
		kept = append(kept, s)
	}
	clear(w.active[len(kept):])
	w.active = kept
	return work
}

// rest asks the application for a wake with its next submission. It returns
// false when one has come meanwhile.
func (w *worker) rest(s *appQueue) bool {
	s.sq.SetNeedWakeup(true)
	if n, err := s.sq.Peek(1); n > 0 || err != nil {
		s.sq.SetNeedWakeup(false)
		return false
	}
	s.active = false
	return true
}
