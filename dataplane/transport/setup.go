package transport

import (
	"errors"
	"fmt"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// setupState is what set-up needs beyond the connection itself.
type setupState struct {
	peers    []DialPeer // where to try, in turn
	try      int
	at       int64 // next repetition, or never
	pause    int64
	until    int64
	plane    int // where the peer was last heard
	cookie   []byte
	private  []byte // ours, sent with CONNECT or ACCEPT
	text     string // of a REFUSE
	reason   wire.RefuseReason
	accepted bool
}

const (
	setupPauseNanos    = 20_000_000 // first repetition of CONNECT and ACCEPT, doubling
	setupPauseMaxNanos = 500_000_000
	// refusedLingerNanos is how long a refusal is remembered: a CONNECT that
	// repeats because REFUSE was lost must not ask the application again, even
	// when one repetition is lost as well.
	refusedLingerNanos = 2*setupPauseMaxNanos + lingerNanos
)

// DialPeer is one address of the peer and the local plane that reaches it.
type DialPeer struct {
	Plane int
	Addr  wire.Addr
}

// DialRequest asks for a connection.
type DialRequest struct {
	Owner   uint32
	Token   uint64 // comes back in EventEstablished or EventRefused
	Service string
	Private []byte // at most MaxPrivate bytes
	Peers   []DialPeer
}

// MaxPrivate and MaxService bound what applications pass during set-up.
const (
	MaxPrivate = 256
	MaxService = 64
)

type listener struct {
	owner uint32
}

// pendingKey makes CONNECT idempotent: the same initiator and nonce is the
// same connection.
type pendingKey struct {
	from  wire.Addr
	nonce uint64
}

// Errors of set-up requests.
var (
	ErrServiceTaken = errors.New("transport: another session listens on this service")
	ErrBadRequest   = errors.New("transport: request is malformed")
	ErrWrongState   = errors.New("transport: connection is not in a state for this")
)

// Listen lets peers dial a service. It fails with ErrServiceTaken.
func (e *Engine) Listen(service string, owner uint32) error {
	if service == "" || len(service) > MaxService {
		return fmt.Errorf("%w: a service name has 1 to %d bytes", ErrBadRequest, MaxService)
	}
	if _, ok := e.listeners[service]; ok {
		return fmt.Errorf("%w: %q", ErrServiceTaken, service)
	}
	e.listeners[service] = listener{owner: owner}
	return nil
}

// Unlisten ends Listen; connections that exist stay.
func (e *Engine) Unlisten(service string, owner uint32) {
	if l, ok := e.listeners[service]; ok && l.owner == owner {
		delete(e.listeners, service)
	}
}

// Dial starts a connection. The outcome comes as EventEstablished or
// EventRefused with the request's token.
func (e *Engine) Dial(now int64, r DialRequest) (*Conn, error) {
	if len(r.Peers) == 0 || r.Service == "" || len(r.Service) > MaxService || len(r.Private) > MaxPrivate {
		return nil, fmt.Errorf("%w: dial needs a peer, a service of at most %d bytes and private data of at most %d", ErrBadRequest, MaxService, MaxPrivate)
	}
	for _, p := range r.Peers {
		if p.Plane < 0 || p.Plane >= len(e.cfg.Planes) {
			return nil, fmt.Errorf("%w: dial through plane %d, there are %d", ErrBadRequest, p.Plane, len(e.cfg.Planes))
		}
	}
	c, err := e.newConn(now)
	if err != nil {
		return nil, err
	}
	c.state = stateConnecting
	c.owner, c.token, c.service = r.Owner, r.Token, r.Service
	c.planes = len(e.cfg.Planes)
	c.flags = wire.FlagCRC
	c.setup = setupState{
		peers: r.Peers, private: r.Private,
		pause: setupPauseNanos, at: now, until: now + e.cfg.ConnectTimeoutNanos,
	}
	c.tryConnect(now)
	return c, nil
}

// tryConnect sends CONNECT to the next of the peer's addresses.
func (c *Conn) tryConnect(now int64) {
	s := &c.setup
	p := s.peers[s.try%len(s.peers)]
	s.try++
	c.peerAddr[p.Plane] = p.Addr
	c.sendControl(p.Plane, controlConnect)
	s.at = now + s.pause
	s.pause = min(2*s.pause, setupPauseMaxNanos)
	c.e.deadline.arm(c, s.at)
}

// offer describes this host for CONNECT and ACCEPT.
func (c *Conn) offer(s *wire.Setup) {
	cfg := &c.e.cfg
	*s = wire.Setup{
		Nonce: c.nonce, PeerNonce: c.peerNonce, Conn: c.id, Tag: c.tag,
		DSNWindow:    uint32(cfg.DSNWindow),
		RxPackets:    uint32(cfg.RxPackets),
		MaxPayload:   uint16(cfg.maxPayload()),
		PathInFlight: uint16(cfg.PathInFlight),
		AckEvery:     uint16(cfg.AckEvery),
		AckDelay:     uint16(min(cfg.AckDelayNanos/1000, 65535)),
		MaxStreams:   uint16(cfg.MaxStreams),
		MessageDepth: uint16(cfg.MessageDepth),
		Paths:        uint8(cfg.Paths),
		PlaneCount:   uint8(len(cfg.Planes)),
		Private:      c.setup.private,
	}
	if !cfg.NoCRC {
		s.Features |= wire.FeatureCRC
	}
	for i := range cfg.Planes {
		s.Planes[i] = wire.PlaneAddr{
			Addr:      cfg.Planes[i].Addr,
			MTU:       uint16(cfg.Planes[i].MTU),
			SpeedMbps: uint32(cfg.Planes[i].LinkBitsPerSec / 1_000_000),
		}
	}
}

// terms are what both sides agreed on.
type terms struct {
	planes       int
	paths        int
	maxPayload   int
	pathInFlight int // F
	peerAckDelay int64
	peerAckEvery int
	requireCRC   bool
	dsnWindow    int
	depth        uint32 // messages per stream and direction
	streams      int
}

// agree takes the smaller of both sides' offers, or says why they do not fit.
func (c *Config) agree(s *wire.Setup) (terms, error) {
	t := terms{
		planes:       min(len(c.Planes), int(s.PlaneCount)),
		paths:        min(c.Paths, int(s.Paths)),
		maxPayload:   min(c.maxPayload(), int(s.MaxPayload)) &^ 7,
		pathInFlight: min(c.PathInFlight, int(s.PathInFlight)),
		peerAckDelay: int64(s.AckDelay) * 1000,
		peerAckEvery: int(s.AckEvery),
		requireCRC:   !c.NoCRC && s.Features&wire.FeatureCRC != 0,
		dsnWindow:    min(c.DSNWindow, int(s.DSNWindow)),
		depth:        uint32(min(c.MessageDepth, int(s.MessageDepth))),
		streams:      min(c.MaxStreams, int(s.MaxStreams)),
	}
	switch {
	case t.planes < 1 || t.paths < 1 || t.streams < 1 || t.depth < 1 || t.pathInFlight < 1 || s.RxPackets < 1:
		return t, errors.New("peer offers no plane, path, stream, message or receive capacity")
	case t.maxPayload < minPayload:
		return t, fmt.Errorf("payload per packet would be %d bytes, at least %d are needed", t.maxPayload, minPayload)
	case t.dsnWindow < 256 || t.dsnWindow&(t.dsnWindow-1) != 0 || t.depth&(t.depth-1) != 0:
		return t, fmt.Errorf("DSN window %d and message depth %d must be powers of two", t.dsnWindow, t.depth)
	}
	return t, nil
}

// begin takes the peer's numbers and sizes everything by the terms.
func (c *Conn) begin(now int64, s *wire.Setup, t terms) {
	c.terms = t
	c.flags = 0
	if c.requireCRC {
		c.flags = wire.FlagCRC
	}
	for p := range c.planes {
		c.peerAddr[p] = s.Planes[p].Addr
	}
	c.peer, c.peerTag, c.peerNonce = s.Conn, s.Tag, s.Nonce
	c.open(now)
	c.openWindows(now, int(s.RxPackets))
}

// handleConnect is the responder's first step.
func (e *Engine) handleConnect(now int64, plane int, from wire.Addr, body []byte) {
	s := &e.scratch.setup
	if r := wire.ParseSetup(body, s); r != 0 {
		e.Counters.Wire[r]++
		return
	}
	key := pendingKey{from: s.Planes[0].Addr, nonce: s.Nonce}
	if c := e.dialed[key]; c != nil {
		c.answerAgain(plane)
		return
	}
	refuse := func(reason wire.RefuseReason, text string) {
		e.Counters.SetupRefused++
		e.reply(plane, reply{
			kind: wire.REFUSE, to: from, text: text,
			header: wire.Header{Plane: uint8(plane), DestConn: s.Conn, Tag: s.Tag},
			refuse: wire.Refuse{PeerNonce: s.Nonce, Reason: reason},
		})
	}
	l, ok := e.listeners[string(s.Service)]
	switch {
	case !ok:
		refuse(wire.RefuseNoService, "no application listens on this service")
		return
	case e.pending >= e.cfg.MaxPending/2 && !e.cookieValid(now, from, s.Nonce, s.Cookie):
		refuse(wire.RefuseRetryCookie, string(e.cookie(now, from, s.Nonce)))
		return
	case e.pending >= e.cfg.MaxPending:
		refuse(wire.RefuseBusy, fmt.Sprintf("%d connections are being set up, the limit (max_pending)", e.pending))
		return
	}
	terms, err := e.cfg.agree(s)
	if err != nil {
		refuse(wire.RefuseIncompatible, err.Error())
		return
	}
	c, err := e.newConn(now)
	if err != nil {
		refuse(wire.RefuseBusy, err.Error())
		return
	}
	c.begin(now, s, terms)
	c.state = stateIncoming
	c.owner, c.service, c.pendingKey = l.owner, string(s.Service), key
	c.setup.plane = plane
	c.setup.at, c.setup.until = never, now+2*e.cfg.ConnectTimeoutNanos
	e.dialed[key] = c
	e.pending++
	e.deadline.arm(c, c.setup.until)
	e.events.push(Event{
		Kind: EventIncoming, Conn: c.id, Owner: c.owner, Service: c.service,
		Peer: from, Private: append([]byte(nil), s.Private...),
	})
}

// answerAgain deals with a CONNECT whose answer, if there was one, was lost.
func (c *Conn) answerAgain(plane int) {
	switch {
	case c.state == stateDead && c.setup.reason != 0:
		c.sendControl(plane, controlRefuse)
	case c.state == stateDead && c.closing.reset:
		c.sendControl(plane, controlReset)
	case c.state != stateDead && c.setup.accepted:
		c.sendControl(plane, controlAccept)
	}
}

// Accept answers EventIncoming. EventEstablished follows when the peer has
// confirmed.
func (c *Conn) Accept(now int64, private []byte) error {
	if c.state != stateIncoming {
		return ErrWrongState
	}
	if len(private) > MaxPrivate {
		return fmt.Errorf("%w: private data of %d bytes, at most %d", ErrBadRequest, len(private), MaxPrivate)
	}
	c.state = stateAccepting
	c.setup.accepted, c.setup.private = true, private
	c.setup.pause = setupPauseNanos
	c.setup.at, c.setup.until = now+setupPauseNanos, now+c.e.cfg.ConnectTimeoutNanos
	c.sendControl(c.setup.plane, controlAccept)
	c.e.deadline.arm(c, c.setup.at)
	return nil
}

// Refuse answers EventIncoming with a text the dialling side will see.
func (c *Conn) Refuse(now int64, text string) error {
	if c.state != stateIncoming {
		return ErrWrongState
	}
	c.setup.reason, c.setup.text = wire.RefuseApplication, text
	c.sendControl(c.setup.plane, controlRefuse)
	c.linger(now, refusedLingerNanos)
	return nil
}

// handleAccept is the initiator's second step.
func (c *Conn) handleAccept(now int64, plane int, body []byte) {
	s := &c.e.scratch.setup
	if r := wire.ParseSetup(body, s); r != 0 {
		c.e.Counters.Wire[r]++
		return
	}
	if s.PeerNonce != c.nonce || (c.state != stateConnecting && s.Nonce != c.peerNonce) {
		c.e.Counters.WrongState++
		return
	}
	switch {
	case c.state == stateDead:
		c.refuseState(now, plane)
		return
	case c.state != stateConnecting:
		c.sendControl(plane, controlConfirm) // our CONFIRM was lost
		return
	}
	terms, err := c.e.cfg.agree(s)
	if err != nil {
		c.dialFailed(now, uint16(wire.RefuseIncompatible), err.Error())
		return
	}
	private := append([]byte(nil), s.Private...)
	c.begin(now, s, terms)
	c.setup.at, c.setup.until = never, never
	c.state = stateEstablished
	c.sendControl(plane, controlConfirm)
	c.e.events.push(Event{
		Kind: EventEstablished, Conn: c.id, Owner: c.owner, Token: c.token,
		Service: c.service, Peer: c.peerAddr[plane], Private: private,
	})
	c.e.deadline.arm(c, c.nextDeadline(now))
}

func (c *Conn) handleConfirm(now int64, body []byte) {
	var m wire.Confirm
	if r := wire.ParseConfirm(body, &m); r != 0 {
		c.e.Counters.Wire[r]++
		return
	}
	if m.PeerNonce != c.nonce || m.Nonce != c.peerNonce {
		c.e.Counters.WrongState++
		return
	}
	if c.state == stateAccepting {
		c.establish(now)
	}
}

// settle stops counting a connection as being set up.
func (c *Conn) settle() {
	if c.state == stateIncoming || c.state == stateAccepting {
		c.e.pending--
	}
}

// establish ends the responder's set-up.
func (c *Conn) establish(now int64) {
	c.settle()
	c.state = stateEstablished
	c.setup.at, c.setup.until = never, never
	c.e.events.push(Event{
		Kind: EventEstablished, Conn: c.id, Owner: c.owner,
		Service: c.service, Peer: c.peerAddr[c.setup.plane],
	})
	c.e.deadline.arm(c, c.nextDeadline(now))
}

func (c *Conn) handleRefuse(now int64, body []byte) {
	var m wire.Refuse
	if r := wire.ParseRefuse(body, &m); r != 0 {
		c.e.Counters.Wire[r]++
		return
	}
	if c.state != stateConnecting || m.PeerNonce != c.nonce {
		c.e.Counters.WrongState++
		return
	}
	if m.Reason == wire.RefuseRetryCookie {
		if c.setup.cookie == nil {
			c.setup.cookie = append([]byte{}, m.Text...) // not nil, even when empty: this happens once
			c.setup.try--                                // the cookie is good for the address pair it came on
			c.tryConnect(now)
		}
		return
	}
	c.dialFailed(now, uint16(m.Reason), string(m.Text))
}

// dialFailed ends a Dial that did not become a connection.
func (c *Conn) dialFailed(now int64, reason uint16, text string) {
	c.e.events.push(Event{
		Kind: EventRefused, Conn: c.id, Owner: c.owner, Token: c.token,
		Service: c.service, Peer: c.setup.peers[0].Addr, Reason: reason, Text: text,
	})
	c.e.release(now, c)
}

// setupDeadline repeats what was not answered, and gives up in time.
func (c *Conn) setupDeadline(now int64) {
	s := &c.setup
	switch {
	case now >= s.until && c.state == stateConnecting:
		c.dialFailed(now, uint16(wire.RefuseTimeout), fmt.Sprintf("no answer after %d attempts to %d address(es) of the peer", s.try, len(s.peers)))
	case now >= s.until && c.state == stateIncoming:
		s.reason, s.text = wire.RefuseTimeout, "the application did not answer in time"
		c.sendControl(s.plane, controlRefuse)
		c.closed(now, uint16(wire.RefuseTimeout), s.text)
		c.linger(now, refusedLingerNanos)
	case now >= s.until && c.state == stateAccepting:
		c.fail(now, StatusSilent, "peer did not confirm the connection")
	case now >= s.at && c.state == stateConnecting:
		c.tryConnect(now)
	case now >= s.at && c.state == stateAccepting:
		s.plane = (s.plane + 1) % c.planes
		c.sendControl(s.plane, controlAccept)
		s.at = now + s.pause
		s.pause = min(2*s.pause, setupPauseMaxNanos)
	}
}
