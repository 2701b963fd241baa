package transport

// sendStream orders one stream's messages at the sender.
type sendStream struct {
	id      uint16
	active  bool        // in the connection's list of streams with bulk to send
	fenced  bool        // waits for the operations before the next one to end
	next    uint32      // MSN of the next message
	oldest  uint32      // first MSN whose completion was not delivered
	limit   uint32      // peer's credit: MSN below it may be sent
	slots   []int32     // message of each MSN in [oldest, next)
	waiting fifo[int32] // messages with packets not sent once
}

func (s *sendStream) slot(msn uint32) *int32 { return &s.slots[msn&uint32(len(s.slots)-1)] }

// maySend says whether the peer's credit and the fence let a message start.
func (s *sendStream) maySend(m *message) bool {
	return int32(m.msn-s.limit) < 0 && !s.behindFence(m)
}

// behindFence says whether a message waits for those before it to end.
func (s *sendStream) behindFence(m *message) bool { return m.fence && m.msn != s.oldest }

// recvMessage is one message on its way in.
type recvMessage struct {
	count   uint32 // packets
	placed  uint32
	bytes   uint64
	imm     uint32
	started bool
	hasImm  bool
	voided  bool // given up by its sender, or refused here
}

func (m *recvMessage) complete() bool {
	return m.started && (m.voided || m.placed == m.count)
}

// recvStream orders one stream's messages at the receiver: completion of one
// implies placement of all before it.
type recvStream struct {
	next     uint32 // first MSN not complete
	consumed uint32 // messages the application has taken, or that needed no taking
	limit    uint32 // credit the peer was last told
	queued   bool   // in the connection's creditQ
	msgs     []recvMessage
}

func (s *recvStream) msg(msn uint32) *recvMessage { return &s.msgs[msn&uint32(len(s.msgs)-1)] }

// sendStream returns a stream of ours, made at first use.
func (c *Conn) sendStream(id uint16) *sendStream {
	s := c.sendS[id]
	if s == nil {
		s = &sendStream{id: id, limit: c.depth, slots: make([]int32, c.depth)}
		c.sendS[id] = s
	}
	return s
}

// recvStream returns a stream of the peer's, made at first use, or nil when
// the number is above what was agreed.
func (c *Conn) recvStream(id uint16) *recvStream {
	if int(id) >= c.streams {
		return nil
	}
	s := c.recvS[id]
	if s == nil {
		s = &recvStream{limit: c.depth, msgs: make([]recvMessage, c.depth)}
		c.recvS[id] = s
	}
	return s
}
