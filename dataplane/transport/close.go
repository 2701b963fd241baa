package transport

import "github.com/metaroced/metaroced/dataplane/wire"

// closeState is the end of a connection, each direction on its own.
type closeState struct {
	wanted     bool // no new operations; CLOSE goes out when all have ended
	sent       bool
	answered   bool // the peer has answered our CLOSE
	peerClosed bool // the peer's CLOSE is answered
	reset      bool // ended by RESET: data that still comes is answered by another
	told       bool // EventClosed was delivered
	reason     wire.CloseReason
	tries      int
	at         int64 // next repetition of CLOSE or RESET
	freeAt     int64
}

const (
	closePauseNanos = 20_000_000
	closeTries      = 6
	resetTries      = 3
	lingerNanos     = 200_000_000
)

// Close ends a connection after the operations already posted. EventClosed
// follows. Posting after it fails.
func (c *Conn) Close(now int64, reason wire.CloseReason) error {
	switch c.state {
	case stateConnecting:
		c.dialFailed(now, uint16(wire.RefuseTimeout), "dial was cancelled")
		return nil
	case stateIncoming:
		return c.Refuse(now, "the application closed the request")
	case stateAccepting, stateEstablished, stateClosing:
		c.closing.wanted = true
		c.closing.reason = reason
		c.maybeClose(now)
		return nil
	}
	return ErrWrongState
}

// Abort ends a connection at once, without waiting for operations and without
// an event: its application is gone. The peer is told by RESET.
func (c *Conn) Abort(now int64, reason wire.CloseReason) {
	switch c.state {
	case stateFree, stateDead:
		return
	case stateConnecting:
		c.e.release(now, c)
		return
	}
	c.closing.told = true
	c.closing.reason = reason
	c.msgs.discard()
	c.sendReset(now)
}

// maybeClose sends CLOSE once every operation has ended.
func (c *Conn) maybeClose(now int64) {
	k := &c.closing
	if !k.wanted || k.sent || c.msgs.used > 0 || !c.state.carriesData() {
		return
	}
	c.settle()
	c.state = stateClosing
	k.sent = true
	c.repeatClose(now)
}

func (c *Conn) repeatClose(now int64) {
	k := &c.closing
	c.sendControl(k.tries%c.planes, controlClose)
	k.at = now + closePauseNanos<<min(k.tries, 4)
	k.tries++
	c.e.deadline.arm(c, k.at)
}

func (c *Conn) handleClose(now int64, plane int, h *wire.Header, body []byte) {
	var m wire.Close
	if r := wire.ParseClose(body, &m); r != 0 {
		c.e.Counters.Wire[r]++
		return
	}
	k := &c.closing
	if m.Nonce != c.nonce || c.state == stateConnecting || c.state == stateIncoming {
		c.e.Counters.WrongState++
		return
	}
	if h.Flags&wire.FlagReply != 0 {
		if !k.sent {
			c.e.Counters.WrongState++ // answers what was not asked
			return
		}
		k.answered = true
		c.finishClose(now)
		return
	}
	// Data below the final DSN is still on its way: the peer asks again.
	if c.claims.next() < m.FinalDSN && !k.sent && c.state.carriesData() {
		c.ackEverything(plane)
		return
	}
	c.sendControl(plane, controlCloseReply)
	if k.peerClosed || c.state == stateDead {
		return
	}
	k.peerClosed = true
	text := "peer closed the connection: " + m.Reason.String()
	if k.sent {
		text = "connection closed" // by us; the peer has followed
	}
	c.flushMessages(StatusPeerClosed)
	c.closed(now, uint16(m.Reason), text)
	k.wanted = true
	c.maybeClose(now)
	c.finishClose(now)
}

// finishClose lets the connection go when both directions are closed.
func (c *Conn) finishClose(now int64) {
	if c.closing.answered && c.closing.peerClosed && c.state != stateDead {
		c.closed(now, 0, "connection closed")
		c.linger(now, lingerNanos)
	}
}

func (c *Conn) handleReset(now int64, body []byte) {
	var m wire.Reset
	if r := wire.ParseReset(body, &m); r != 0 {
		c.e.Counters.Wire[r]++
		return
	}
	if m.Nonce != c.nonce || c.state == stateDead {
		c.e.Counters.WrongState++
		return
	}
	if c.state == stateConnecting {
		c.dialFailed(now, uint16(m.Reason), "peer reset the connection: "+m.Reason.String())
		return
	}
	c.flushMessages(StatusPeerClosed)
	c.closed(now, uint16(m.Reason), "peer reset the connection: "+m.Reason.String())
	c.linger(now, lingerNanos)
}

// fail ends a connection that cannot go on: every outstanding operation
// completes with a status.
func (c *Conn) fail(now int64, s Status, text string) {
	if c.state == stateDead || c.state == stateFree {
		return
	}
	c.flushMessages(s)
	c.closed(now, uint16(wire.CloseFailed), text)
	c.closing.reason = wire.CloseFailed
	c.sendReset(now)
}

// sendReset tells the peer, a few times since nothing answers it.
func (c *Conn) sendReset(now int64) {
	c.linger(now, lingerNanos)
	c.closing.reset = true
	c.closing.tries = 0
	c.repeatReset(now)
}

func (c *Conn) repeatReset(now int64) {
	k := &c.closing
	c.sendControl(k.tries%c.planes, controlReset)
	k.tries++
	k.at = never
	if k.tries < resetTries {
		k.at = now + closePauseNanos
		c.e.deadline.arm(c, k.at)
	}
}

// closed delivers EventClosed once, behind the end of every operation.
func (c *Conn) closed(_ int64, reason uint16, text string) {
	if c.closing.told {
		return
	}
	c.closing.told = true
	c.e.events.push(Event{
		Kind: EventClosed, Conn: c.id, Owner: c.owner, Token: c.token,
		Service: c.service, Reason: reason, Text: text,
	})
}

// linger keeps a connection that is over for a while, to answer what comes.
func (c *Conn) linger(now, nanos int64) {
	c.settle()
	c.state = stateDead
	c.closing.at = never
	c.closing.freeAt = now + nanos
	c.e.deadline.arm(c, c.closing.freeAt)
}

// closeDeadline repeats CLOSE or RESET and frees in the end.
func (c *Conn) closeDeadline(now int64) {
	k := &c.closing
	if c.state == stateDead {
		switch {
		case now >= k.freeAt:
			c.e.release(now, c)
		case k.reset && now >= k.at:
			c.repeatReset(now)
		}
		return
	}
	if !k.sent || now < k.at {
		return
	}
	if k.answered || k.tries >= closeTries {
		// Answered, but the peer does not close its side; or not answered at
		// all. Either way nothing of ours is outstanding.
		if k.answered && k.tries < closeTries {
			k.at, k.tries = now+closePauseNanos<<min(k.tries, 4), k.tries+1
			c.e.deadline.arm(c, k.at)
			return
		}
		c.flushMessages(StatusFlushed)
		c.closed(now, 0, "connection closed")
		c.linger(now, lingerNanos)
		return
	}
	c.repeatClose(now)
}
