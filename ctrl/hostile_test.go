package ctrl_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/ctrl/ctrltest"
	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/dataplane"
	"golang.org/x/sys/unix"
)

// requests has one valid request of every type but HELLO.
var requests = []msg.Message{
	&msg.AllocRegion{Size: 4096},
	&msg.FreeRegion{Region: 1},
	&msg.GetSlabs{Region: 1},
	&msg.Listen{Service: "echo"},
	&msg.Unlisten{Service: "echo"},
	&msg.Dial{Token: 1, Peers: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Service: "echo", Private: []byte("hi")},
	&msg.Accept{Conn: 1, Private: []byte("hi")},
	&msg.Refuse{Conn: 1, Text: "no"},
	&msg.CloseConn{Conn: 1},
	&msg.GetStatus{},
}

// TestEveryWrongLength sends every request type with every length from 0 bytes
// to one over the limit, before and after HELLO, and checks that a bystander is
// served all the while.
func TestEveryWrongLength(t *testing.T) {
	b := ctrltest.NewBackend(t)
	path, _ := ctrltest.Serve(t, ctrl.Config{}, b)
	bystander := attach(t, path)
	var wrong uint64
	try := func(m msg.Message, length int, attached bool) {
		c := dial(t, path)
		defer c.conn.Close()
		if attached {
			c.ask(&msg.Hello{SQEntries: 16, CQEntries: 16})
		}
		whole := c.packet(m)
		packet := make([]byte, length)
		copy(packet, whole)
		if length >= 4 {
			binary.LittleEndian.PutUint32(packet, uint32(length))
		}
		if err := c.send(packet); err != nil {
			t.Fatalf("%v with %d bytes: %v", m.Type(), length, err)
		}
		e := c.hungUp()
		if length == 0 { // the end of the connection
			if e != nil {
				t.Errorf("empty packet answered by %+v", e)
			}
			return
		}
		wrong++
		if e == nil || e.Code != msg.CodeMalformed || e.Text == "" {
			t.Fatalf("%v with %d instead of %d bytes: %+v", m.Type(), length, len(whole), e)
		}
	}
	lengths := func(whole int) []int {
		all := []int{msg.MaxBytes - 1, msg.MaxBytes, msg.MaxBytes + 1, 4 * msg.MaxBytes, 65536}
		for n := range whole + 20 {
			if n != whole {
				all = append(all, n)
			}
		}
		return all
	}
	for _, m := range append([]msg.Message{&msg.Hello{SQEntries: 16, CQEntries: 16}}, requests...) {
		for _, n := range lengths(len((&rawClient{t: t}).packet(m))) {
			try(m, n, m.Type() != msg.TypeHello)
		}
		if got := bystander.counters()["ctrl_bad_length"]; got != wrong {
			t.Errorf("%v: %d counted, %d sent", m.Type(), got, wrong)
		}
	}
	bystander.conn.Close()
	for _, s := range b.Sessions() {
		<-s.Closed()
	}
}

func TestEveryLengthUpToTheLimit(t *testing.T) {
	path, _ := ctrltest.Serve(t, ctrl.Config{}, ctrltest.NewBackend(t))
	for n := 1; n <= msg.MaxBytes+1; n++ { // of a type whose length never is that
		c := dial(t, path)
		packet := make([]byte, n)
		copy(packet, c.packet(&msg.GetStatus{}))
		if n != 16 {
			if err := c.send(packet); err != nil {
				t.Fatal(err)
			}
			if e := c.hungUp(); e == nil || e.Code != msg.CodeMalformed {
				t.Fatalf("%d bytes: %+v", n, e)
			}
		}
		c.conn.Close()
	}
	expectCounter(t, path, "ctrl_bad_length", msg.MaxBytes)
}

func TestWrongHeaders(t *testing.T) {
	path, _ := ctrltest.Serve(t, ctrl.Config{}, ctrltest.NewBackend(t))
	for _, c := range []struct {
		name, counter string
		offset        int
		value         byte
		code          msg.Code
		goesOn        bool
	}{
		{"version 0", "ctrl_bad_version", 4, 0, msg.CodeVersion, false},
		{"version 2", "ctrl_bad_version", 4, 2, msg.CodeVersion, false},
		{"reserved header", "ctrl_bad_reserved", 12, 1, msg.CodeMalformed, false},
		{"reserved body", "ctrl_bad_reserved", 20, 1, msg.CodeMalformed, false},
		{"unknown type", "ctrl_bad_type", 6, 99, msg.CodeUnsupported, true},
		{"request id 0", "ctrl_bad_field", 8, 0, msg.CodeMalformed, false},
	} {
		a := attach(t, path)
		before := a.counters()[c.counter]
		packet := a.packet(&msg.CloseConn{Conn: 1})
		packet[c.offset] = c.value
		if err := a.send(packet); err != nil {
			t.Fatal(err)
		}
		e := a.refused()
		if e.Code != c.code {
			t.Errorf("%s: %+v", c.name, e)
		}
		if c.goesOn {
			a.ask(&msg.Listen{Service: "still here"})
		} else if last := a.hungUp(); last != nil {
			t.Errorf("%s: a second error %+v", c.name, last)
		}
		expectCounter(t, path, c.counter, before+1)
		a.conn.Close()
	}
}

func TestWrongState(t *testing.T) {
	b := ctrltest.NewBackend(t)
	path, _ := ctrltest.Serve(t, ctrl.Config{}, b)
	for _, m := range requests {
		c := dial(t, path)
		if err := c.send(c.packet(m)); err != nil {
			t.Fatal(err)
		}
		expectText(t, c.hungUp(), msg.CodeState, "before HELLO")
	}
	c := attach(t, path)
	if err := c.send(c.packet(&msg.Hello{SQEntries: 16, CQEntries: 16})); err != nil {
		t.Fatal(err)
	}
	expectText(t, c.hungUp(), msg.CodeState, "second HELLO")

	c = dial(t, path)
	if err := c.send(c.packet(&msg.Hello{SQEntries: 17, CQEntries: 16})); err != nil {
		t.Fatal(err)
	}
	expectText(t, c.hungUp(), msg.CodeInvalid, "sq_entries 17")

	c = attach(t, path)
	expectText(t, c.ask(&msg.OK{}).(*msg.Error), msg.CodeUnsupported, "OK is not a request")
	expectText(t, c.ask(&msg.GetSlabs{Region: 9}).(*msg.Error), msg.CodeInvalid, "region 9 is not of this session")
	expectText(t, c.ask(&msg.FreeRegion{Region: 9}).(*msg.Error), msg.CodeRefused, "region 9 is not of this session")
	expectText(t, c.ask(&msg.Unlisten{Service: "x"}).(*msg.Error), msg.CodeRefused, `service "x" is not of this session`)
	expectText(t, c.ask(&msg.AllocRegion{Size: 1 << 40}).(*msg.Error), msg.CodeRefused, "limits.region_bytes_per_session")
	region := c.ask(&msg.AllocRegion{Size: 1}).(*msg.Region)
	expectText(t, c.ask(&msg.GetSlabs{Region: region.Region, First: 1}).(*msg.Error), msg.CodeInvalid, "has 1 slabs")
	if n := len(b.Sessions()); n != 2 {
		t.Errorf("%d sessions reached the dataplane, want the 2 that said HELLO right", n)
	}
	expectCounter(t, path, "ctrl_bad_state", uint64(len(requests)+1))
}

// TestForeignRegion checks that a session cannot reach another one's region.
func TestForeignRegion(t *testing.T) {
	path, _ := ctrltest.Serve(t, ctrl.Config{}, ctrltest.NewBackend(t))
	owner, thief := attach(t, path), attach(t, path)
	r := owner.ask(&msg.AllocRegion{Size: 4096}).(*msg.Region)
	for _, m := range []msg.Message{&msg.GetSlabs{Region: r.Region}, &msg.FreeRegion{Region: r.Region}} {
		if reply := thief.ask(m); reply.Type() != msg.TypeError {
			t.Errorf("%v of a foreign region answered by %v", m.Type(), reply.Type())
		}
	}
	if reply := owner.ask(&msg.FreeRegion{Region: r.Region}); reply.Type() != msg.TypeOK {
		t.Errorf("owner: %+v", reply)
	}
}

func TestDescriptorsSentHereAreDiscarded(t *testing.T) {
	path, _ := ctrltest.Serve(t, ctrl.Config{}, ctrltest.NewBackend(t))
	c := attach(t, path)
	before := descriptors(t)
	pipes := make([]int, 2)
	if err := unix.Pipe(pipes); err != nil {
		t.Fatal(err)
	}
	rights := unix.UnixRights(pipes[1], pipes[1], pipes[1], pipes[1])
	for range 50 {
		if _, _, err := c.conn.WriteMsgUnix(c.packet(&msg.Listen{Service: fmt.Sprint("s", c.id)}), rights, nil); err != nil {
			t.Fatal(err)
		}
		if _, m, _, err := c.receive(); err != nil || m.Type() != msg.TypeOK {
			t.Fatalf("%v, %v", m, err)
		}
	}
	unix.Close(pipes[1])
	// The reader sees the end only when no copy is left anywhere.
	if n, err := unix.Read(pipes[0], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	unix.Close(pipes[0])
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if n := c.counters()["ctrl_descriptors_discarded"]; n != 50 {
		t.Errorf("%d counted", n)
	}
}

// TestFloodWithoutReading asks for more than it ever reads.
func TestFloodWithoutReading(t *testing.T) {
	b := ctrltest.NewBackend(t)
	b.SlabBytes = 4096
	path, _ := ctrltest.Serve(t, ctrl.Config{UnreadTimeout: 50 * time.Millisecond}, b)
	bystander := attach(t, path)
	for _, m := range []msg.Message{&msg.GetStatus{}, &msg.AllocRegion{Size: 16 * 4096}, &msg.Listen{Service: "echo"}} {
		before := bystander.counters()["ctrl_slow_reader"]
		c := attach(t, path)
		var err error
		for err == nil { // ends when the daemon has hung up
			err = c.send(c.packet(m))
		}
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
			t.Fatalf("%v: %v", m.Type(), err)
		}
		messages, files := c.unread()
		if messages > msg.MaxUnreadMessages || files > msg.MaxUnreadFDs {
			t.Errorf("%v: %d messages with %d descriptors were left unread", m.Type(), messages, files)
		}
		if messages == 0 {
			t.Errorf("%v: nothing was answered", m.Type())
		}
		if got := bystander.counters()["ctrl_slow_reader"]; got != before+1 {
			t.Errorf("%v: slow readers %d, before %d", m.Type(), got, before)
		}
	}
}

// unread counts what is left to read until the end.
func (c *rawClient) unread() (messages, files int) {
	c.t.Helper()
	for {
		_, _, got, err := c.receive()
		if errors.Is(err, io.EOF) {
			return messages, files
		}
		if err != nil {
			c.t.Fatal(err)
		}
		closeAll(got)
		messages++
		files += len(got)
	}
}

// TestFastReaderIsNeverTooSlow pipelines far more than the limits, and reads.
func TestFastReaderIsNeverTooSlow(t *testing.T) {
	const requests = 500
	b := ctrltest.NewBackend(t)
	b.SlabBytes = 4096
	path, _ := ctrltest.Serve(t, ctrl.Config{}, b)
	c := attach(t, path)
	region := c.ask(&msg.AllocRegion{Size: 16 * 4096}).(*msg.Region)
	sent := make(chan error, 1)
	first := c.id
	packets := make([][]byte, requests)
	for i := range packets {
		packets[i] = c.packet(&msg.GetSlabs{Region: region.Region}) // 16 descriptors each
	}
	go func() {
		var err error
		for _, p := range packets {
			if err == nil {
				err = c.send(p)
			}
		}
		sent <- err
	}()
	for i := range uint32(requests) {
		id, m, files, err := c.receive()
		if err != nil || id != first+1+i || m.Type() != msg.TypeRegion || len(files) != 16 {
			t.Fatalf("reply %d: id %d %v with %d files, %v", i, id, m, len(files), err)
		}
		closeAll(files)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestUnreadEvents(t *testing.T) {
	const limit = 40
	b := ctrltest.NewBackend(t)
	b.Opened = make(chan *ctrltest.Session, 1)
	path, _ := ctrltest.Serve(t, ctrl.Config{MaxPendingEvents: limit}, b)
	c := attach(t, path)
	s := <-b.Opened
	// What fits into the limits is kept, in order, for a reader that comes late.
	for i := range uint32(limit) {
		s.Emit(dataplane.SessionEvent{Kind: dataplane.EventIncoming, Conn: i, Service: "echo"})
	}
	for i := range uint32(limit) {
		_, m, _, err := c.receive()
		if in, ok := m.(*msg.Incoming); err != nil || !ok || in.Conn != i {
			t.Fatalf("event %d: %v, %v", i, m, err)
		}
	}
	// One that never comes costs the session, not the dataplane.
	for i := range uint32(200) {
		s.Emit(dataplane.SessionEvent{Kind: dataplane.EventIncoming, Conn: i, Service: "echo"})
	}
	<-s.Closed()
	expectCounter(t, path, "ctrl_limit_pending_events", 1)
	messages, _ := c.unread()
	if messages > msg.MaxUnreadMessages {
		t.Errorf("%d messages were left unread", messages)
	}
}

func TestBadEventEndsOnlyItsSession(t *testing.T) {
	b := ctrltest.NewBackend(t)
	b.Opened = make(chan *ctrltest.Session, 4)
	path, _ := ctrltest.Serve(t, ctrl.Config{}, b)
	c := attach(t, path)
	s := <-b.Opened
	s.Emit(dataplane.SessionEvent{Kind: dataplane.EventIncoming, Service: strings.Repeat("x", 300)})
	expectText(t, c.hungUp(), msg.CodeEnded, "event could not be told")
	<-s.Closed()
	expectCounter(t, path, "ctrl_bad_event", 1)
}

func TestLimits(t *testing.T) {
	path, _ := ctrltest.Serve(t, ctrl.Config{
		MaxSessions: 3, MaxSessionsPerUID: 2, MaxServicesPerSession: 2, MaxRegionsPerSession: 2,
	}, ctrltest.NewBackend(t))
	a := attach(t, path)
	for range 2 {
		a.ask(&msg.AllocRegion{Size: 1})
	}
	expectText(t, a.ask(&msg.AllocRegion{Size: 1}).(*msg.Error), msg.CodeLimit, "limit of 2 regions")
	a.ask(&msg.Listen{Service: "one"})
	a.ask(&msg.Listen{Service: "two"})
	expectText(t, a.ask(&msg.Listen{Service: "three"}).(*msg.Error), msg.CodeLimit, "limit of 2 services")
	a.ask(&msg.Unlisten{Service: "one"})
	if m := a.ask(&msg.Listen{Service: "three"}); m.Type() != msg.TypeOK {
		t.Errorf("after withdrawing one: %+v", m)
	}

	silent := dial(t, path) // counts although it never says HELLO
	over := dial(t, path)
	expectText(t, over.hungUp(), msg.CodeLimit, "limits.sessions_per_uid")
	silent.conn.Close()
	eventually(t, "room again", func() bool {
		c := dial(t, path)
		defer c.conn.Close()
		_ = c.send(c.packet(&msg.Hello{SQEntries: 16, CQEntries: 16})) // may be refused already
		_, m, files, err := c.receive()
		closeAll(files)
		return err == nil && m.Type() == msg.TypeHelloOK
	})

	path, _ = ctrltest.Serve(t, ctrl.Config{MaxSessions: 1}, ctrltest.NewBackend(t))
	attach(t, path)
	expectText(t, dial(t, path).hungUp(), msg.CodeLimit, "limit of 1 sessions reached; raise limits.sessions")
}

func TestHandshakeTimeout(t *testing.T) {
	b := ctrltest.NewBackend(t)
	path, _ := ctrltest.Serve(t, ctrl.Config{HandshakeTimeout: 20 * time.Millisecond}, b)
	c := dial(t, path)
	expectText(t, c.hungUp(), msg.CodeLimit, "limits.handshake_timeout")
	a := attach(t, path) // and once attached there is no deadline
	if n := a.counters()["ctrl_handshake_timeout"]; n != 1 {
		t.Errorf("%d counted", n)
	}
	if n := len(b.Sessions()); n != 1 {
		t.Errorf("%d sessions", n)
	}
}
