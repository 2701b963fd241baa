package transport

import (
	"github.com/metaroced/metaroced/dataplane/wire"
)

// handleReliable takes DATA, REQUEST and CONTROL: everything with a DSN. The
// order is claim, place, acknowledge (docs/PROTOCOL.md): a PSN is recorded,
// and so acknowledged, only when its DSN is placed.
func (c *Conn) handleReliable(now int64, plane int, ce bool, h *wire.Header, body []byte) {
	e := c.e
	if int(h.Plane) >= c.planes || int(h.Path) >= c.paths {
		e.Counters.Wire[wire.ReasonBadField]++
		return
	}
	r := &c.rx[h.Plane]
	timestamp, backlog := uint32(0), r.backlog
	accepted := false
	switch h.Type {
	case wire.DATA:
		d := &e.scratch.data
		payload, reason := wire.ParseData(body, d)
		if reason != 0 {
			e.Counters.Wire[reason]++
			return
		}
		c.confirmed(now)
		timestamp, backlog = d.TxTimestamp, int64(d.Backlog)
		accepted = c.handleData(now, h, d, payload)
	case wire.CONTROL:
		k := &e.scratch.control
		if reason := wire.ParseControl(body, k); reason != 0 {
			e.Counters.Wire[reason]++
			return
		}
		c.confirmed(now)
		timestamp = k.TxTimestamp
		accepted = c.handleControl(now, k)
	default:
		e.Counters.Unsupported++ // REQUEST needs feature bits that we do not offer
		return
	}
	if accepted {
		r.backlog = backlog
		r.bytes += int64(wire.HeaderSize + len(body) + wire.TrailerSize + frameBytes)
		c.arrived(now, plane, ce, h, timestamp)
	}
}

// confirmed takes data with a valid tag for the CONFIRM that it implies.
func (c *Conn) confirmed(now int64) {
	if c.state == stateAccepting {
		c.establish(now)
	}
}

// arrived records a PSN and decides when to acknowledge.
func (c *Conn) arrived(now int64, plane int, ce bool, h *wire.Header, timestamp uint32) {
	r := &c.rx[h.Plane]
	p := &r.paths[h.Path]
	if !p.used || p.epoch != h.Epoch {
		p.start(h.Epoch)
	}
	result := p.record(h.PSN)
	r.dirty |= 1 << h.Path
	r.lastPath = h.Path
	switch result {
	case psnDuplicate:
		c.e.Counters.DuplicatePSN++
	case psnOld:
		// Nobody knows whether it was counted: a replay must not look like news.
	default:
		p.packets++
		if ce {
			p.marked++
		}
	}
	if result == psnInOrder || result == psnHole {
		p.echo, p.echoAt = timestamp, now
	}
	if r.unacked == 0 {
		r.ackAt = now + c.e.cfg.AckDelayNanos
		c.e.deadline.arm(c, r.ackAt)
	}
	r.unacked++
	firstMark := ce && p.wasClean
	if firstMark {
		p.wasClean = false
	}
	if r.unacked >= c.e.cfg.AckEvery || result == psnHole || firstMark || h.Flags&wire.FlagAckNow != 0 {
		c.scheduleAck(int(h.Plane))
	}
}

// claim takes a DSN for placement and counts why it cannot.
func (c *Conn) claim(d wire.DSN) claimResult {
	result := c.claims.claim(d)
	switch result {
	case claimDuplicate, claimBusy:
		c.e.Counters.Duplicates++
	case claimOutside:
		c.e.Counters.OutsideWindow++
	}
	return result
}

// handleData claims and places one DATA packet. It returns whether the packet
// may be acknowledged.
func (c *Conn) handleData(now int64, h *wire.Header, d *wire.Data, payload []byte) bool {
	e := c.e
	s := c.recvStream(d.Stream)
	if s == nil {
		e.Counters.BadStream++
		return false
	}
	if d.Op != wire.OpWrite {
		e.Counters.Unsupported++
		return false
	}
	if int32(d.MSN-s.limit) >= 0 {
		e.Counters.OutsideWindow++ // without credit: nothing is kept for it
		return false
	}
	switch c.claim(d.DSN) {
	case claimNew:
	case claimDuplicate:
		c.stats.Duplicates++
		return true
	default:
		return false
	}
	reason := c.place(h, d, payload, s)
	if reason != 0 {
		c.sendError(now, d, s.msg(d.MSN), reason)
	} else {
		c.claims.placed(d.DSN)
		c.claims.advance()
	}
	c.deliver(d.Stream, s)
	return reason == 0
}

// place puts a claimed packet's payload where it says, after checking that it
// may. It returns 0, or why the packet is refused.
func (c *Conn) place(h *wire.Header, d *wire.Data, payload []byte, s *recvStream) wire.ErrorReason {
	e := c.e
	if d.MSN-s.next >= uint32(len(s.msgs)) {
		// A message that is over already because its sender gave it up or an
		// ERROR ended it: nothing to place.
		e.Counters.MessageOver++
		return 0
	}
	m := s.msg(d.MSN)
	hasImm := h.Flags&wire.FlagImm != 0
	if !m.started {
		*m = recvMessage{started: true, count: d.PacketCount, hasImm: hasImm, imm: d.Immediate}
	}
	switch {
	case m.voided:
		return 0
	case h.Flags&wire.FlagVoid != 0:
		m.voided = true
		return 0
	case m.count != d.PacketCount || m.hasImm != hasImm || hasImm && m.imm != d.Immediate || m.placed == m.count:
		e.Counters.BadMessage++
		return wire.ErrorBadMessage
	case len(payload) > c.maxPayload:
		e.Counters.BadPayload++
		return wire.ErrorTooLong
	}
	if reason := e.write(c.owner, d.Key, d.Offset, payload); reason != 0 {
		return reason
	}
	m.placed++
	m.bytes += uint64(len(payload))
	c.stats.RxBytes += uint64(len(payload))
	return 0
}

// write copies payload into a region after checking key, owner, permission and
// bounds. It returns 0, or why it did not. A connection reaches only regions of
// the session it belongs to.
func (e *Engine) write(owner uint32, key, offset uint64, payload []byte) wire.ErrorReason {
	g := e.regions.find(key)
	switch {
	case g == nil || g.Owner != owner:
		e.Counters.RemoteKey++
		return wire.ErrorUnknownKey
	case g.Access&RemoteWrite == 0:
		e.Counters.RemotePermission++
		return wire.ErrorPermission
	case !contains(len(g.Mem), offset, len(payload)):
		e.Counters.RemoteBounds++
		return wire.ErrorBounds
	}
	copy(g.Mem[offset:], payload)
	return 0
}

// sendError ends a message whose packet was refused and tells its sender. The
// refused DSN stays claimed until the sender has acknowledged the ERROR:
// otherwise the operation could complete as if it had succeeded.
func (c *Conn) sendError(now int64, d *wire.Data, m *recvMessage, reason wire.ErrorReason) {
	m.voided = true
	c.queueControl(now, wire.Control{
		Kind: wire.ControlError, Reason: uint16(reason), Stream: d.Stream,
		MSN: d.MSN, PacketIndex: d.PacketIndex, Detail: d.Key, Detail2: uint64(d.DSN),
	})
}

// errorHeard lets the DSN go on whose ERROR has arrived.
func (c *Conn) errorHeard(k *wire.Control) {
	c.claims.placed(wire.DSN(k.Detail2))
	c.claims.advance()
	c.scheduleAck(c.nextPlane)
}

// deliver completes messages in order.
func (c *Conn) deliver(id uint16, s *recvStream) {
	for {
		m := s.msg(s.next)
		if !m.complete() {
			return
		}
		if m.hasImm && !m.voided {
			c.e.events.push(Event{
				Kind: EventReceived, Conn: c.id, Owner: c.owner, Stream: id,
				MSN: s.next, Imm: m.imm, Bytes: m.bytes,
			})
		} else {
			s.consumed++
			c.grantCredit(id, s)
		}
		*m = recvMessage{}
		s.next++
	}
}

// Consumed says that the application has room for one more EventReceived of a
// stream: the peer's credit grows by one.
func (c *Conn) Consumed(stream uint16) {
	if s := c.recvS[stream]; s != nil {
		s.consumed++
		c.grantCredit(stream, s)
	}
}

// grantCredit lets the peer know of a new limit: with the next acknowledgment,
// or at once when a quarter of the depth is waiting.
func (c *Conn) grantCredit(id uint16, s *recvStream) {
	if s.queued {
		return
	}
	if grown := s.consumed + c.depth - s.limit; grown >= max(1, c.depth/4) {
		s.queued = true
		c.creditQ.push(id)
		if c.state.carriesData() {
			c.scheduleAck(c.nextPlane)
		}
	}
}

// handleControl takes a reliable CONTROL packet.
func (c *Conn) handleControl(now int64, k *wire.Control) bool {
	if result := c.claim(k.DSN); result != claimNew {
		return result == claimDuplicate
	}
	switch k.Kind {
	case wire.ControlError:
		c.operationRefused(now, k)
	case wire.ControlCredit:
		c.credit(k.Stream, uint32(k.Detail))
	default:
		// PLANE and SHARE kinds repeat what every acknowledgment carries.
	}
	c.claims.placed(k.DSN)
	c.claims.advance()
	return true
}
