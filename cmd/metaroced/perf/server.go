package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/metaroced/metaroced/client"
)

// server is the passive side: it provides memory, and answers pings.
type server struct {
	session *client.Session
	log     *slog.Logger

	mu    sync.Mutex // held while a connection is accepted, so that no completion finds it missing
	peers map[uint32]*peer
}

// peer is one connected client.
type peer struct {
	conn   *client.Conn
	region *client.Region
	hello  hello
}

// Serve accepts clients on a service until ctx ends; ready is called when they can
// dial. The session is the caller's to close.
func Serve(ctx context.Context, session *client.Session, service string, ready func(), log *slog.Logger) error {
	listener, err := session.Listen(service)
	if err != nil {
		return err
	}
	defer listener.Close()
	s := &server{session: session, log: log, peers: map[uint32]*peer{}}
	ctx, cancel := context.WithCancelCause(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		cancel(s.answer(ctx))
	}()
	log.Info("waiting for clients", "service", service)
	ready()
	for {
		incoming, err := listener.Accept(ctx)
		if err != nil {
			cancel(err)
			<-answered
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		}
		if err := s.accept(incoming); err != nil {
			log.Warn("client turned down", "peer", incoming.Peer(), "error", err)
		}
	}
}

func (s *server) accept(incoming *client.Incoming) error {
	h, err := decodeHello(incoming.Private())
	if err != nil {
		return errors.Join(err, incoming.Refuse(err.Error()))
	}
	region, err := s.session.AllocRegion(int64(h.size), client.RemoteWrite)
	if err != nil {
		return errors.Join(err, incoming.Refuse("perf server: "+err.Error()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, err := incoming.Accept(binary.LittleEndian.AppendUint64(nil, region.Key()))
	if err != nil {
		return errors.Join(err, region.Close())
	}
	s.peers[conn.ID()] = &peer{conn: conn, region: region, hello: h}
	s.log.Info("client connected", "peer", incoming.Peer(), "test", h.test, "size", h.size)
	return nil
}

// answer handles completions until ctx or the session ends.
func (s *server) answer(ctx context.Context) error {
	var completions [64]client.Completion
	for {
		n, err := s.session.Wait(ctx, completions[:])
		if err != nil {
			return err
		}
		s.mu.Lock()
		for i := range n {
			if err := s.handle(&completions[i]); err != nil {
				s.log.Warn("client", "error", err)
			}
		}
		s.mu.Unlock()
	}
}

func (s *server) handle(c *client.Completion) error {
	p := s.peers[c.Conn]
	if p == nil {
		return nil // of a connection that ended
	}
	switch c.Op {
	case client.OpWriteImmReceived:
		if p.hello.test != testLatency {
			return nil
		}
		err := p.conn.Write(client.Write{
			Local: p.region, Length: uint32(p.hello.size), RemoteKey: p.hello.key, Imm: c.Imm, HasImm: true,
		})
		if err != nil {
			return fmt.Errorf("answer %v: %w", p.conn.Peer(), err)
		}
	case client.OpConnClosed:
		delete(s.peers, c.Conn)
		s.log.Info("client left", "peer", p.conn.Peer())
		return p.region.Close()
	}
	return nil
}

// String names the test in logs.
func (t test) String() string {
	switch t {
	case testBandwidth:
		return "bandwidth"
	case testLatency:
		return "latency"
	}
	return "unknown"
}
