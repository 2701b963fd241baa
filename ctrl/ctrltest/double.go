package ctrltest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/dataplane"
	"github.com/metaroced/metaroced/dataplane/queue"
	"github.com/metaroced/metaroced/rings"
	"github.com/metaroced/metaroced/umem"
	"golang.org/x/sys/unix"
)

// Backend records the sessions that were opened in it.
type Backend struct {
	// SlabBytes cuts regions into slabs of that size; zero makes one of each.
	// Set before the first session.
	SlabBytes int64
	// OnDial, OnAccept and OnClose, where set, are called by the session's
	// method of that name. Set before the first session.
	OnDial   func(*Session, dataplane.DialSpec) error
	OnAccept func(s *Session, conn uint32, private []byte) error
	OnClose  func(s *Session, conn uint32) error
	// Opened receives every session, when it is set.
	Opened chan *Session

	t        testing.TB
	mu       sync.Mutex
	sessions []*Session
}

var _ ctrl.Backend = (*Backend)(nil)

// NewBackend returns a Backend that fails t when a session is closed twice.
func NewBackend(t testing.TB) *Backend { return &Backend{t: t} }

// Sessions returns all sessions opened so far.
func (b *Backend) Sessions() []*Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*Session(nil), b.sessions...)
}

// Status returns a small snapshot.
func (b *Backend) Status() *dataplane.Status {
	return &dataplane.Status{Version: "test", Sessions: len(b.Sessions()), Counters: map[string]uint64{"backend": 1}}
}

// OpenSession makes a session's rings and wake socket.
func (b *Backend) OpenSession(spec dataplane.SessionSpec) (ctrl.Session, error) {
	layout, err := queue.NewLayout(spec.SQEntries, spec.CQEntries)
	if err != nil {
		return nil, err
	}
	memory, err := umem.NewPlainRegion(layout.Bytes)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, memory.Free())
	}
	s := &Session{
		Spec:     spec,
		backend:  b,
		memory:   memory,
		wake:     os.NewFile(uintptr(pair[0]), "wake of the worker"),
		peerWake: os.NewFile(uintptr(pair[1]), "wake of the application"),
		events:   make(chan dataplane.SessionEvent, 16),
		closed:   make(chan struct{}),
		regions:  map[uint32][]*umem.Region{},
	}
	if s.SQ, s.CQ, err = layout.WorkerSide(memory.Mem()); err != nil {
		s.Close()
		return nil, err
	}
	b.mu.Lock()
	b.sessions = append(b.sessions, s)
	b.mu.Unlock()
	if b.Opened != nil {
		b.Opened <- s
	}
	return s, nil
}

// Session is one attached application as the dataplane would see it.
type Session struct {
	Spec dataplane.SessionSpec
	SQ   *rings.Consumer[queue.SQE] // the worker's end; for one goroutine of the test
	CQ   *rings.Producer[queue.CQE]

	backend        *Backend
	memory         *umem.Region
	wake, peerWake *os.File
	events         chan dataplane.SessionEvent
	closed         chan struct{}

	mu      sync.Mutex
	closes  int
	lastID  uint32
	regions map[uint32][]*umem.Region
	calls   []string
}

// RingFile returns the memory of the rings.
func (s *Session) RingFile() *os.File { return s.memory.Fds[0].File }

// WakeFile returns the application's end.
func (s *Session) WakeFile() *os.File { return s.peerWake }

// AllocRegion makes a region of plain memory, in slabs of Backend.SlabBytes.
func (s *Session) AllocRegion(size int64, access dataplane.Access) (dataplane.RegionInfo, error) {
	const quota = 1 << 26
	if size > quota {
		return dataplane.RegionInfo{}, fmt.Errorf("region of %d bytes is over the quota of %d; raise limits.region_bytes_per_session", size, quota)
	}
	step := s.backend.SlabBytes
	if step == 0 {
		step = size
	}
	s.record("alloc %d %d", size, access)
	info := dataplane.RegionInfo{Size: size, Key: uint64(access)<<32 | uint64(size)}
	var slabs []*umem.Region
	for left := size; left > 0; left -= step {
		r, err := umem.NewPlainRegion(min(left, step))
		if err != nil {
			return info, err
		}
		slabs = append(slabs, r)
		info.FDs = append(info.FDs, r.Fds...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	info.ID = s.lastID
	s.regions[info.ID] = slabs
	return info, nil
}

// Slabs returns the memory of a region, as the dataplane sees it.
func (s *Session) Slabs(id uint32) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][]byte
	for _, r := range s.regions[id] {
		out = append(out, r.Mem())
	}
	return out
}

// Regions returns how many regions are allocated.
func (s *Session) Regions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.regions)
}

// FreeRegion frees one region.
func (s *Session) FreeRegion(id uint32) error {
	s.record("free %d", id)
	s.mu.Lock()
	defer s.mu.Unlock()
	slabs, ok := s.regions[id]
	if !ok {
		return fmt.Errorf("no region %d", id)
	}
	delete(s.regions, id)
	return free(slabs)
}

func free(slabs []*umem.Region) error {
	var err error
	for _, r := range slabs {
		err = errors.Join(err, r.Free())
	}
	return err
}

// Listen records the service.
func (s *Session) Listen(service string) error {
	s.record("listen %s", service)
	return nil
}

// Unlisten records the service.
func (s *Session) Unlisten(service string) error {
	s.record("unlisten %s", service)
	return nil
}

// Dial calls Backend.OnDial.
func (s *Session) Dial(spec dataplane.DialSpec) error {
	s.record("dial %s", spec.Service)
	if f := s.backend.OnDial; f != nil {
		return f(s, spec)
	}
	return nil
}

// Accept calls Backend.OnAccept.
func (s *Session) Accept(conn uint32, private []byte) error {
	s.record("accept %d %s", conn, private)
	if f := s.backend.OnAccept; f != nil {
		return f(s, conn, private)
	}
	return nil
}

// Refuse records the refusal.
func (s *Session) Refuse(conn uint32, text string) error {
	s.record("refuse %d %s", conn, text)
	return nil
}

// CloseConn calls Backend.OnClose.
func (s *Session) CloseConn(conn uint32) error {
	s.record("close %d", conn)
	if f := s.backend.OnClose; f != nil {
		return f(s, conn)
	}
	return nil
}

// Events returns what Emit sends into.
func (s *Session) Events() <-chan dataplane.SessionEvent { return s.events }

// Emit reports an event, unless the session is closed first.
func (s *Session) Emit(e dataplane.SessionEvent) {
	select {
	case s.events <- e:
	case <-s.closed:
	}
}

// End closes the Events channel, as the dataplane does with a session whose
// rings it cannot trust.
func (s *Session) End() { close(s.events) }

// Close frees everything and fails the test when called again.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closes++; s.closes > 1 {
		s.backend.t.Errorf("session of uid %d closed %d times", s.Spec.UID, s.closes)
		return
	}
	err := errors.Join(s.wake.Close(), s.peerWake.Close(), s.memory.Free())
	for _, slabs := range s.regions {
		err = errors.Join(err, free(slabs))
	}
	clear(s.regions)
	if err != nil {
		s.backend.t.Errorf("close session: %v", err)
	}
	close(s.closed)
}

// Closed is closed once Close is done.
func (s *Session) Closed() <-chan struct{} { return s.closed }

func (s *Session) record(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

// Calls returns the calls so far, one line each.
func (s *Session) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Wake sends the application a wake, as a worker does when the CQ asks for it.
func (s *Session) Wake() error {
	s.mu.Lock() // or Close might be under way
	defer s.mu.Unlock()
	if s.closes > 0 {
		return os.ErrClosed
	}
	return unix.Send(int(s.wake.Fd()), []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// Woken takes one wake of the application off the socket and reports whether
// there was one.
func (s *Session) Woken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closes > 0 {
		return false
	}
	var buf [8]byte
	n, _, err := unix.Recvfrom(int(s.wake.Fd()), buf[:], unix.MSG_DONTWAIT)
	return err == nil && n > 0
}
