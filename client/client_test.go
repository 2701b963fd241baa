package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/ctrl/ctrltest"
	"github.com/metaroced/metaroced/dataplane"
	"github.com/metaroced/metaroced/dataplane/queue"
)

// testContext bounds what a broken build would make wait forever.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// attach returns a session and the dataplane's side of it.
func attach(t testing.TB, b *ctrltest.Backend, opts Options) (*Session, *ctrltest.Session, *ctrl.Server) {
	t.Helper()
	b.Opened = make(chan *ctrltest.Session, 1)
	path, server := ctrltest.Serve(t, ctrl.Config{}, b)
	s, err := Attach(testContext(t), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, <-b.Opened, server
}

var peer = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// connect dials, with the double as a peer that accepts at once.
func connect(t testing.TB, opts Options) (*Session, *Conn, *ctrltest.Session) {
	t.Helper()
	b := ctrltest.NewBackend(t)
	b.OnDial = func(s *ctrltest.Session, d dataplane.DialSpec) error {
		s.Emit(dataplane.SessionEvent{
			Kind: dataplane.EventEstablished, Token: d.Token, Conn: 5,
			Peer: netip.MustParseAddrPort("127.0.0.1:4797"), Private: []byte("welcome"),
		})
		return nil
	}
	b.OnClose = func(s *ctrltest.Session, conn uint32) error {
		s.Emit(dataplane.SessionEvent{Kind: dataplane.EventClosed, Conn: conn, Text: "as asked"})
		return nil
	}
	s, worker, _ := attach(t, b, opts)
	c, err := s.Dial(testContext(t), peer, "echo", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	return s, c, worker
}

func TestRegionIsSharedMemory(t *testing.T) {
	b := ctrltest.NewBackend(t)
	b.SlabBytes = 8192
	s, worker, _ := attach(t, b, Options{})
	// 1 slab; a whole message of them; several messages, the last slab short.
	for _, size := range []int64{100, 16 * 8192, 50*8192 - 1000} {
		r, err := s.AllocRegion(size, RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(r.Bytes())) != size || r.Size() != size {
			t.Fatalf("region of %d bytes has %d", size, len(r.Bytes()))
		}
		for i := range r.Bytes() {
			r.Bytes()[i] = byte(i / 8192)
		}
		for i, slab := range worker.Slabs(r.ID()) {
			if slab[0] != byte(i) || slab[len(slab)-1] != byte(i) {
				t.Fatalf("slab %d of %d is mapped elsewhere: starts with %d", i, size, slab[0])
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if r.Bytes() != nil {
			t.Error("closed region still has bytes")
		}
	}
	if n := worker.Regions(); n != 0 {
		t.Errorf("%d regions left in the dataplane", n)
	}
}

func TestRefusalsReachTheCaller(t *testing.T) {
	s, _, _ := attach(t, ctrltest.NewBackend(t), Options{})
	_, err := s.AllocRegion(1<<40, 0)
	var refused *Error
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "limits.region_bytes_per_session") {
		t.Errorf("over quota: %v", err)
	}
	if _, err := s.AllocRegion(0, 0); err == nil {
		t.Error("region of 0 bytes")
	}
	if _, err := s.Dial(testContext(t), nil, "echo", nil); err == nil {
		t.Error("dial without address")
	}
	if _, err := s.Dial(testContext(t), peer, "echo", make([]byte, 257)); err == nil {
		t.Error("dial with 257 bytes of private data")
	}
	if _, err := s.Listen(""); err == nil {
		t.Error("listen without a name")
	}
	if err := s.Err(); err != nil {
		t.Errorf("refusals ended the session: %v", err)
	}
}

func TestDialOutcomes(t *testing.T) {
	s, c, _ := connect(t, Options{})
	if string(c.Private()) != "welcome" || c.ID() != 5 || c.Peer().Port() != 4797 {
		t.Errorf("connection %d to %v with %q", c.ID(), c.Peer(), c.Private())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Write(Write{}); !errors.Is(err, ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	_ = s

	b := ctrltest.NewBackend(t)
	b.OnDial = func(w *ctrltest.Session, d dataplane.DialSpec) error {
		w.Emit(dataplane.SessionEvent{Kind: dataplane.EventRefused, Token: d.Token, Reason: 3, Text: "no such service"})
		return nil
	}
	s, _, _ = attach(t, b, Options{})
	_, err := s.Dial(testContext(t), peer, "echo", nil)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != 3 || !strings.Contains(err.Error(), "no such service") {
		t.Errorf("refused dial: %v", err)
	}
}

func TestAbandonedDialIsClosed(t *testing.T) {
	b := ctrltest.NewBackend(t)
	dialled := make(chan dataplane.DialSpec, 1)
	b.OnDial = func(_ *ctrltest.Session, d dataplane.DialSpec) error { dialled <- d; return nil }
	closed := make(chan uint32, 1)
	b.OnClose = func(_ *ctrltest.Session, conn uint32) error { closed <- conn; return nil }
	s, worker, _ := attach(t, b, Options{})
	ctx, cancel := context.WithCancel(testContext(t))
	result := make(chan error, 1)
	go func() {
		_, err := s.Dial(ctx, peer, "echo", nil)
		result <- err
	}()
	d := <-dialled
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("abandoned dial: %v", err)
	}
	worker.Emit(dataplane.SessionEvent{Kind: dataplane.EventEstablished, Token: d.Token, Conn: 9})
	if conn := <-closed; conn != 9 {
		t.Errorf("connection %d closed, want 9", conn)
	}
}

func TestListenAcceptRefuse(t *testing.T) {
	b := ctrltest.NewBackend(t)
	b.OnAccept = func(w *ctrltest.Session, conn uint32, _ []byte) error {
		kind := dataplane.EventEstablished
		if conn == 3 {
			kind = dataplane.EventClosed
		}
		w.Emit(dataplane.SessionEvent{Kind: kind, Conn: conn, Text: "peer gave up"})
		return nil
	}
	s, worker, _ := attach(t, b, Options{})
	ctx := testContext(t)
	l, err := s.Listen("echo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen("echo"); err == nil {
		t.Error("listening twice on one name")
	}
	for conn := uint32(1); conn <= 3; conn++ {
		worker.Emit(dataplane.SessionEvent{
			Kind: dataplane.EventIncoming, Conn: conn, Service: "echo",
			Peer: netip.MustParseAddrPort("127.0.0.9:1"), Private: fmt.Appendf(nil, "dial %d", conn),
		})
	}
	in, err := l.Accept(ctx)
	if err != nil || string(in.Private()) != "dial 1" || in.Peer().Port() != 1 {
		t.Fatalf("incoming %+v, %v", in, err)
	}
	c, err := in.Accept([]byte("yes"))
	if err != nil || c.ID() != 1 {
		t.Fatalf("accepted %v, %v", c, err)
	}
	if in, err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	if err := in.Refuse("not\ntoday"); err != nil {
		t.Fatal(err)
	}
	if in, err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Accept(nil); err == nil || !strings.Contains(err.Error(), "peer gave up") {
		t.Errorf("acceptance of a connection that ended: %v", err)
	}
	want := "listen echo,accept 1 yes,refuse 2 not?today,accept 3 "
	if got := strings.Join(worker.Calls(), ","); got != want {
		t.Errorf("calls %q, want %q", got, want)
	}

	worker.Emit(dataplane.SessionEvent{Kind: dataplane.EventClosed, Conn: 1, Text: "peer closed"})
	<-c.Done()
	if err := c.Write(Write{}); err == nil || !strings.Contains(err.Error(), "peer closed") {
		t.Errorf("write to a closed connection: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("accept on a closed listener: %v", err)
	}
}

func TestBacklogIsBounded(t *testing.T) {
	s, worker, _ := attach(t, ctrltest.NewBackend(t), Options{})
	l, err := s.Listen("echo")
	if err != nil {
		t.Fatal(err)
	}
	for conn := range uint32(maxAcceptBacklog + 1) {
		worker.Emit(dataplane.SessionEvent{Kind: dataplane.EventIncoming, Conn: conn, Service: "echo"})
	}
	eventually(t, "the last is refused", func() bool {
		calls := worker.Calls()
		return strings.HasPrefix(calls[len(calls)-1], fmt.Sprintf("refuse %d accept backlog of 256", maxAcceptBacklog))
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := len(worker.Calls()), 1+1+1+maxAcceptBacklog; got != want {
		t.Errorf("%d calls, want %d: listen, a refusal, unlisten, and a refusal for each in the backlog", got, want)
	}
}

func TestStatus(t *testing.T) {
	s, _, _ := attach(t, ctrltest.NewBackend(t), Options{})
	text, err := s.Status(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"version":"test"`, `"backend":1`, `"ctrl_bad_length":0`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("status %s has no %s", text, want)
		}
	}
}

func TestDaemonGone(t *testing.T) {
	b := ctrltest.NewBackend(t)
	s, worker, server := attach(t, b, Options{})
	r, err := s.AllocRegion(4096, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen("echo")
	if err != nil {
		t.Fatal(err)
	}
	worker.Emit(dataplane.SessionEvent{Kind: dataplane.EventIncoming, Conn: 1, Service: "echo"})
	in, err := l.Accept(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, worker, queue.CQE{Op: queue.CompletionConnClosed, Conn: 1}) // before the end: must still be told
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Accept(testContext(t))
		waiting <- err
	}()
	server.Close()
	r.Bytes()[0] = 1 // stays mapped
	ctx := testContext(t)
	var out [4]Completion
	if n, err := s.Wait(ctx, out[:]); n != 1 || err != nil {
		t.Errorf("wait after the end: %d, %v", n, err)
	}
	errs := map[string]error{"accept that waited": <-waiting}
	_, errs["wait"] = s.Wait(ctx, out[:])
	_, errs["dial"] = s.Dial(ctx, peer, "echo", nil)
	_, errs["alloc"] = s.AllocRegion(1, 0)
	_, errs["listen"] = s.Listen("other")
	_, errs["accept"] = in.Accept(nil)
	_, errs["status"] = s.Status(ctx)
	errs["err"] = s.Err()
	for call, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "daemon is stopping") {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n := s.Poll(out[:]); n != 0 {
		t.Errorf("poll finds %d", n)
	}
}

func TestDataplaneEndsSession(t *testing.T) {
	s, worker, _ := attach(t, ctrltest.NewBackend(t), Options{})
	worker.End()
	<-worker.Closed()
	var out [1]Completion
	if _, err := s.Wait(testContext(t), out[:]); err == nil || !strings.Contains(err.Error(), "dataplane ended this session") {
		t.Errorf("wait: %v", err)
	}
}

func TestAttachErrors(t *testing.T) {
	ctx := testContext(t)
	if _, err := Attach(ctx, t.TempDir()+"/none", Options{}); err == nil || !strings.Contains(err.Error(), "is the daemon running") {
		t.Errorf("no daemon: %v", err)
	}
	path, _ := ctrltest.Serve(t, ctrl.Config{MaxSessions: 1}, ctrltest.NewBackend(t))
	if _, err := Attach(ctx, path, Options{SQEntries: 1000}); err == nil || !strings.Contains(err.Error(), "sq_entries 1000") {
		t.Errorf("odd entries: %v", err)
	}
	s, err := Attach(ctx, path, Options{SQEntries: 16, CQEntries: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Attach(ctx, path, Options{}); err == nil || !strings.Contains(err.Error(), "limits.sessions") {
		t.Errorf("over the limit: %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	b := ctrltest.NewBackend(t)
	path, _ := ctrltest.Serve(t, ctrl.Config{}, b)
	before, mapsBefore := descriptors(t), mappings(t)
	for range 5 {
		s, err := Attach(testContext(t), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.AllocRegion(1<<16, RemoteRead); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if !errors.Is(s.Err(), ErrClosed) {
			t.Errorf("error of a closed session: %v", s.Err())
		}
	}
	for _, s := range b.Sessions() {
		<-s.Closed()
	}
	eventually(t, "descriptors are closed", func() bool { return descriptors(t) <= before })
	eventually(t, "memory is unmapped", func() bool { return mappings(t) <= mapsBefore })
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// mappings counts what is mapped of our memfds.
func mappings(t testing.TB) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), "memfd:metaroced")
}

// eventually waits for what another goroutine is about to do.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx := testContext(t)
	for !is() {
		if ctx.Err() != nil {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}
