package client

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/metaroced/metaroced/ctrl/msg"
)

// maxAcceptBacklog is how many incoming connections wait for Accept before
// further ones are refused.
const maxAcceptBacklog = 256

// Listener receives the connections that peers dial to one service.
type Listener struct {
	session *Session
	service string
	backlog []*Incoming   // guarded by session.mu
	arrived chan struct{} // room for one: backlog may have grown
	closed  chan struct{} // guarded by session.mu against closing twice
}

// Incoming is a connection that a peer asks for. It must be accepted or refused.
type Incoming struct {
	session *Session
	conn    uint32
	peer    netip.AddrPort
	private []byte
}

// Listen offers a service to peers: 1 to 255 bytes of text, unique on the host.
func (s *Session) Listen(service string) (*Listener, error) {
	l := &Listener{session: s, service: service, arrived: make(chan struct{}, 1), closed: make(chan struct{})}
	s.mu.Lock()
	_, taken := s.tables.listeners[service]
	if !taken {
		s.tables.listeners[service] = l // before the request: events may overtake its reply
	}
	s.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("metaroced: listen on %q: this session does already", service)
	}
	if err := s.simple(context.Background(), &msg.Listen{Service: service}); err != nil {
		s.mu.Lock()
		delete(s.tables.listeners, service)
		s.mu.Unlock()
		return nil, fmt.Errorf("metaroced: listen on %q: %w", service, err)
	}
	return l, nil
}

// onIncoming queues an incoming connection. It runs on the reader.
func (s *Session) onIncoming(m *msg.Incoming) {
	in := &Incoming{session: s, conn: m.Conn, peer: m.Peer, private: m.Private}
	refusal := ""
	s.mu.Lock()
	switch l, ok := s.tables.listeners[m.Service]; {
	case !ok:
		refusal = "nobody listens on the service any more"
	case len(l.backlog) >= maxAcceptBacklog:
		refusal = fmt.Sprintf("accept backlog of %d connections is full", maxAcceptBacklog)
	default:
		l.backlog = append(l.backlog, in)
		l.signal()
	}
	s.mu.Unlock()
	if refusal != "" {
		go in.Refuse(refusal) // a request, which the reader cannot wait for
	}
}

func (l *Listener) signal() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// forget drops an incoming connection that ended before it was accepted. The
// session's lock is held.
func (l *Listener) forget(conn uint32) {
	l.backlog = slices.DeleteFunc(l.backlog, func(in *Incoming) bool { return in.conn == conn })
}

// Accept returns the next incoming connection, waiting for it until ctx is over.
func (l *Listener) Accept(ctx context.Context) (*Incoming, error) {
	for {
		if in := l.take(); in != nil {
			return in, nil
		}
		select {
		case <-l.arrived:
		case <-l.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.session.done:
			return nil, l.session.Err()
		}
	}
}

func (l *Listener) take() *Incoming {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	if len(l.backlog) == 0 {
		return nil
	}
	in := l.backlog[0]
	l.backlog = l.backlog[1:]
	if len(l.backlog) > 0 {
		l.signal() // for another goroutine in Accept
	}
	return in
}

// Close withdraws the service and refuses what was not accepted. Connections
// that were stay. Closing twice is harmless.
func (l *Listener) Close() error {
	s := l.session
	s.mu.Lock()
	open := s.tables.listeners[l.service] == l
	var backlog []*Incoming
	if open {
		delete(s.tables.listeners, l.service)
		close(l.closed)
		backlog, l.backlog = l.backlog, nil
	}
	s.mu.Unlock()
	if !open {
		return nil
	}
	err := s.simple(context.Background(), &msg.Unlisten{Service: l.service})
	for _, in := range backlog {
		_ = in.Refuse("nobody listens on the service any more") // the peer may have left
	}
	if err != nil {
		return fmt.Errorf("metaroced: stop listening on %q: %w", l.service, err)
	}
	return nil
}

// Peer is the address of the dialling daemon.
func (i *Incoming) Peer() netip.AddrPort { return i.peer }

// Private is the data the dialling application sent along.
func (i *Incoming) Private() []byte { return i.private }

// Accept takes the connection; private, at most 256 bytes, goes to the dialling
// application. It returns when the connection is up, or when it ended before
// that, for instance because the peer is gone.
func (i *Incoming) Accept(private []byte) (*Conn, error) {
	s := i.session
	result := make(chan dialResult, 1)
	s.mu.Lock()
	s.tables.accepts[i.conn] = result // before the request: the event may overtake its reply
	s.mu.Unlock()
	err := s.simple(context.Background(), &msg.Accept{Conn: i.conn, Private: private})
	if err == nil {
		select {
		case r := <-result:
			return r.conn, r.err
		case <-s.done:
			err = s.Err()
		}
	}
	s.mu.Lock()
	delete(s.tables.accepts, i.conn)
	s.mu.Unlock()
	return nil, fmt.Errorf("metaroced: accept connection %d: %w", i.conn, err)
}

// Refuse turns the connection down; text, at most 512 bytes, goes to the
// dialling application.
func (i *Incoming) Refuse(text string) error {
	m := &msg.Refuse{Conn: i.conn, Text: msg.CleanText(text)}
	if err := i.session.simple(context.Background(), m); err != nil {
		return fmt.Errorf("metaroced: refuse connection %d: %w", i.conn, err)
	}
	return nil
}
