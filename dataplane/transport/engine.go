package transport

import (
	"fmt"

	"github.com/metaroced/metaroced/congestion"
	"github.com/metaroced/metaroced/dataplane/wire"
)

// Engine holds every connection, region and listener of one worker.
type Engine struct {
	cfg     Config
	regions regionTable
	conns   []*Conn  // by connection index
	tags    []uint16 // next generation, by connection index
	free    fifo[uint32]
	quiet   fifo[quietIndex] // closed indices, waiting for their quiet time
	active  int

	listeners map[string]listener
	dialed    map[pendingKey]*Conn // every connection a peer asked for
	pending   int                  // of these, not yet confirmed
	secret    [2]uint64            // keys the stateless cookie

	planeUp  uint8 // mask of local planes whose link is up
	alloc    []congestion.Allocator
	ready    [MaxPlanes]fifo[*Conn]
	replies  [MaxPlanes]fifo[reply]
	deadline deadlineHeap
	events   fifo[Event]
	scratch  scratch

	// Counters are plain: whoever drives the engine reads them.
	Counters Counters
}

// scratch keeps parsed packets off the heap.
type scratch struct {
	header  wire.Header
	data    wire.Data
	control wire.Control
	ack     wire.Ack
	report  wire.PathReport
	setup   wire.Setup
}

// quietIndex is a connection index that may be used again at readyAt.
type quietIndex struct {
	index   uint32
	readyAt int64
}

// Tx tells how a packet from Transmit must leave.
type Tx struct {
	Dst        wire.Addr
	Route      uint32 // connection index x MaxPlanes + plane + 1; 0: no connection, use Dst
	SourcePort uint16
	Class      uint8
}

// New returns an engine, or an error naming the setting that cannot work.
func New(cfg Config) (*Engine, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:       cfg,
		conns:     make([]*Conn, 0, 64),
		listeners: make(map[string]listener),
		dialed:    make(map[pendingKey]*Conn),
		planeUp:   uint8(1<<len(cfg.Planes) - 1),
		alloc:     make([]congestion.Allocator, len(cfg.Planes)),
		secret:    [2]uint64{cfg.Random(), cfg.Random()},
	}
	e.regions.init(cfg.MaxRegions)
	for i := range e.alloc {
		e.alloc[i].Init(cfg.Planes[i].LinkBitsPerSec, 0, cfg.MaxConnections)
	}
	return e, nil
}

// HandlePacket takes one UDP payload that arrived on a plane. ce says whether
// the packet carried a congestion mark. pkt is not kept.
func (e *Engine) HandlePacket(now int64, plane int, from wire.Addr, ce bool, pkt []byte) {
	h := &e.scratch.header
	if r := wire.ParseHeader(pkt, h); r != 0 {
		e.Counters.Wire[r]++
		return
	}
	if mustCarryCRC(h.Type) && h.Flags&wire.FlagCRC == 0 {
		e.Counters.MissingCRC++
		return
	}
	if h.Type == wire.CONNECT {
		if e.verify(pkt, h) {
			e.handleConnect(now, plane, from, h.Body(pkt))
		}
		return
	}
	c := e.lookup(h.DestConn)
	if c == nil || c.tag != h.Tag {
		e.unknown(now, plane, from, pkt, h)
		return
	}
	if c.requireCRC && h.Flags&wire.FlagCRC == 0 {
		e.Counters.MissingCRC++
		return
	}
	if !e.verify(pkt, h) {
		return
	}
	c.handle(now, plane, from, ce, h, h.Body(pkt))
}

// mustCarryCRC says whether packets of a type carry the checksum whatever was
// agreed: their sender may not know what the receiver has agreed to.
func mustCarryCRC(t wire.Type) bool {
	return t == wire.CONNECT || t == wire.ACCEPT || t == wire.PROBE
}

func (e *Engine) verify(pkt []byte, h *wire.Header) bool {
	if r := wire.VerifyCRC(pkt, h); r != 0 {
		e.Counters.Wire[r]++
		return false
	}
	return true
}

func (e *Engine) lookup(id wire.ConnID) *Conn {
	i := id.Index()
	if i >= uint32(len(e.conns)) {
		return nil
	}
	if c := e.conns[i]; c != nil && c.id == id {
		return c
	}
	return nil
}

// unknown deals with a packet for no connection of ours: only a probe is
// answered, with the value it carried, so that a peer learns we restarted. The
// answer to such a probe of ours ends up here too.
func (e *Engine) unknown(now int64, plane int, from wire.Addr, pkt []byte, h *wire.Header) {
	e.Counters.UnknownConnection++
	if h.Type != wire.PROBE && h.Type != wire.PROBE_ACK || h.Flags&wire.FlagCRC == 0 || !e.verify(pkt, h) {
		return
	}
	var p wire.Probe
	if wire.ParseProbe(h.Body(pkt), &p) != 0 {
		return
	}
	if h.Type == wire.PROBE {
		p.Flags = wire.ProbeUnknown
		// The source port is the path's entropy, where nobody listens. The port
		// the peer named went with the connection; it is the same on all hosts.
		from.Port = e.cfg.Planes[plane].Addr.Port
		e.reply(plane, reply{kind: wire.PROBE_ACK, to: from, header: *h, probe: p})
		return
	}
	if c := e.lookup(wire.ConnID(p.Value >> 32)); c != nil && p.Flags&wire.ProbeUnknown != 0 &&
		p.Value == c.probeValue(h.Plane, h.Path) {
		c.peerUnknown(now)
	}
}

// Transmit writes the next UDP payload for a plane into buf and says where it
// goes. It returns 0 when there is nothing to send on that plane now. buf must
// hold a full packet: the agreed payload plus wire.DataOverhead.
func (e *Engine) Transmit(now int64, plane int, buf []byte, tx *Tx) int {
	if e.replies[plane].len() > 0 {
		return e.writeReply(e.replies[plane].pop(), buf, tx)
	}
	q := &e.ready[plane]
	for q.len() > 0 {
		c := *q.front()
		if n := c.transmit(now, plane, buf, tx); n > 0 {
			t := &c.tx[plane]
			if t.turn++; t.turn >= quantumPackets {
				t.turn = 0
				q.push(q.pop())
			}
			return n
		}
		q.pop()
		c.tx[plane].queued = false
	}
	return 0
}

// Pending says whether Transmit may have something for a plane.
func (e *Engine) Pending(plane int) bool {
	return e.ready[plane].len() > 0 || e.replies[plane].len() > 0
}

// Deadline is the time at which HandleDeadline must be called, or a very large
// value when nothing waits for time.
func (e *Engine) Deadline() int64 { return e.deadline.next() }

// HandleDeadline does what is due at now.
func (e *Engine) HandleDeadline(now int64) {
	for e.deadline.next() <= now {
		c := e.deadline.pop()
		c.handleDeadline(now)
		if c.state != stateFree {
			e.deadline.arm(c, max(c.nextDeadline(now), now+1))
		}
	}
}

// PollEvent takes the oldest event, if there is one.
func (e *Engine) PollEvent(ev *Event) bool {
	if e.events.len() == 0 {
		return false
	}
	*ev = e.events.pop()
	return true
}

// HandlePlane tells the engine that a local link came up or went down. What
// was outstanding on a plane that went down moves to others at once, and peers
// are told.
func (e *Engine) HandlePlane(now int64, plane int, up bool) {
	bit := uint8(1) << plane
	if up == (e.planeUp&bit != 0) {
		return
	}
	e.planeUp ^= bit
	for _, c := range e.conns {
		if c != nil && plane < c.planes && (c.state.carriesData() || c.state == stateIncoming) {
			c.planeChanged(now, plane)
			c.announcePlanes()
		}
	}
}

// newConn takes a connection index and its next generation.
func (e *Engine) newConn(now int64) (*Conn, error) {
	if e.active >= e.cfg.MaxConnections {
		return nil, fmt.Errorf("transport: %d connections are open, the limit (max_connections)", e.active)
	}
	for e.quiet.len() > 0 && e.quiet.front().readyAt <= now {
		e.free.push(e.quiet.pop().index)
	}
	var index uint32
	if e.free.len() > 0 {
		index = e.free.pop()
	} else {
		index = uint32(len(e.conns))
		if index >= 1<<20 {
			return nil, fmt.Errorf("transport: every connection index is in its quiet time; try again in a second")
		}
		e.conns = append(e.conns, nil)
		e.tags = append(e.tags, 0)
	}
	if e.tags[index]++; e.tags[index]&0xfff == 0 {
		e.tags[index]++ // so that no connection has number 0
	}
	c := &Conn{
		e:           e,
		id:          wire.MakeConnID(index, e.tags[index]&0xfff),
		tag:         uint32(e.cfg.Random()),
		nonce:       e.cfg.Random(),
		probeSecret: e.cfg.Random(),
		heapIndex:   -1,
		lastHeard:   now,
		creditAt:    never,
		tx:          make([]txPlane, len(e.cfg.Planes)),
		rx:          make([]rxPlane, len(e.cfg.Planes)),
	}
	for p := range c.rx {
		c.tx[p].wakeAt, c.rx[p].ackAt = never, never
	}
	e.conns[index] = c
	e.active++
	return c, nil
}

// quietNanos is how long a connection index rests before its next generation.
const quietNanos = 2_000_000_000

// release forgets a connection.
func (e *Engine) release(now int64, c *Conn) {
	if c.state == stateFree {
		return
	}
	c.settle()
	c.state = stateFree
	if e.dialed[c.pendingKey] == c {
		delete(e.dialed, c.pendingKey)
	}
	for p := range c.rx {
		if c.rx[p].allocated {
			e.alloc[p].Remove(c.rx[p].sender)
		}
	}
	e.deadline.remove(c)
	index := c.id.Index()
	e.conns[index] = nil
	e.active--
	e.quiet.push(quietIndex{index: index, readyAt: now + quietNanos})
}

// Conn returns the connection with this ID, or nil.
func (e *Engine) Conn(id wire.ConnID) *Conn { return e.lookup(id) }

// Connections calls f for every connection.
func (e *Engine) Connections(f func(*Conn)) {
	for _, c := range e.conns {
		if c != nil {
			f(c)
		}
	}
}
