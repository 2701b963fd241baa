package ctrl

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/dataplane"
	"github.com/metaroced/metaroced/dataplane/queue"
	"golang.org/x/sys/unix"
)

// session is one connected application, from accept to the end.
type session struct {
	server   *Server
	conn     *net.UnixConn
	uid, pid uint32
	out      *outbox // the reader's until the pump starts, then the pump's

	back     Session // nil before HELLO; the reader's
	regions  map[uint32]dataplane.RegionInfo
	services map[string]struct{}

	replies  chan outgoing // reader to pump, one at a time
	replied  chan struct{} // pump to reader: the reply is sent
	pumpDone chan struct{}
	readDone chan struct{}

	stopOnce sync.Once
	stopping chan struct{}
	stopText string // set before stopping is closed
}

func newSession(s *Server, conn *net.UnixConn, uid, pid uint32) (*session, error) {
	out, err := newOutbox(conn, s.cfg.UnreadTimeout)
	if err != nil {
		return nil, err
	}
	return &session{
		server:   s,
		conn:     conn,
		uid:      uid,
		pid:      pid,
		out:      out,
		regions:  map[uint32]dataplane.RegionInfo{},
		services: map[string]struct{}{},
		replies:  make(chan outgoing),
		replied:  make(chan struct{}),
		pumpDone: make(chan struct{}),
		readDone: make(chan struct{}),
		stopping: make(chan struct{}),
	}, nil
}

// stop ends the session from outside, once; the application is told text.
func (c *session) stop(text string) {
	c.stopOnce.Do(func() {
		c.stopText = text
		close(c.stopping)
		// A reader waiting for the next request returns; one inside a dataplane
		// call finds out when it is back.
		c.setReadDeadline(time.Time{})
	})
}

// setReadDeadline sets when the next read gives up: at t, zero for never, but
// at once when the session is to stop.
func (c *session) setReadDeadline(t time.Time) {
	_ = c.conn.SetReadDeadline(t) // fails on a closed socket only, as the next read will
	select {
	case <-c.stopping: // looked at after setting, or stop's deadline could be overwritten
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	default:
	}
}

// run serves the application until it is gone. When run returns, nothing of it
// is left: no goroutine, no descriptor, no dataplane session.
func (c *session) run() {
	defer c.conn.Close()
	if !c.handshake() {
		return
	}
	log := c.server.log.With("uid", c.uid, "pid", c.pid)
	log.Debug("application attached")
	go c.pump(c.back.Events())
	why := c.readAll()
	close(c.readDone)
	<-c.pumpDone
	c.back.Close()
	log.Debug("application gone", "reason", why)
}

// handshake reads HELLO and opens the dataplane's session. It reports whether
// the application is attached.
func (c *session) handshake() bool {
	deadline := time.Now().Add(c.server.cfg.HandshakeTimeout)
	c.setReadDeadline(deadline)
	id, m, err := c.read()
	hello, isHello := m.(*msg.Hello)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		select {
		case <-c.stopping:
			c.out.sendLast(&msg.Error{Code: msg.CodeEnded, Text: c.stopText})
		default:
			c.server.counters.add(reasonHandshakeTimeout)
			c.out.sendLast(&msg.Error{Code: msg.CodeLimit, Text: fmt.Sprintf("no HELLO within %v (limits.handshake_timeout)",
				c.server.cfg.HandshakeTimeout)})
		}
		return false
	case err != nil:
		if e := c.parseFailure(err); e != nil {
			c.sendFirst(id, e, nil)
		}
		return false
	case !isHello:
		c.server.counters.add(reasonBadState)
		c.sendFirst(id, &msg.Error{Code: msg.CodeState, Text: fmt.Sprintf("%v before HELLO", m.Type())}, nil)
		return false
	}
	return c.open(id, hello)
}

// open answers HELLO.
func (c *session) open(id uint32, m *msg.Hello) bool {
	layout, err := queue.NewLayout(m.SQEntries, m.CQEntries)
	if err != nil {
		c.server.counters.add(reasonBadField)
		c.sendFirst(id, &msg.Error{Code: msg.CodeInvalid, Text: err.Error()}, nil)
		return false
	}
	back, err := c.server.backend.OpenSession(dataplane.SessionSpec{
		UID: c.uid, PID: c.pid, SQEntries: m.SQEntries, CQEntries: m.CQEntries,
	})
	if err != nil {
		c.sendFirst(id, c.refusal(err), nil)
		return false
	}
	reply := &msg.HelloOK{
		MemoryBytes: uint64(layout.Bytes),
		SQEntries:   m.SQEntries,
		CQEntries:   m.CQEntries,
		SQOffset:    uint32(layout.SQ.Producer),
		CQOffset:    uint32(layout.CQ.Producer),
	}
	if !c.sendFirst(id, reply, []*os.File{back.RingFile(), back.WakeFile()}) {
		back.Close()
		return false
	}
	c.back = back
	c.setReadDeadline(time.Time{})
	return true
}

// sendFirst sends the answer to HELLO, while there is no pump yet.
func (c *session) sendFirst(id uint32, m msg.Message, files []*os.File) bool {
	packet, err := msg.Append(nil, id, m)
	if err == nil {
		err = c.out.send(outgoing{packet: packet, outFiles: outFiles{files: files}})
	}
	if err != nil && !errors.Is(err, unix.EPIPE) {
		c.server.counters.add(reasonSendFailed)
		c.server.log.Warn("control socket: answer to HELLO", "uid", c.uid, "pid", c.pid, "error", err)
	}
	return err == nil
}

// readAll serves requests until the session ends and says why it did.
func (c *session) readAll() string {
	for {
		id, m, err := c.read()
		var reply msg.Message
		var files outFiles
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			<-c.stopping // what set the deadline
			return c.stopText
		case err != nil:
			e := c.parseFailure(err)
			if e == nil {
				return "the application closed its socket"
			}
			reply = e
		default:
			reply, files = c.handle(id, m)
		}
		if !c.answer(id, reply, files) {
			return "the application does not take its replies"
		}
		if e, ok := reply.(*msg.Error); ok && endsSession(e.Code) {
			return e.Text
		}
	}
}

// endsSession tells the errors after which nothing sensible can follow.
func endsSession(c msg.Code) bool {
	return c == msg.CodeMalformed || c == msg.CodeVersion || c == msg.CodeState
}

// read takes one packet off the socket. There is no control buffer, so the
// kernel discards descriptors the application sent. An empty packet cannot be
// told from the end of the connection and counts as that.
func (c *session) read() (uint32, msg.Message, error) {
	var buf [msg.MaxBytes + 1]byte
	n, _, flags, _, err := c.conn.ReadMsgUnix(buf[:], nil)
	if err != nil {
		return 0, nil, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		c.server.counters.add(reasonDescriptorsDiscarded)
	}
	return msg.Parse(buf[:n]) // a truncated packet is over MaxBytes and refused for it
}

// answer gives the pump a reply and waits until it is sent, so that there is
// one request of a session at a time. False means that the pump has ended.
func (c *session) answer(id uint32, m msg.Message, files outFiles) bool {
	packet, err := msg.Append(nil, id, m)
	if err != nil {
		c.server.log.Error("control socket: reply", "uid", c.uid, "pid", c.pid, "error", err)
		files.discard()
		return false
	}
	o := outgoing{packet: packet, outFiles: files, reply: true}
	select {
	case c.replies <- o:
	case <-c.pumpDone:
		o.discard()
		return false
	}
	select {
	case <-c.replied:
		return true
	case <-c.pumpDone:
		return false
	}
}

// parseFailure counts what was wrong with a packet and returns the answer, nil
// when err says that the connection ended.
func (c *session) parseFailure(err error) *msg.Error {
	var p *msg.ParseError
	if !errors.As(err, &p) {
		return nil
	}
	c.server.counters.add(parseReasons[p.Reason])
	code := msg.CodeMalformed
	switch p.Reason {
	case msg.ReasonVersion:
		code = msg.CodeVersion
	case msg.ReasonType:
		code = msg.CodeUnsupported
	}
	return &msg.Error{Code: code, Text: msg.CleanText(p.Text)}
}
