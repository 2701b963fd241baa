package dataplane

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/metaroced/metaroced/dataplane/queue"
	"github.com/metaroced/metaroced/dataplane/transport"
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/umem"
	"golang.org/x/sys/unix"
)

// maxSessionEvents is how many set-up events a session may leave unread.
const maxSessionEvents = 256

// Session is one application's presence: its queues, regions, listeners and
// connections. Its methods may be called from one goroutine at a time; none
// runs on a packet's path.
type Session struct {
	d        *Dataplane
	spec     SessionSpec
	queue    *appQueue
	ring     *os.File
	ringMem  []byte
	wake     *os.File // the application's end
	wakeFD   int      // ours
	events   chan SessionEvent
	ended    sync.Once // closes events
	closing  sync.Once
	regions  map[uint32]*sessionRegion
	nextID   uint32
	held     int64 // bytes of its regions
	services map[string]bool
}

type sessionRegion struct {
	key  uint64
	umem *umem.Region
	size int64
}

// OpenSession makes the queues of an application and shows them to the worker.
func (d *Dataplane) OpenSession(spec SessionSpec) (*Session, error) {
	layout, err := queue.NewLayout(spec.SQEntries, spec.CQEntries)
	if err != nil {
		return nil, fmt.Errorf("metaroced: session: %w", err)
	}
	s := &Session{
		d: d, spec: spec,
		events:   make(chan SessionEvent, maxSessionEvents),
		regions:  map[uint32]*sessionRegion{},
		services: map[string]bool{},
	}
	if err := s.makeShared(layout); err != nil {
		s.release()
		return nil, err
	}
	sq, cq, err := layout.WorkerSide(s.ringMem)
	if err != nil {
		s.release()
		return nil, fmt.Errorf("metaroced: session: %w", err)
	}
	s.queue = &appQueue{sq: sq, cq: cq, wakeFD: s.wakeFD, session: s}
	if err := d.worker.do(func() { err = d.worker.addSession(s.queue) }); err != nil {
		s.release()
		return nil, err
	}
	if err != nil {
		s.release()
		return nil, err
	}
	d.mu.Lock()
	d.sessions[s] = true
	d.mu.Unlock()
	return s, nil
}

// makeShared creates the sealed memory of the queues and the wake sockets.
func (s *Session) makeShared(layout queue.Layout) error {
	fd, err := unix.MemfdCreate("metaroced-queues", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("metaroced: session: memory for queues: %w", err)
	}
	s.ring = os.NewFile(uintptr(fd), "metaroced-queues")
	if err := unix.Fallocate(fd, 0, 0, layout.Bytes); err != nil {
		return fmt.Errorf("metaroced: session: %d bytes for queues: %w", layout.Bytes, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("metaroced: session: seal queues: %w", err)
	}
	s.ringMem, err = unix.Mmap(fd, 0, int(layout.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("metaroced: session: map queues: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("metaroced: session: wake sockets: %w", err)
	}
	s.wakeFD = pair[0]
	s.wake = os.NewFile(uintptr(pair[1]), "metaroced-wake")
	return nil
}

// RingFile is the memory of both queues, laid out as queue.NewLayout says.
func (s *Session) RingFile() *os.File { return s.ring }

// WakeFile is the application's end of the wake sockets.
func (s *Session) WakeFile() *os.File { return s.wake }

// Events delivers what happens to the session's connections. It is closed when
// the session must end.
func (s *Session) Events() <-chan SessionEvent { return s.events }

// emit hands an event over without waiting; a session that does not read ends.
// Worker only.
func (s *Session) emit(ev SessionEvent) {
	select {
	case s.events <- ev:
	default:
		s.queue.fail(fmt.Errorf("%d events unread", maxSessionEvents))
	}
}

// AllocRegion makes memory that the application maps and peers may reach as
// access says.
func (s *Session) AllocRegion(size int64, access Access) (RegionInfo, error) {
	cfg := &s.d.cfg
	switch {
	case size <= 0:
		return RegionInfo{}, fmt.Errorf("metaroced: a region of %d bytes: must be at least 1", size)
	case len(s.regions) >= cfg.MaxRegionsPerSession:
		return RegionInfo{}, fmt.Errorf("metaroced: session holds %d regions, the limit; raise limits.regions_per_session", len(s.regions))
	case s.held+size > cfg.RegionBytesPerSession:
		return RegionInfo{}, fmt.Errorf("metaroced: session holds %d bytes of regions, %d more exceed the limit of %d; raise limits.region_bytes_per_session", s.held, size, cfg.RegionBytesPerSession)
	case access&^(AccessRemoteRead|AccessRemoteWrite|AccessRemoteAtomic) != 0:
		return RegionInfo{}, fmt.Errorf("metaroced: unknown access bits %#x", uint32(access))
	}
	mem, err := s.d.arena.AllocSlabs(size, umem.Tenant{UID: s.spec.UID})
	if errors.Is(err, umem.ErrNoSlabs) {
		mem, err = umem.NewPlainRegion(size)
		s.d.plainRegions.Add(1)
	}
	if err != nil {
		return RegionInfo{}, fmt.Errorf("metaroced: region of %d bytes: %w", size, err)
	}
	r := &sessionRegion{key: randomKey(), umem: mem, size: size}
	id := s.nextID
	err2 := s.d.worker.do(func() {
		if err = s.d.worker.engine.AddRegion(transport.Region{
			Key: r.key, Mem: mem.Mem()[:size], Access: transport.Access(access), Owner: s.queue.owner,
		}); err == nil {
			s.queue.setRegion(id, r.key, mem.Mem()[:size])
		}
	})
	if err := errors.Join(err, err2); err != nil {
		return RegionInfo{}, errors.Join(err, mem.Free())
	}
	s.nextID++
	s.regions[id] = r
	s.held += size
	return RegionInfo{ID: id, Key: r.key, Size: size, FDs: mem.Fds}, nil
}

func (q *appQueue) setRegion(id uint32, key uint64, mem []byte) {
	for uint32(len(q.regions)) <= id {
		q.regions = append(q.regions, 0)
		q.mem = append(q.mem, nil)
	}
	q.regions[id], q.mem[id] = key, mem
}

func randomKey() uint64 {
	for {
		if k := random64(); k != 0 {
			return k
		}
	}
}

// random64 returns unpredictable bits; crypto/rand does not fail on Linux.
func random64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// FreeRegion makes a region's key die and gives its memory back. Operations
// that still read from it fail.
func (s *Session) FreeRegion(id uint32) error {
	r := s.regions[id]
	if r == nil {
		return fmt.Errorf("metaroced: session has no region %d", id)
	}
	var err error
	if err2 := s.d.worker.do(func() {
		err = s.d.worker.engine.RemoveRegion(s.d.worker.now, r.key)
		if !s.queue.gone {
			s.queue.regions[id], s.queue.mem[id] = 0, nil
		}
	}); err2 != nil {
		return err2
	}
	delete(s.regions, id)
	s.held -= r.size
	return errors.Join(err, r.umem.Free())
}

// Listen lets peers dial a service; EventIncoming follows for each.
func (s *Session) Listen(service string) error {
	var err error
	if err2 := s.d.worker.do(func() { err = s.d.worker.engine.Listen(service, s.queue.owner) }); err2 != nil {
		return err2
	}
	if err == nil {
		s.services[service] = true
	}
	return err
}

// Unlisten ends Listen.
func (s *Session) Unlisten(service string) error {
	if !s.services[service] {
		return fmt.Errorf("metaroced: session does not listen on %q", service)
	}
	delete(s.services, service)
	return s.d.worker.do(func() { s.d.worker.engine.Unlisten(service, s.queue.owner) })
}

// Dial starts a connection; EventEstablished or EventRefused follows.
func (s *Session) Dial(spec DialSpec) error {
	peers := make([]transport.DialPeer, 0, len(spec.Peers))
	for _, ip := range spec.Peers {
		plane, ok := s.d.neighbors.PlaneFor(ip)
		if !ok {
			continue
		}
		peers = append(peers, transport.DialPeer{Plane: plane, Addr: toWire(ip, s.d.cfg.UDPPort)})
	}
	if len(peers) == 0 {
		return fmt.Errorf("metaroced: no plane has a route to %v", spec.Peers)
	}
	var err error
	err2 := s.d.worker.do(func() {
		_, err = s.d.worker.engine.Dial(s.d.worker.now, transport.DialRequest{
			Owner: s.queue.owner, Token: spec.Token, Service: spec.Service, Private: spec.Private, Peers: peers,
		})
	})
	return errors.Join(err, err2)
}

// onConn runs f on the worker for a connection of this session.
func (s *Session) onConn(conn uint32, f func(*transport.Conn) error) error {
	var err error
	err2 := s.d.worker.do(func() {
		c := s.d.worker.engine.Conn(wire.ConnID(conn))
		if c == nil || c.Owner() != s.queue.owner {
			err = fmt.Errorf("metaroced: session has no connection %#x", conn)
			return
		}
		err = f(c)
	})
	return errors.Join(err, err2)
}

// Accept answers EventIncoming.
func (s *Session) Accept(conn uint32, private []byte) error {
	return s.onConn(conn, func(c *transport.Conn) error { return c.Accept(s.d.worker.now, private) })
}

// Refuse answers EventIncoming with a text for the peer.
func (s *Session) Refuse(conn uint32, text string) error {
	return s.onConn(conn, func(c *transport.Conn) error { return c.Refuse(s.d.worker.now, text) })
}

// CloseConn ends a connection after its posted operations; EventClosed follows.
func (s *Session) CloseConn(conn uint32) error {
	return s.onConn(conn, func(c *transport.Conn) error { return c.Close(s.d.worker.now, wire.CloseNormal) })
}

// Close ends the session: its connections are reset, its regions and
// descriptors are gone when it returns. Calling it again does nothing.
func (s *Session) Close() { s.closing.Do(s.close) }

func (s *Session) close() {
	s.d.mu.Lock()
	delete(s.d.sessions, s)
	s.d.mu.Unlock()
	_ = s.d.worker.do(func() { s.d.worker.removeSession(s) }) // a stopped worker has done so
	for id, r := range s.regions {
		if err := r.umem.Free(); err != nil {
			s.d.log.Error("region not freed", "session", s.queue.owner, "region", id, "error", err)
		}
	}
	s.regions = nil
	s.ended.Do(func() { close(s.events) })
	s.release()
}

// release gives descriptors and mappings back.
func (s *Session) release() {
	if s.ringMem != nil {
		_ = unix.Munmap(s.ringMem)
		s.ringMem = nil
	}
	if s.ring != nil {
		_ = s.ring.Close()
	}
	if s.wake != nil {
		_ = s.wake.Close()
		_ = unix.Close(s.wakeFD)
	}
}
