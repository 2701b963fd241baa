package ctrl

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/metaroced/metaroced/ctrl/msg"
	"golang.org/x/sys/unix"
)

// outgoing is one message on its way to the application.
type outgoing struct {
	packet []byte
	outFiles
	reply bool // the reader waits until it is sent
}

// outFiles are the descriptors beside a message.
type outFiles struct {
	files []*os.File
	own   bool // made for this message: closed once it is sent or dropped
}

func (f outFiles) discard() {
	if f.own {
		for _, file := range f.files {
			file.Close()
		}
	}
}

// outbox sends to one application and keeps count of what it has not read. It
// is for one goroutine at a time.
type outbox struct {
	conn    *net.UnixConn
	raw     syscall.RawConn
	timeout time.Duration

	// Sent since the kernel last said that nothing is unread: never less than
	// what is unread now.
	messages, descriptors int
}

func newOutbox(conn *net.UnixConn, timeout time.Duration) (*outbox, error) {
	raw, err := conn.SyscallConn()
	return &outbox{conn: conn, raw: raw, timeout: timeout}, err
}

// room reports whether a message with that many descriptors can be sent without
// leaving the application more unread than the limits allow.
func (o *outbox) room(descriptors int) bool {
	if o.fits(descriptors) {
		return true
	}
	if o.unreadBytes() == 0 {
		o.messages, o.descriptors = 0, 0
	}
	return o.fits(descriptors)
}

func (o *outbox) fits(descriptors int) bool {
	return o.messages < msg.MaxUnreadMessages && o.descriptors+descriptors <= msg.MaxUnreadFDs
}

// unreadBytes asks the kernel how much memory of ours waits in the
// application's receive queue. The application cannot lie about it.
func (o *outbox) unreadBytes() int {
	unread := 1 // an error means a dead socket, which the reader finds out
	_ = o.raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ); err == nil {
			unread = n
		}
	})
	return unread
}

// send hands one message to the kernel. The caller has asked room, so the
// socket buffer has space and the deadline is a second line of defence.
func (o *outbox) send(m outgoing) error {
	defer m.discard()
	var rights []byte
	if len(m.files) > 0 {
		fds := make([]int, len(m.files))
		for i, f := range m.files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	if err := o.conn.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
		return err
	}
	if _, _, err := o.conn.WriteMsgUnix(m.packet, rights, nil); err != nil {
		return fmt.Errorf("send %d bytes and %d descriptors: %w", len(m.packet), len(m.files), err)
	}
	o.messages++
	o.descriptors += len(m.files)
	return nil
}

// sendLast tells the application why it is being disconnected, if it has room
// to hear it.
func (o *outbox) sendLast(m *msg.Error) {
	m.Text = msg.CleanText(m.Text)
	if packet, err := msg.Append(nil, 0, m); err == nil && o.room(0) {
		_ = o.send(outgoing{packet: packet}) // the disconnect follows in any case
	}
}
