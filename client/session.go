package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/dataplane/queue"
	"github.com/metaroced/metaroced/rings"
	"github.com/metaroced/metaroced/umem"
	"golang.org/x/sys/unix"
)

// ErrClosed is returned by calls on a session, connection, region or listener
// that this application has closed.
var ErrClosed = errors.New("metaroced: closed by the application")

// Options of Attach. The zero value is good for most.
type Options struct {
	// SQEntries is how many writes can be posted and not yet be taken by the
	// daemon: a power of two from 16 to 65536, default 1024.
	SQEntries uint32
	// CQEntries is how many writes can be under way, and how many completions
	// wait to be reaped: a power of two from SQEntries to 65536, default 4096.
	CQEntries uint32
	// Spin is how long Wait polls before it sleeps, giving way to other threads
	// in every empty round. It buys latency with processor time; default 0.
	Spin time.Duration
}

// Session is this process's attachment to the daemon.
type Session struct {
	control *net.UnixConn
	spin    time.Duration

	// Rings; for the goroutine that moves data.
	memory      []byte
	sq          *rings.Producer[queue.SQE]
	cq          *rings.Consumer[queue.CQE]
	outstanding uint32 // writes posted whose completion is not reaped; at most the CQ's entries
	wake        *os.File
	wakeFD      int
	sleeping    sync.Mutex // held by Wait, so that Close does not unmap under it

	interrupt   *os.File // eventfd that ends a sleep: daemon gone, context over, Close
	interruptFD int

	// Control socket.
	turn   chan struct{} // holds a token while a request is outstanding
	mu     sync.Mutex    // guards what follows
	call   *call         // the outstanding request
	lastID uint32
	tables tables

	state      atomic.Uint32 // alive, failed or closed
	failure    atomic.Pointer[error]
	done       chan struct{} // closed when state leaves alive
	readerDone chan struct{}
}

// tables are what events refer to.
type tables struct {
	lastToken uint64
	dials     map[uint64]chan dialResult
	accepts   map[uint32]chan dialResult
	conns     map[uint32]*Conn
	listeners map[string]*Listener
	regions   map[*Region]struct{}
}

const (
	stateAlive uint32 = iota
	stateFailed
	stateClosed
)

// Attach connects to the daemon whose control socket is at path. ctx bounds
// attaching only, not the session.
func Attach(ctx context.Context, path string, opts Options) (*Session, error) {
	if opts.SQEntries == 0 {
		opts.SQEntries = queue.DefaultSQEntries
	}
	if opts.CQEntries == 0 {
		opts.CQEntries = max(queue.DefaultCQEntries, opts.SQEntries)
	}
	layout, err := queue.NewLayout(opts.SQEntries, opts.CQEntries)
	if err != nil {
		return nil, fmt.Errorf("metaroced: attach: %w", err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return nil, fmt.Errorf("metaroced: attach: is the daemon running, and may this user open its socket? %w", err)
	}
	s, err := newSession(conn.(*net.UnixConn), opts.Spin)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("metaroced: attach to %s: %w", path, err)
	}
	if err := s.hello(ctx, opts, layout); err != nil {
		s.Close()
		return nil, fmt.Errorf("metaroced: attach to %s: %w", path, err)
	}
	return s, nil
}

func newSession(conn *net.UnixConn, spin time.Duration) (*Session, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	s := &Session{
		control:     conn,
		spin:        spin,
		interrupt:   os.NewFile(uintptr(fd), "metaroced-interrupt"),
		interruptFD: fd,
		turn:        make(chan struct{}, 1),
		tables: tables{
			dials:     map[uint64]chan dialResult{},
			accepts:   map[uint32]chan dialResult{},
			conns:     map[uint32]*Conn{},
			listeners: map[string]*Listener{},
			regions:   map[*Region]struct{}{},
		},
		done:       make(chan struct{}),
		readerDone: make(chan struct{}),
	}
	go s.readAll()
	return s, nil
}

// hello opens the session and maps the rings.
func (s *Session) hello(ctx context.Context, opts Options, layout queue.Layout) error {
	reply, files, err := s.request(ctx, &msg.Hello{SQEntries: opts.SQEntries, CQEntries: opts.CQEntries})
	if err != nil {
		return err
	}
	defer func() { closeAll(files) }()
	ok, isOK := reply.(*msg.HelloOK)
	if !isOK || len(files) != 2 {
		return protocolError(reply, len(files))
	}
	if ok.MemoryBytes != uint64(layout.Bytes) || uint64(ok.SQOffset) != uint64(layout.SQ.Producer) || uint64(ok.CQOffset) != uint64(layout.CQ.Producer) {
		return fmt.Errorf("daemon lays %d bytes of queues out in another way than this client (%d bytes)", ok.MemoryBytes, layout.Bytes)
	}
	memory, err := umem.MapRegion([]umem.SlabFD{{File: files[0], Bytes: layout.Bytes}})
	if err != nil {
		return fmt.Errorf("map the queues: %w", err)
	}
	s.memory = memory
	if s.sq, s.cq, err = layout.ClientSide(memory); err != nil {
		return err
	}
	// The daemon never reads or writes this end, so its O_NONBLOCK is ours.
	s.wakeFD = int(files[1].Fd())
	if err := unix.SetNonblock(s.wakeFD, true); err != nil {
		return fmt.Errorf("wake socket: %w", err)
	}
	s.wake = files[1]
	files = files[:1]
	return nil
}

// Err returns nil while the session works. Otherwise it says why it ended: the
// daemon is gone or ended it, the rings hold impossible values, or Close.
func (s *Session) Err() error {
	if s.state.Load() == stateAlive {
		return nil
	}
	return *s.failure.Load()
}

// Status returns the daemon's status as JSON, of the form of dataplane.Status.
func (s *Session) Status(ctx context.Context) ([]byte, error) {
	reply, files, err := s.request(ctx, &msg.GetStatus{})
	if err != nil {
		return nil, fmt.Errorf("metaroced: status: %w", err)
	}
	defer closeAll(files)
	status, ok := reply.(*msg.Status)
	if !ok || len(files) != 1 {
		return nil, protocolError(reply, len(files))
	}
	info, err := files[0].Stat()
	if err == nil && uint64(info.Size()) != status.Bytes {
		err = fmt.Errorf("daemon announced %d bytes and sent %d", status.Bytes, info.Size())
	}
	if err != nil {
		return nil, fmt.Errorf("metaroced: status: %w", err)
	}
	text := make([]byte, status.Bytes)
	if _, err := files[0].ReadAt(text, 0); err != nil {
		return nil, fmt.Errorf("metaroced: status: %w", err)
	}
	return text, nil
}

// Close ends the session: the daemon drops its connections and frees its
// regions, and all memory is unmapped. It may be called from any goroutine and
// ends calls that block, Wait included, but must not overlap Write or Poll,
// whose rings it unmaps. Closing twice is harmless.
func (s *Session) Close() error {
	s.fail(ErrClosed)
	s.mu.Lock()
	again := s.state.Swap(stateClosed) == stateClosed
	s.mu.Unlock()
	if again {
		<-s.readerDone
		return nil
	}
	err := s.control.Close()
	<-s.readerDone

	s.sleeping.Lock() // until a Wait that was sleeping has left
	defer s.sleeping.Unlock()
	s.interrupt.Close()
	if s.wake != nil {
		s.wake.Close()
	}
	if s.memory != nil {
		err = errors.Join(err, umem.UnmapRegion(s.memory))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.tables.regions {
		err = errors.Join(err, r.unmap())
	}
	clear(s.tables.regions)
	return err
}

// fail ends the session once; the first reason stays.
func (s *Session) fail(err error) {
	if !s.failure.CompareAndSwap(nil, &err) {
		return
	}
	s.state.CompareAndSwap(stateAlive, stateFailed)
	close(s.done)
	s.wakeSleeper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.tables.conns {
		c.ended(err)
		delete(s.tables.conns, id)
	}
}

// wakeSleeper makes a Wait that sleeps look around, now or at its next sleep.
func (s *Session) wakeSleeper() {
	one := [8]byte{1: 1}             // any value but zero, in either byte order
	_, _ = s.interrupt.Write(one[:]) // fails when the counter is full, which wakes too, or after Close
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
