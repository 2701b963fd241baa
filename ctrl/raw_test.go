package ctrl_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/dataplane"
	"golang.org/x/sys/unix"
)

// patience bounds what a broken build would make wait forever.
const patience = 20 * time.Second

// rawClient speaks on the socket without any of the client package's manners.
type rawClient struct {
	t    testing.TB
	conn *net.UnixConn
	id   uint32
}

func dial(t testing.TB, path string) *rawClient {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &rawClient{t: t, conn: conn}
}

// attach says HELLO.
func attach(t testing.TB, path string) *rawClient {
	t.Helper()
	c := dial(t, path)
	if reply := c.ask(&msg.Hello{SQEntries: 16, CQEntries: 16}); reply.Type() != msg.TypeHelloOK {
		t.Fatalf("HELLO answered by %v %+v", reply.Type(), reply)
	}
	return c
}

func (c *rawClient) packet(m msg.Message) []byte {
	c.t.Helper()
	c.id++
	b, err := msg.Append(nil, c.id, m)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// send sends bytes as they are. The daemon may have hung up.
func (c *rawClient) send(b []byte) error {
	_, err := c.conn.Write(b)
	return err
}

// ask sends a request and returns its reply; events on the way are dropped.
func (c *rawClient) ask(m msg.Message) msg.Message {
	c.t.Helper()
	if err := c.send(c.packet(m)); err != nil {
		c.t.Fatalf("send %v: %v", m.Type(), err)
	}
	for {
		id, reply, files, err := c.receive()
		if err != nil {
			c.t.Fatalf("reply to %v: %v", m.Type(), err)
		}
		closeAll(files)
		if id == c.id {
			return reply
		}
	}
}

// receive reads one packet; io.EOF when the daemon has hung up.
func (c *rawClient) receive() (uint32, msg.Message, []*os.File, error) {
	buf := make([]byte, msg.MaxBytes+1)
	rights := make([]byte, unix.CmsgSpace(4*64))
	n, rightsLen, flags, _, err := c.conn.ReadMsgUnix(buf, rights)
	if errors.Is(err, unix.ECONNRESET) { // told once, before what the daemon had sent
		n, rightsLen, flags, _, err = c.conn.ReadMsgUnix(buf, rights)
	}
	if err != nil {
		return 0, nil, nil, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		c.t.Errorf("daemon's packet is cut off: flags %#x", flags)
	}
	var files []*os.File
	if rightsLen > 0 {
		messages, err := unix.ParseSocketControlMessage(rights[:rightsLen])
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				c.t.Fatal(err)
			}
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "received"))
			}
		}
	}
	id, m, err := msg.Parse(buf[:n])
	if err != nil {
		c.t.Fatalf("daemon's packet %x: %v", buf[:n], err)
	}
	return id, m, files, nil
}

// hungUp reads until the daemon hangs up and returns its last ERROR.
func (c *rawClient) hungUp() *msg.Error {
	c.t.Helper()
	var last *msg.Error
	for {
		_, m, files, err := c.receive()
		closeAll(files)
		if errors.Is(err, io.EOF) {
			return last
		}
		if err != nil {
			c.t.Fatalf("waiting for the end: %v", err)
		}
		if e, ok := m.(*msg.Error); ok {
			last = e
		}
	}
}

// refused reads the ERROR that answers the last request.
func (c *rawClient) refused() *msg.Error {
	c.t.Helper()
	_, m, _, err := c.receive()
	if err != nil {
		c.t.Fatalf("waiting for an ERROR: %v", err)
	}
	e, ok := m.(*msg.Error)
	if !ok {
		c.t.Fatalf("got %v, want an ERROR", m.Type())
	}
	return e
}

// counters asks for the status, as `metaroced status` does.
func (c *rawClient) counters() map[string]uint64 {
	c.t.Helper()
	if err := c.send(c.packet(&msg.GetStatus{})); err != nil {
		c.t.Fatal(err)
	}
	_, m, files, err := c.receive()
	if err != nil || m.Type() != msg.TypeStatus || len(files) != 1 {
		c.t.Fatalf("status: %v with %d files, %v", m, len(files), err)
	}
	defer closeAll(files)
	text := make([]byte, m.(*msg.Status).Bytes)
	if _, err := files[0].ReadAt(text, 0); err != nil {
		c.t.Fatal(err)
	}
	if _, err := files[0].WriteAt([]byte("x"), 0); err == nil {
		c.t.Error("an application can change the status it was given")
	}
	var status dataplane.Status
	if err := json.Unmarshal(text, &status); err != nil {
		c.t.Fatal(err)
	}
	return status.Counters
}

// expectCounter waits until a counter has a value: a session that ends is
// counted in its own goroutine.
func expectCounter(t testing.TB, path, name string, want uint64) {
	t.Helper()
	c := attach(t, path)
	defer c.conn.Close()
	eventually(t, name, func() bool { return c.counters()[name] == want })
}

// eventually waits for what another goroutine is about to do.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func expectText(t testing.TB, e *msg.Error, code msg.Code, text string) {
	t.Helper()
	if e == nil || e.Code != code || !strings.Contains(e.Text, text) {
		t.Errorf("error %+v, want code %d and a text with %q", e, code, text)
	}
}
