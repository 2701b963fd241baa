package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/metaroced/metaroced/ctrl/msg"
	"golang.org/x/sys/unix"
)

// Error is the daemon's refusal of a request.
type Error struct {
	Code msg.Code
	Text string // what, and for limits the value and the configuration key
}

// Error returns the daemon's words.
func (e *Error) Error() string { return "daemon: " + e.Text }

// call is one request whose reply has not come.
type call struct {
	id       uint32
	answer   chan answer // room for one
	disowned bool        // the caller has left: the reader drops the reply
}

type answer struct {
	m     msg.Message
	files []*os.File
}

// request sends one request and waits for its reply. Requests wait for each
// other, since the daemon takes one at a time. The files are the caller's.
func (s *Session) request(ctx context.Context, m msg.Message) (msg.Message, []*os.File, error) {
	select {
	case s.turn <- struct{}{}: // the reader gives it back with the reply
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-s.done:
		return nil, nil, s.Err()
	}
	c := &call{answer: make(chan answer, 1)}
	s.mu.Lock()
	s.lastID++
	if s.lastID == 0 { // 0 is for events
		s.lastID++
	}
	c.id = s.lastID
	packet, err := msg.Append(nil, c.id, m)
	if err == nil {
		s.call = c
	}
	s.mu.Unlock()
	if err != nil {
		<-s.turn
		return nil, nil, err
	}
	if _, err := s.control.Write(packet); err != nil {
		// The reader may still hold the daemon's last words, and fails the
		// session with them.
		<-s.done
		return nil, nil, s.Err()
	}
	select {
	case a := <-c.answer:
		return a.result()
	case <-s.done:
		s.disown(c)
		return nil, nil, s.Err()
	case <-ctx.Done():
		if a, ok := s.disown(c); ok {
			return a.result()
		}
		return nil, nil, ctx.Err()
	}
}

// disown leaves c to the reader, unless its answer is there already.
func (s *Session) disown(c *call) (answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case a := <-c.answer:
		return a, true
	default:
		c.disowned = true
		return answer{}, false
	}
}

func (a answer) result() (msg.Message, []*os.File, error) {
	if e, ok := a.m.(*msg.Error); ok {
		closeAll(a.files)
		return nil, nil, &Error{Code: e.Code, Text: e.Text}
	}
	return a.m, a.files, nil
}

// simple makes a request whose only answer is success.
func (s *Session) simple(ctx context.Context, m msg.Message) error {
	reply, files, err := s.request(ctx, m)
	if err != nil {
		return err
	}
	defer closeAll(files)
	if _, ok := reply.(*msg.OK); !ok {
		return protocolError(reply, len(files))
	}
	return nil
}

func protocolError(m msg.Message, files int) error {
	return fmt.Errorf("metaroced: daemon broke the control protocol: %v with %d descriptors is not the expected reply", m.Type(), files)
}

// readAll is the reader goroutine: it hands out replies and events until the
// control socket ends, and then fails the session.
func (s *Session) readAll() {
	defer close(s.readerDone)
	err := s.readUntilError()
	if errors.Is(err, io.EOF) {
		err = errors.New("metaroced: the daemon is gone: its end of the control socket is closed")
	}
	s.fail(err)
}

func (s *Session) readUntilError() error {
	var packet [msg.MaxBytes + 1]byte
	rights := make([]byte, unix.CmsgSpace(4*msg.MaxMessageFDs))
	for {
		n, rightsLen, flags, _, err := s.control.ReadMsgUnix(packet[:], rights)
		if errors.Is(err, unix.ECONNRESET) {
			// The daemon closed without reading what we sent last. The kernel says
			// so once, before what the daemon had sent: its reason.
			continue
		}
		if err != nil {
			return err
		}
		files, err := receivedFiles(rights[:rightsLen])
		if err != nil {
			return fmt.Errorf("metaroced: descriptors from the daemon: %w", err)
		}
		if flags&unix.MSG_CTRUNC != 0 {
			closeAll(files)
			return errors.New("metaroced: descriptors from the daemon were lost: this process is at its limit of open files (ulimit -n)")
		}
		id, m, err := msg.Parse(packet[:n])
		if err != nil {
			closeAll(files)
			return fmt.Errorf("metaroced: daemon broke the control protocol: %w", err)
		}
		if err := s.dispatch(id, m, files); err != nil {
			return err
		}
	}
}

// receivedFiles turns the rights of one packet into files.
func receivedFiles(rights []byte) ([]*os.File, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(files)
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "metaroced"))
		}
	}
	return files, nil
}

// dispatch gives one message to whom it is for. It never blocks.
func (s *Session) dispatch(id uint32, m msg.Message, files []*os.File) error {
	if id != 0 {
		return s.deliver(id, answer{m: m, files: files})
	}
	closeAll(files) // events have none
	switch m := m.(type) {
	case *msg.Incoming:
		s.onIncoming(m)
	case *msg.Established:
		s.onEstablished(m)
	case *msg.Refused:
		s.onRefused(m)
	case *msg.Closed:
		s.onClosed(m)
	case *msg.Error:
		return fmt.Errorf("metaroced: the daemon ended the session: %s", m.Text)
	default:
		return protocolError(m, len(files))
	}
	return nil
}

// deliver hands a reply to the request it belongs to.
func (s *Session) deliver(id uint32, a answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.call
	if c == nil || c.id != id {
		closeAll(a.files)
		return fmt.Errorf("metaroced: daemon broke the control protocol: reply to request %d, which is not outstanding", id)
	}
	s.call = nil
	<-s.turn
	if c.disowned {
		closeAll(a.files)
		return nil
	}
	c.answer <- a
	return nil
}
