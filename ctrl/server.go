package ctrl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/metaroced/metaroced/ctrl/msg"
)

// Server accepts applications and serves each in goroutines of its own.
type Server struct {
	cfg      Config
	backend  Backend
	log      *slog.Logger
	socket   *socketFile
	counters counters

	mu      sync.Mutex
	stopped bool
	conns   map[*session]struct{} // from accept on, handshakes included
	perUID  map[uint32]int        // of conns
	running sync.WaitGroup        // sessions and Serve
}

// NewServer creates the control socket, so that what is wrong with it is known
// before the daemon calls itself ready. Applications are served once Serve
// runs. The caller must Close the server.
func NewServer(cfg Config, backend Backend, log *slog.Logger) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	socket, err := listen(cfg.Path, cfg.Mode)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg:     cfg,
		backend: backend,
		log:     log,
		socket:  socket,
		conns:   map[*session]struct{}{},
		perUID:  map[uint32]int{},
	}, nil
}

// Serve accepts applications until ctx ends or Close is called; then it closes
// the server and returns nil. Other errors mean that the socket broke.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.running.Add(1)
	s.mu.Unlock()
	stopOnCancel := context.AfterFunc(ctx, func() { s.socket.Close() })
	err := s.acceptAll(ctx)
	stopOnCancel()
	s.running.Done()
	s.Close()
	return err
}

func (s *Server) acceptAll(ctx context.Context) error {
	const pauseAfterError = 10 * time.Millisecond // out of descriptors or memory: others must get to free some
	for {
		conn, err := s.socket.AcceptUnix()
		switch {
		case err == nil:
			s.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err):
			s.log.Warn("control socket: accept", "error", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pauseAfterError):
			}
		default:
			return fmt.Errorf("metaroced: control socket %s: accept: %w", s.cfg.Path, err)
		}
	}
}

// Close refuses further applications, ends all sessions, waits until each is
// closed in the dataplane, and removes the socket file. It may be called from
// any goroutine and more than once.
func (s *Server) Close() {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	for c := range s.conns {
		c.stop("the daemon is stopping")
	}
	s.mu.Unlock()
	if first {
		s.socket.remove() // first the name, so that nobody connects in vain
		s.socket.Close()
	}
	s.running.Wait()
}

// admit starts a session for a new connection, or refuses it when there are
// too many. Refusing is one send into an empty socket, which cannot block.
func (s *Server) admit(conn *net.UnixConn) {
	cred, err := peerCred(conn)
	if err != nil {
		s.log.Warn("control socket: credentials of an application", "error", err)
		conn.Close()
		return
	}
	c, err := newSession(s, conn, cred.Uid, uint32(cred.Pid))
	if err != nil {
		s.log.Warn("control socket", "error", err)
		conn.Close()
		return
	}
	if r, text := s.register(c); text != "" {
		s.counters.add(r)
		s.log.Debug("application refused", "uid", cred.Uid, "pid", cred.Pid, "reason", text)
		c.out.sendLast(&msg.Error{Code: msg.CodeLimit, Text: text})
		conn.Close()
		return
	}
	go func() {
		defer s.running.Done()
		defer s.unregister(c)
		c.run()
	}()
}

// register counts c in. The text is empty when that was possible.
func (s *Server) register(c *session) (reason, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return reasonBadState, "the daemon is stopping"
	case len(s.conns) >= s.cfg.MaxSessions:
		return reasonLimitSessions, fmt.Sprintf("limit of %d sessions reached; raise limits.sessions", s.cfg.MaxSessions)
	case s.perUID[c.uid] >= s.cfg.MaxSessionsPerUID:
		return reasonLimitSessionsPerUID, fmt.Sprintf("limit of %d sessions of user %d reached; raise limits.sessions_per_uid",
			s.cfg.MaxSessionsPerUID, c.uid)
	}
	s.conns[c] = struct{}{}
	s.perUID[c.uid]++
	s.running.Add(1)
	return 0, ""
}

func (s *Server) unregister(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.perUID[c.uid]--; s.perUID[c.uid] == 0 {
		delete(s.perUID, c.uid)
	}
}

// isTemporary tells accept errors that pass from those that do not.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}
