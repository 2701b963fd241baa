package transport

import (
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/pathsel"
)

// silentPackets is what a plane that gives no answer after several doublings
// of its timer may still have in flight.
const silentPackets = 4

// choice is the packet that goes out next.
type choice struct {
	dsn    wire.DSN
	msg    int32
	repeat bool
	path   int // wished for, or -1
}

// transmitData writes the next DATA or CONTROL packet for a plane.
func (c *Conn) transmitData(now int64, plane int, buf []byte, tx *Tx) int {
	t := &c.tx[plane]
	if c.log.next == c.log.cumulative && c.backlog == 0 && c.shortQ.len()+c.controlQ.len() == 0 && c.activeS.len() == 0 {
		return 0
	}
	if !c.usable(plane) || !c.mayTransmit(now, plane) {
		return 0
	}
	var k choice
	if !c.choose(now, plane, &k) {
		return 0
	}
	path := k.path
	if path < 0 || !c.pathOpen(plane, path) {
		path = c.table.Pick(now, plane, t.cc.Window()/int64(c.maxPayload+wire.DataOverhead))
		if path >= 0 && !c.pathOpen(plane, path) {
			path = c.table.PickOther(now, plane, path)
		}
		if path < 0 || !c.pathOpen(plane, path) {
			return 0
		}
	}
	return c.emit(now, plane, path, &k, buf, tx)
}

// mayTransmit asks congestion control, and remembers when to ask again.
func (c *Conn) mayTransmit(now int64, plane int) bool {
	t := &c.tx[plane]
	bytes := int64(c.maxPayload + wire.DataOverhead + frameBytes)
	if t.backoff >= 2 && t.cc.InFlight() > silentPackets*bytes {
		return false
	}
	if t.cc.Allowed(now, bytes) {
		return true
	}
	if at := t.cc.NextAllowed(now); at != never {
		t.wakeAt = at
		c.e.deadline.arm(c, at)
	}
	return false
}

// pathOpen says whether a path can take one more packet.
func (c *Conn) pathOpen(plane, path int) bool {
	return c.tx[plane].paths[path].span() < c.pathInFlight
}

// choose finds the packet to send on a plane: control and short operations,
// then what was lost, then bulk.
func (c *Conn) choose(now int64, plane int, k *choice) bool {
	if c.controlQ.len() > 0 && c.log.room(0) {
		*k = choice{msg: *c.controlQ.front(), path: -1}
		return true
	}
	if c.shortQ.len() > 0 && c.log.room(controlDSNs) {
		*k = choice{msg: *c.shortQ.front(), path: -1}
		return true
	}
	q := &c.tx[plane].resend
	for q.len() > 0 {
		d := *q.front()
		if d >= c.log.cumulative {
			if r := c.log.at(d); r.state == recordQueued {
				*k = choice{dsn: d, msg: r.msg, repeat: true, path: -1}
				if r.losses == 1 && int(r.plane) == plane && c.table.Path(plane, int(r.path)).State == pathsel.Active {
					k.path = int(r.path)
				}
				return true
			}
		}
		q.pop()
	}
	if !c.log.room(reservedDSNs) {
		return false
	}
	for c.activeS.len() > 0 {
		s := *c.activeS.front()
		i := *s.waiting.front()
		m := &c.msgs.slots[i]
		if s.maySend(m) {
			*k = choice{msg: i, path: -1}
			return true
		}
		c.activeS.pop()
		s.active = false
		if s.fenced = s.behindFence(m); !s.fenced {
			c.waitForCredit(now) // the peer's application is behind
		}
	}
	return false
}

// emit takes a PSN, and a DSN for a new packet, and writes the packet.
func (c *Conn) emit(now int64, plane, path int, k *choice, buf []byte, tx *Tx) int {
	e := c.e
	t := &c.tx[plane]
	m := &c.msgs.slots[k.msg]
	index := m.next
	if k.repeat {
		index = c.log.at(k.dsn).index
		t.resend.pop()
		c.stats.Retransmissions++
		e.Counters.Retransmissions++
		c.table.Path(plane, path).Retransmissions++
	} else {
		k.dsn = c.log.push(dsnRecord{msg: k.msg, index: index})
		c.taken(m)
	}
	s := &t.paths[path]
	info := c.table.Path(plane, path)
	h := wire.Header{
		Type: wire.DATA, Flags: c.flags, DestConn: c.peer, Tag: c.peerTag,
		Plane: uint8(plane), Path: uint8(path), Epoch: info.Epoch, PSN: s.next,
	}
	if k.repeat {
		h.Flags |= wire.FlagRetransmission
	}
	if m.short || (index+1 == m.count && c.backlog == 0) || (k.repeat && c.backlog == 0) || c.fillsWindow(t) {
		h.Flags |= wire.FlagAckNow
	}
	var n int
	if m.kind == messageControl {
		h.Type, h.Class = wire.CONTROL, wire.ClassControl
		m.control.DSN, m.control.TxTimestamp = k.dsn, uint32(now)
		wire.PutControl(buf[wire.HeaderSize:], &m.control)
		n = finish(buf, &h, wire.ControlSize)
	} else {
		n = c.writeData(now, m, index, k.dsn, &h, buf)
	}
	tx.SourcePort, tx.Class = info.SourcePort, h.Class
	wireBytes := int32(n + frameBytes)
	psn := s.push(sentPacket{dsn: k.dsn, bytes: wireBytes, state: sentOut})
	r := c.log.at(k.dsn)
	r.psn, r.plane, r.path, r.state = psn, uint8(plane), uint8(path), recordSent
	c.table.OnSent(now, plane, path)
	t.cc.OnSent(now, int64(wireBytes))
	c.watch(now, plane, path, psn)
	return n
}

// fillsWindow says whether the next packet fills a window too small for the
// peer to acknowledge it by count: it would wait for its delay instead.
func (c *Conn) fillsWindow(t *txPlane) bool {
	packet := int64(c.maxPayload + wire.DataOverhead + frameBytes)
	w := t.cc.Window()
	return w < 2*packet*int64(c.peerAckEvery) && t.cc.InFlight()+2*packet > w
}

// taken moves a message on by one packet, and out of its queue at the end.
func (c *Conn) taken(m *message) {
	e := c.e
	m.next++
	m.issued++
	if m.kind == messageWrite {
		sent := min(m.length-uint64(m.next-1)*uint64(c.maxPayload), uint64(c.maxPayload))
		c.backlog -= sent
		c.stats.TxBytes += sent
	}
	switch {
	case m.kind == messageControl:
		c.controlQ.pop()
		return
	case m.short:
		c.shortQ.pop() // one packet, always
		return
	}
	s := *c.activeS.front()
	if m.next == m.count {
		s.waiting.pop()
	}
	switch {
	case s.waiting.len() == 0:
		s.active = false
		c.activeS.pop()
	case c.activeS.len() > 1 && m.next%uint32(e.cfg.RunPackets) == 0:
		c.activeS.push(c.activeS.pop())
	}
}

// writeData writes a DATA packet: header, destination, payload, checksum.
func (c *Conn) writeData(now int64, m *message, index uint32, dsn wire.DSN, h *wire.Header, buf []byte) int {
	d := wire.Data{
		DSN: dsn, Stream: m.stream, Op: wire.OpWrite, MSN: m.msn,
		PacketIndex: index, PacketCount: m.count, Immediate: m.imm,
		TxTimestamp: uint32(now), Backlog: uint32(min(c.backlog, 1<<32-1)),
		Key: m.remote, Offset: m.offset + uint64(index)*uint64(c.maxPayload),
	}
	if m.hasImm {
		h.Flags |= wire.FlagImm
	}
	if index+1 == m.count {
		h.Flags |= wire.FlagLast
	}
	if m.short {
		h.Class = wire.ClassShort
	}
	body := buf[wire.HeaderSize:]
	payload := 0
	if m.failed {
		h.Flags |= wire.FlagVoid
	} else {
		from := uint64(index) * uint64(c.maxPayload)
		payload = copy(body[wire.DataSize:wire.DataSize+c.maxPayload], m.mem[from:])
	}
	wire.PutData(body, &d)
	return finish(buf, h, wire.DataSize+payload)
}

// watch puts a transmission under the plane's tail timer, as part of its run.
func (c *Conn) watch(now int64, plane, path int, psn wire.PSN) {
	t := &c.tx[plane]
	if t.runs.len() > 0 {
		b := t.runs.back()
		if int(b.path) == path && b.last+1 == psn && int(psn-b.first) < c.e.cfg.RunPackets {
			b.last, b.sentAt = psn, now
			return
		}
	}
	t.runs.push(run{path: uint8(path), first: psn, last: psn, sentAt: now})
	if t.runs.len() == 1 {
		c.e.deadline.arm(c, c.runDeadline(plane))
	}
}
