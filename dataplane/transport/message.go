package transport

import "github.com/metaroced/metaroced/dataplane/wire"

// messageKind tells messages of applications from the engine's own.
type messageKind uint8

const (
	messageFree messageKind = iota
	messageWrite
	messageControl
)

// message is one operation of the sender, cut into packets.
type message struct {
	kind    messageKind
	status  Status
	failed  bool // what is still to be sent goes out as VOID
	done    bool // waits for older messages of its stream
	hasImm  bool
	short   bool
	fence   bool // starts when all earlier ones of its stream have ended
	stream  uint16
	msn     uint32
	imm     uint32
	count   uint32 // packets
	next    uint32 // first packet not sent once
	issued  uint32 // DSNs taken
	acked   uint32 // of these, placed at the peer
	mem     []byte // source, nil once failed
	length  uint64
	local   uint64 // region key of mem
	remote  uint64
	offset  uint64
	user    uint64
	control wire.Control
}

// complete says whether nothing of the message is outstanding.
func (m *message) complete() bool { return m.next == m.count && m.acked == m.issued }

// messages is a pool of message slots; its size is bounded by streams times
// message depth.
type messages struct {
	slots []message
	free  []int32
	used  int
}

func (p *messages) take() int32 {
	p.used++
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	p.slots = append(p.slots, message{})
	return int32(len(p.slots) - 1)
}

func (p *messages) release(i int32) {
	p.slots[i] = message{}
	p.free = append(p.free, i)
	p.used--
}

// discard forgets every message without telling anybody.
func (p *messages) discard() { *p = messages{} }

// Work is one WRITE an application posts.
type Work struct {
	Owner        uint32
	Stream       uint16
	HasImm       bool
	Fence        bool // starts when all earlier writes of the stream have ended
	Imm          uint32
	LocalKey     uint64
	LocalOffset  uint64
	Length       uint32
	RemoteKey    uint64
	RemoteOffset uint64
	UserData     uint64
}

// StatusRetry is what Post returns when the stream is full; it is never
// delivered to an application.
const StatusRetry Status = 255

// Post queues a WRITE. It returns StatusOK (EventSent follows), StatusRetry
// when the stream holds as many operations as were agreed, or why the request
// cannot be.
func (c *Conn) Post(now int64, w *Work) Status {
	if c.state != stateEstablished || c.closing.wanted {
		if c.state == stateAccepting {
			return StatusRetry
		}
		return StatusFlushed
	}
	if int(w.Stream) >= c.streams || w.RemoteOffset+uint64(w.Length) < w.RemoteOffset || w.Owner != c.owner {
		return StatusBadRequest
	}
	g := c.e.regions.find(w.LocalKey)
	if g == nil || g.Owner != w.Owner || !contains(len(g.Mem), w.LocalOffset, int(w.Length)) {
		return StatusLocalAccess
	}
	s := c.sendStream(w.Stream)
	if s.next-s.oldest >= c.depth {
		return StatusRetry
	}
	i := c.msgs.take()
	m := &c.msgs.slots[i]
	*m = message{
		kind: messageWrite, stream: w.Stream, msn: s.next, imm: w.Imm, hasImm: w.HasImm, fence: w.Fence,
		count: c.packets(w.Length), length: uint64(w.Length),
		mem: g.Mem[w.LocalOffset : w.LocalOffset+uint64(w.Length)], local: w.LocalKey,
		remote: w.RemoteKey, offset: w.RemoteOffset, user: w.UserData,
	}
	*s.slot(s.next) = i
	s.next++
	c.backlog += uint64(w.Length)
	c.stats.Operations++
	if w.Length <= shortBytes && s.waiting.len() == 0 && s.maySend(m) {
		m.short = true
		c.shortQ.push(i)
	} else {
		s.waiting.push(i)
		c.activate(s)
	}
	c.wake()
	return StatusOK
}

// packets is how many packets a message of this length takes, at least one.
func (c *Conn) packets(length uint32) uint32 {
	return max(1, uint32((uint64(length)+uint64(c.maxPayload)-1)/uint64(c.maxPayload)))
}

// activate lets a stream take part in sending.
func (c *Conn) activate(s *sendStream) {
	if !s.active && s.waiting.len() > 0 {
		s.active = true
		c.activeS.push(s)
	}
}

// queueControl sends a reliable CONTROL packet.
func (c *Conn) queueControl(_ int64, k wire.Control) {
	i := c.msgs.take()
	c.msgs.slots[i] = message{kind: messageControl, count: 1, control: k, short: true}
	c.controlQ.push(i)
	c.wake()
}

// failMessage lets what is outstanding of a message come to an end without
// touching its memory again: its packets go out as VOID from now on.
func (c *Conn) failMessage(i int32, s Status) {
	m := &c.msgs.slots[i]
	if m.failed || m.done || m.kind != messageWrite {
		return
	}
	if m.next < m.count {
		c.backlog -= m.length - uint64(m.next)*uint64(c.maxPayload)
		m.next = m.count - 1 // one VOID stands for all that was not sent
		c.backlog += m.length - uint64(m.next)*uint64(c.maxPayload)
	}
	m.failed, m.status, m.mem = true, s, nil
	c.wake()
}

// failMessagesOf ends the operations that read from a region that is gone.
func (c *Conn) failMessagesOf(_ int64, key uint64) {
	for i := range c.msgs.slots {
		if c.msgs.slots[i].kind == messageWrite && c.msgs.slots[i].local == key {
			c.failMessage(int32(i), StatusLocalAccess)
			c.msgs.slots[i].mem = nil
		}
	}
}

// operationRefused handles the peer's ERROR: it fails that operation only. The
// peer keeps the refused DSN from being placed until it knows that we have
// heard, so the DSN is outstanding and belongs to the message that is named.
func (c *Conn) operationRefused(_ int64, k *wire.Control) {
	s := c.usedStream(k.Stream)
	d := wire.DSN(k.Detail2)
	if s == nil || d >= c.log.next || int32(k.MSN-s.next) >= 0 {
		c.e.Counters.AckInvalid++
		return
	}
	if d < c.log.cumulative || k.MSN-s.oldest >= s.next-s.oldest {
		return // over already, with its connection
	}
	i := *s.slot(k.MSN)
	if c.log.at(d).msg != i {
		c.e.Counters.AckInvalid++
		return
	}
	if m := &c.msgs.slots[i]; m.done && m.status == StatusOK {
		m.status = StatusRemoteAccess // all placed or refused, not yet delivered
		return
	}
	c.failMessage(i, StatusRemoteAccess)
}

// usedStream returns a stream of ours on which something was posted, or nil.
func (c *Conn) usedStream(id uint16) *sendStream {
	if int(id) >= len(c.sendS) {
		return nil
	}
	return c.sendS[id]
}

// credit raises how many messages of a stream may be sent. A limit that is
// older than the one known is ignored. The peer raises it by what it has
// consumed, which was sent before, so never by more than the depth.
func (c *Conn) credit(stream uint16, limit uint32) {
	s := c.usedStream(stream)
	if s == nil || int32(limit-s.limit) > int32(c.depth) {
		c.e.Counters.AckInvalid++
		return
	}
	if int32(limit-s.limit) <= 0 {
		return
	}
	s.limit = limit // creditAt stays: other streams may wait for theirs
	c.activate(s)
	c.wake()
}

// acknowledged counts one DSN of a message as placed.
func (c *Conn) acknowledged(i int32) {
	m := &c.msgs.slots[i]
	m.acked++
	if !m.complete() {
		return
	}
	if m.kind == messageControl {
		if m.control.Kind == wire.ControlError {
			c.errorHeard(&m.control)
		}
		c.msgs.release(i)
		return
	}
	m.done = true
	s := c.sendS[m.stream]
	for s.oldest != s.next {
		i := *s.slot(s.oldest)
		if !c.msgs.slots[i].done {
			break
		}
		c.deliverSent(i)
		s.oldest++
	}
	if s.fenced {
		s.fenced = false
		c.activate(s)
	}
}

// deliverSent tells the application that an operation has ended.
func (c *Conn) deliverSent(i int32) {
	m := &c.msgs.slots[i]
	if m.status != StatusOK {
		c.stats.OperationsFailed++
	}
	c.e.events.push(Event{
		Kind: EventSent, Conn: c.id, Owner: c.owner, UserData: m.user, Status: m.status,
		Stream: m.stream, MSN: m.msn, Bytes: m.length,
	})
	c.msgs.release(i)
}

// flushMessages ends everything outstanding with a status.
func (c *Conn) flushMessages(status Status) {
	for _, s := range c.sendS {
		if s == nil {
			continue
		}
		for ; s.oldest != s.next; s.oldest++ {
			i := *s.slot(s.oldest)
			if m := &c.msgs.slots[i]; m.status == StatusOK && !m.done {
				m.status = status
			}
			c.deliverSent(i)
		}
		s.waiting = fifo[int32]{}
		s.active, s.fenced = false, false
	}
	c.msgs.discard()
	c.activeS = fifo[*sendStream]{}
	c.shortQ, c.controlQ = fifo[int32]{}, fifo[int32]{}
	c.backlog = 0
	c.creditAt = never
	c.forgetFlight()
}
