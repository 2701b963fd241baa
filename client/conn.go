package client

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/metaroced/metaroced/ctrl/msg"
)

// Conn is an established connection to an application on another host.
type Conn struct {
	session *Session
	id      uint32
	peer    netip.AddrPort
	private []byte

	closed atomic.Bool           // no more writes
	reason atomic.Pointer[error] // set before closed
	over   chan struct{}         // closed when the daemon has ended the connection
	once   sync.Once             // closes over
}

// RefusedError says why a dial failed at the peer or on the way to it.
type RefusedError struct {
	Reason uint16 // as on the wire, docs/PROTOCOL.md
	Text   string
}

// Error returns the refusal in words.
func (e *RefusedError) Error() string { return "refused: " + e.Text }

// dialResult answers a dial or an accept.
type dialResult struct {
	conn *Conn
	err  error
}

// Dial connects to a service at the peer with one or more plane addresses, at
// most msg.MaxPeers. private, at most 256 bytes, is given to the peer's
// application. It returns when the connection is up, refused, or ctx is over.
func (s *Session) Dial(ctx context.Context, addrs []netip.Addr, service string, private []byte) (*Conn, error) {
	c, err := s.dial(ctx, addrs, service, private)
	if err != nil {
		return nil, fmt.Errorf("metaroced: dial %q at %v: %w", service, addrs, err)
	}
	return c, nil
}

func (s *Session) dial(ctx context.Context, addrs []netip.Addr, service string, private []byte) (*Conn, error) {
	m := &msg.Dial{Service: service, Private: private}
	for _, a := range addrs {
		m.Peers = append(m.Peers, a.Unmap())
	}
	result := make(chan dialResult, 1)
	s.mu.Lock()
	s.tables.lastToken++
	m.Token = s.tables.lastToken
	s.tables.dials[m.Token] = result // before the request: the event may overtake its reply
	s.mu.Unlock()
	if err := s.simple(ctx, m); err != nil {
		s.giveUp(m.Token, result)
		return nil, err
	}
	select {
	case r := <-result:
		return r.conn, r.err
	case <-ctx.Done():
		s.giveUp(m.Token, result)
		return nil, ctx.Err()
	case <-s.done:
		s.giveUp(m.Token, result)
		return nil, s.Err()
	}
}

// giveUp forgets a dial. A connection that comes up nevertheless is closed, be
// it here or when its event arrives.
func (s *Session) giveUp(token uint64, result chan dialResult) {
	s.mu.Lock()
	delete(s.tables.dials, token)
	s.mu.Unlock()
	select {
	case r := <-result:
		if r.conn != nil {
			go r.conn.Close()
		}
	default:
	}
}

// onEstablished enters a connection that is up. It runs on the reader.
func (s *Session) onEstablished(m *msg.Established) {
	c := &Conn{session: s, id: m.Conn, peer: m.Peer, private: m.Private, over: make(chan struct{})}
	s.mu.Lock()
	result, wanted := s.tables.dials[m.Token]
	if m.Token == 0 {
		result, wanted = s.tables.accepts[m.Conn]
	}
	delete(s.tables.dials, m.Token)
	delete(s.tables.accepts, m.Conn)
	s.tables.conns[c.id] = c
	if wanted {
		result <- dialResult{conn: c} // has room for one, and its entry is gone now
	}
	s.mu.Unlock()
	if !wanted {
		go c.Close() // a request, which the reader cannot wait for
	}
}

func (s *Session) onRefused(m *msg.Refused) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if result, ok := s.tables.dials[m.Token]; ok {
		delete(s.tables.dials, m.Token)
		result <- dialResult{err: &RefusedError{Reason: m.Reason, Text: m.Text}}
	}
}

// onClosed ends a connection, or the acceptance of one that never came up.
func (s *Session) onClosed(m *msg.Closed) {
	err := fmt.Errorf("metaroced: connection %d closed: %s", m.Conn, m.Text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if result, ok := s.tables.accepts[m.Conn]; ok {
		delete(s.tables.accepts, m.Conn)
		result <- dialResult{err: err}
	}
	if c, ok := s.tables.conns[m.Conn]; ok {
		delete(s.tables.conns, m.Conn)
		c.ended(err)
	}
	for _, l := range s.tables.listeners {
		l.forget(m.Conn)
	}
}

// ID is the connection's number, as in completions.
func (c *Conn) ID() uint32 { return c.id }

// Peer is the address of the peer's daemon.
func (c *Conn) Peer() netip.AddrPort { return c.peer }

// Private is the data the accepting application sent along; on the accepting
// side see Incoming.Private.
func (c *Conn) Private() []byte { return c.private }

// Done is closed when the connection is over on both sides' account: its number
// may then be used again.
func (c *Conn) Done() <-chan struct{} { return c.over }

// Err returns nil while writes can be posted, and otherwise why they cannot.
func (c *Conn) Err() error {
	if !c.closed.Load() {
		return nil
	}
	return *c.reason.Load()
}

// Close ends the connection. Writes under way complete with a status that says
// so; Done tells when the daemon is through with it. Closing twice is harmless.
func (c *Conn) Close() error {
	if !c.refuseWrites(ErrClosed) {
		return nil
	}
	if err := c.session.simple(context.Background(), &msg.CloseConn{Conn: c.id}); err != nil {
		return fmt.Errorf("metaroced: close connection %d: %w", c.id, err)
	}
	return nil
}

// refuseWrites makes Write fail with err from now on. It reports whether this
// was the first reason.
func (c *Conn) refuseWrites(err error) bool {
	first := c.reason.CompareAndSwap(nil, &err)
	c.closed.Store(true)
	return first
}

// ended marks the connection as gone.
func (c *Conn) ended(err error) {
	c.refuseWrites(err)
	c.once.Do(func() { close(c.over) })
}
