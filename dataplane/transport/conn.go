package transport

import (
	"github.com/metaroced/metaroced/congestion"
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/pathsel"
)

// connState is the life of a connection (docs/PROTOCOL.md, "States").
type connState uint8

const (
	stateFree        connState = iota
	stateConnecting            // CONNECT sent, no ACCEPT yet
	stateIncoming              // CONNECT received, the application has not answered
	stateAccepting             // ACCEPT sent, not confirmed
	stateEstablished           // data flows
	stateClosing               // one side has closed, the other not yet
	stateDead                  // over; lingers to answer what still comes
)

func (s connState) String() string {
	return [...]string{"free", "connecting", "incoming", "accepting", "established", "closing", "dead"}[s]
}

// carriesData says whether planes and acknowledgments matter in this state.
func (s connState) carriesData() bool {
	return s == stateAccepting || s == stateEstablished || s == stateClosing
}

// Conn is one connection: its numbers, its sender's state per plane (tx) and
// its receiver's (rx).
type Conn struct {
	e     *Engine
	id    wire.ConnID
	tag   uint32
	nonce uint64
	state connState

	owner      uint32
	token      uint64
	service    string
	setup      setupState
	closing    closeState
	pendingKey pendingKey

	peer      wire.ConnID
	peerTag   uint32
	peerNonce uint64
	peerAddr  [MaxPlanes]wire.Addr
	flags     wire.Flags // on every packet of ours
	terms

	table      pathsel.Table
	tx         []txPlane
	peerUp     uint8 // planes the peer says are up
	nextPlane  int   // round-robin of retransmissions that leave their plane
	log        dsnLog
	msgs       messages
	sendS      []*sendStream // by stream number, made at first use
	activeS    fifo[*sendStream]
	shortQ     fifo[int32]
	controlQ   fifo[int32]
	backlog    uint64 // payload bytes posted and not yet sent once
	creditAt   int64  // when to ask for credit, or never
	creditWait int64  // the next pause between asking

	rx        []rxPlane
	claims    claimTable
	recvS     []*recvStream
	creditQ   fifo[uint16] // streams whose new limit the peer has not been told
	reportRR  int
	lastHeard int64
	keepAlive int64 // when the last keep-alive went out
	restarts  uint8 // answers saying the peer does not know us

	probeSecret uint64
	deadline    int64
	heapIndex   int
	stats       ConnStats
}

// txPlane is the sender's side of one plane of one connection.
type txPlane struct {
	cc        congestion.Plane
	paths     []sendPath
	runs      fifo[run]      // what the tail timer watches, oldest first
	resend    fifo[wire.DSN] // lost, to go out on this plane
	lastHeard int64          // last acknowledgment or probe answer about this plane
	silent    int            // packets whose timer expired since
	backoff   uint8          // doublings of the timer
	queued    bool           // in the engine's ready list
	turn      uint8
	wakeAt    int64  // when pacing allows the next packet
	probes    uint64 // paths to be probed
	fullAck   bool   // the next probe asks for a full acknowledgment
	control   controlMask
}

// rxPlane is the receiver's side of one plane of one connection.
type rxPlane struct {
	paths     []recvPath
	dirty     uint64 // paths with news since their last report
	unacked   int    // packets since the last acknowledgment
	ackAt     int64  // when an acknowledgment is due at the latest
	ackMask   uint8  // planes to be reported on this plane now
	lastPath  uint8  // where the newest packet came in
	bytes     int64  // arrived since the last acknowledgment
	backlog   int64  // newest the sender reported
	sender    int    // in the plane's allocator
	allocated bool
	probeAcks fifo[probeAck]
}

type probeAck struct {
	path, epoch uint8
	probe       wire.Probe
}

// ConnStats counts what one connection did.
type ConnStats struct {
	TxBytes, RxBytes                uint64 // payload: sent once; placed
	Retransmissions, ByTimer        uint64
	Spurious, Duplicates            uint64
	Operations, OperationsFailed    uint64
	PlaneFailures, RestartedAnswers uint64
}

// open sizes everything that both sides agreed on.
func (c *Conn) open(now int64) {
	e := c.e
	c.table.Init(pathsel.Config{
		Planes:        c.planes,
		PathsPerPlane: c.paths,
		RunPackets:    e.cfg.RunPackets,
		PathInFlight:  c.pathInFlight,
		MinRTONanos:   e.cfg.MinRTONanos,
		AckDelayNanos: c.peerAckDelay,
	}, e.cfg.Random())
	c.peerUp = uint8(1<<c.planes - 1)
	for p := range c.planes {
		t := &c.tx[p]
		t.paths = make([]sendPath, c.paths)
		t.wakeAt = never
		t.lastHeard = now
		c.rx[p].paths = make([]recvPath, c.paths)
		c.rx[p].ackAt = never
		if e.planeUp>>p&1 == 0 {
			c.table.SetPlaneUp(p, false)
		}
	}
	c.claims.init(e.cfg.DSNWindow)
	c.log.init(c.dsnWindow)
	c.sendS = make([]*sendStream, c.streams)
	c.recvS = make([]*recvStream, e.cfg.MaxStreams)
	c.creditAt = never
	c.keepAlive = now
	c.lastHeard = now
}

// openWindows starts congestion control, once the peer's capacity is known.
func (c *Conn) openWindows(now int64, peerPackets int) {
	e := c.e
	packet := int64(c.maxPayload + wire.DataOverhead + frameBytes)
	for p := range c.planes {
		cfg := congestion.Config{
			PacketBytes:      packet,
			InitialPackets:   max(4, 16/int64(c.planes)),
			MaxWindowBytes:   packet * int64(peerPackets),
			LinkBitsPerSec:   e.cfg.Planes[p].LinkBitsPerSec,
			DelayTargetNanos: e.cfg.DelayTargetNanos,
			BurstNanos:       e.cfg.BurstNanos,
		}
		c.tx[p].cc.Init(&cfg, now)
	}
}

// ready puts the connection into a plane's ready list.
func (c *Conn) ready(plane int) {
	t := &c.tx[plane]
	if t.queued || c.state == stateFree {
		return
	}
	t.queued = true
	c.e.ready[plane].push(c)
}

// wake makes every plane look for something to send.
func (c *Conn) wake() {
	for p := range c.planes {
		c.ready(p)
	}
}

// handle takes a packet whose tag and checksum are right.
func (c *Conn) handle(now int64, plane int, from wire.Addr, ce bool, h *wire.Header, body []byte) {
	c.lastHeard = now
	c.restarts = 0
	switch h.Type {
	case wire.DATA, wire.CONTROL, wire.REQUEST:
		if !c.state.carriesData() {
			c.refuseState(now, plane)
			return
		}
		c.handleReliable(now, plane, ce, h, body)
	case wire.ACK:
		if !c.state.carriesData() {
			c.e.Counters.WrongState++
			return
		}
		c.handleAck(now, plane, body)
	case wire.ACCEPT:
		c.handleAccept(now, plane, body)
	case wire.CONFIRM:
		c.handleConfirm(now, body)
	case wire.REFUSE:
		c.handleRefuse(now, body)
	case wire.CLOSE:
		c.handleClose(now, plane, h, body)
	case wire.RESET:
		c.handleReset(now, body)
	case wire.PROBE:
		c.handleProbe(now, plane, h, body)
	case wire.PROBE_ACK:
		c.handleProbeAck(now, plane, h, body)
	default:
		c.e.Counters.WrongState++
	}
}

// refuseState answers data for a connection that is over: the peer's RESET may
// have been lost.
func (c *Conn) refuseState(now int64, plane int) {
	c.e.Counters.WrongState++
	if c.state == stateDead && c.closing.reset {
		c.sendControl(plane, controlReset)
	}
}

// transmit writes the next packet of this connection for a plane.
func (c *Conn) transmit(now int64, plane int, buf []byte, tx *Tx) int {
	if c.state == stateFree {
		return 0
	}
	tx.Dst = c.peerAddr[plane]
	tx.Route = c.id.Index()*MaxPlanes + uint32(plane) + 1
	tx.Class = wire.ClassControl
	tx.SourcePort = c.e.cfg.Planes[plane].Addr.Port
	t := &c.tx[plane]
	if t.control != 0 {
		if n := c.writeControl(plane, buf, tx); n > 0 {
			return n
		}
	}
	if !c.state.carriesData() || plane >= c.planes || c.e.planeUp>>plane&1 == 0 {
		return 0
	}
	if c.shortQ.len()+c.controlQ.len() > 0 {
		if n := c.transmitData(now, plane, buf, tx); n > 0 {
			return n // short operations and control are not kept behind acknowledgments
		}
	}
	r := &c.rx[plane]
	if r.ackMask != 0 {
		if n := c.writeAck(now, plane, buf, tx); n > 0 {
			return n
		}
	}
	if r.probeAcks.len() > 0 {
		return c.writeProbeAck(plane, buf, tx)
	}
	if t.probes != 0 {
		return c.writeProbe(now, plane, buf, tx)
	}
	return c.transmitData(now, plane, buf, tx)
}

// header fills what every packet of this connection carries.
func (c *Conn) header(t wire.Type, plane int) wire.Header {
	return wire.Header{Type: t, Flags: c.flags, DestConn: c.peer, Tag: c.peerTag, Plane: uint8(plane), Class: wire.ClassControl}
}

// finish seals a packet whose body has the given length.
func finish(buf []byte, h *wire.Header, body int) int {
	n := wire.HeaderSize + body
	if h.Flags&wire.FlagCRC != 0 {
		n += wire.TrailerSize
	}
	wire.PutHeader(buf[:n], h)
	wire.Seal(buf[:n])
	return n
}
